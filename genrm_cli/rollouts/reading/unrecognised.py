"""Describe a record in an unknown format, and suggest what to do."""

from collections.abc import Iterator, Mapping, Sequence

from genrm_cli.errors import Message, SettingRef
from genrm_cli.json_types import Record
from genrm_cli.rollouts.reading.known_names import REFERENCES, has_text

_LIGHTEVAL = Message.of(
    "details of lighteval, whose rows hold tables: name the fields with ",
    *(SettingRef("prompt_field", "model_response.input"), " ", SettingRef("response_field", "model_response.text")),
)
# Files that are easily mistaken for rollouts: their keys, what they are, and what to do instead.
_NOT_ROLLOUTS: tuple[tuple[tuple[str, ...], str | Message], ...] = (
    *(
        (pair, "labelled pairs: use `genrm eval`")
        for pair in (
            *(("chosen", "rejected"), ("response_A", "response_B"), ("response_a", "response_b")),
            *(("output_1", "output_2"), ("response1", "response2"), ("response_1", "response_2")),
            *(("conversation_a", "conversation_b"), ("preferred_output", "non_preferred_output")),
        )
    ),
    (("doc", "model_response", "metric"), _LIGHTEVAL),
    (("custom_id", "method", "url"), "the input of an OpenAI batch: pass its output file"),
    (("custom_id", "params"), "the input of an Anthropic batch: pass the responses"),
    (("group_level_metrics",), "metrics: pass the file of rollouts"),
    (("settings_digest",), "metrics of genrm: pass the file of rollouts"),
    (("mean/reward",), "a reward profile: pass the file of rollouts"),
    (("score_1", "score_2"), "verdicts: pass the file of rollouts"),
    (("response_i", "response_j"), "comparisons: pass the file of rollouts"),
)
_ERROR_KEYS = {"error", "errors", "detail", "message", "status", "code", "type", "request_id"}
_ERROR_SIGNS = {"error", "errors", "detail"}
# Words in field names, the most specific first.
# Names that say what a text is not: a reference, a name, a role, another part of the prompt.
_NO_RESPONSES = ("gold", "reference", "expected", "ground_truth", "correct", "solution", "target", "label", "ideal")
_NO_PROMPTS = ("_id", "role", "system", "type", "name", "model")
_PROMPT_WORDS = ("prompt", "question", "query", "instruction", "problem", "user", "input", "task", "context")
_RESPONSE_WORDS = (
    *("response", "completion", "answer", "output", "generat", "reply", "assistant", "predict", "solution"),
    *("candidate", "sample", "result"),
)
_ANY_TEXT = ("text",)
_MAX_DEPTH = 3
_SHOWN_KEYS = 8


def describe_unrecognised(record: Record) -> Message:
    """Return the keys of a record in an unknown format, what it looks like, and what to do."""
    keys = sorted(record)
    shown = ", ".join(keys[:_SHOWN_KEYS]) or "none"
    more = f" and {len(keys) - _SHOWN_KEYS} more" if len(keys) > _SHOWN_KEYS else ""
    return Message.of(f"unknown format with the keys {shown}{more}; ", _advice(record))


def is_known_otherwise(record: Record) -> bool:
    """Whether a record looks like something other than rollouts."""
    return _looks_like(record) is not None


def _looks_like(record: Record) -> str | Message | None:
    return next((told for signs, told in _NOT_ROLLOUTS if all(sign in record for sign in signs)), None)


def _advice(record: Record) -> Message:
    looks_like = _looks_like(record)
    if looks_like is None and _ERROR_KEYS.issuperset(record) and not _ERROR_SIGNS.isdisjoint(record):
        looks_like = "an error reply of a server: download the file again"
    if looks_like is not None:
        return Message.of("this looks like ", looks_like)
    paths = list(_iter_texts(record))
    gold = [name for name in REFERENCES if has_text(record.get(name))]
    paths = [path for path in paths if not _is_reference(path)]
    prompts = [path for path in paths if not _has_word(path, _NO_PROMPTS)]
    response = _most_telling(paths, _RESPONSE_WORDS)
    prompt = _most_telling([path for path in prompts if path != response], _PROMPT_WORDS)
    response = response or _most_telling([path for path in paths if path != prompt], _ANY_TEXT)
    if (
        len(paths) == 2 and not gold and (prompt is None) is not (response is None)
    ):  # the other text must be the other one
        prompt, response = prompt or _other(prompts, response), response or _other(paths, prompt)
    how = "perhaps " if response is not None and prompt is not None else "as in "
    if response is None or prompt is None:
        prompt, response = "question", "reply.text"
    named = SettingRef("prompt_field", prompt), " ", SettingRef("response_field", response)
    is_reference = (
        f"{gold[0]} is a reference, which is judged only if it is named; " if gold and how == "as in " else ""
    )
    return Message.of(is_reference, "name its fields, ", how, *named, "; or see `genrm formats`")


def _iter_texts(value: object, path: str = "", depth: int = 0) -> Iterator[str]:
    """Yield the dotted path of each field that is a text or a list of texts."""
    if isinstance(value, list) and value:
        value = value[0]
    if isinstance(value, Mapping) and depth < _MAX_DEPTH:
        for key, inner in value.items():
            yield from _iter_texts(inner, f"{path}.{key}" if path else str(key), depth + 1)
    elif isinstance(value, str) and path and " " not in path:
        yield path


def _is_reference(path: str) -> bool:
    return path.split(".")[-1] in REFERENCES or _has_word(path, _NO_RESPONSES)


def _has_word(path: str, words: Sequence[str]) -> bool:
    return any(word in path.lower().split(".")[-1] for word in words)


def _other(paths: Sequence[str], path: str | None) -> str | None:
    return next((each for each in paths if each != path), None)


def _most_telling(paths: Sequence[str], words: Sequence[str]) -> str | None:
    """Return the path whose last name has the most specific word, or else the path that has it anywhere."""
    for part in (-1, slice(None)):
        for word in words:
            for path in paths:
                if word in str(path.lower().split(".")[part]):
                    return path
    return None
