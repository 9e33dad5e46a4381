"""Describe a record in an unknown format, and suggest what to do."""

from collections.abc import Iterator, Mapping, Sequence

from genrm_cli.errors import Message, SettingRef
from genrm_cli.json_types import Record

# Files that are easily mistaken for rollouts: their keys, what they are, and what to do instead.
_NOT_ROLLOUTS = (
    (("chosen", "rejected"), "labelled pairs: use `genrm eval`"),
    (("response_A", "response_B"), "labelled pairs: use `genrm eval`"),
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


def _advice(record: Record) -> Message:
    looks_like = next((told for signs, told in _NOT_ROLLOUTS if all(sign in record for sign in signs)), None)
    if looks_like is None and _ERROR_KEYS.issuperset(record) and not _ERROR_SIGNS.isdisjoint(record):
        looks_like = "an error reply of a server: download the file again"
    if looks_like is not None:
        return Message.of(f"this looks like {looks_like}")
    paths = list(_iter_texts(record))
    response = _most_telling(paths, _RESPONSE_WORDS)
    prompt = _most_telling([path for path in paths if path != response], _PROMPT_WORDS)
    response = response or _most_telling([path for path in paths if path != prompt], _ANY_TEXT)
    if len(paths) == 2 and (prompt is None) is not (response is None):  # the other text must be the other one
        prompt, response = prompt or _other(paths, response), response or _other(paths, prompt)
    how = "perhaps " if response is not None and prompt is not None else "as in "
    if response is None or prompt is None:
        prompt, response = "question", "reply.text"
    named = SettingRef("prompt_field", prompt), " ", SettingRef("response_field", response)
    return Message.of("name its fields, ", how, *named, "; or see `genrm formats`")


def _iter_texts(value: object, path: str = "", depth: int = 0) -> Iterator[str]:
    """Yield the dotted path of each field that is a text or a list of texts."""
    if isinstance(value, list) and value:
        value = value[0]
    if isinstance(value, Mapping) and depth < _MAX_DEPTH:
        for key, inner in value.items():
            yield from _iter_texts(inner, f"{path}.{key}" if path else str(key), depth + 1)
    elif isinstance(value, str) and path and " " not in path:
        yield path


def _other(paths: Sequence[str], path: str | None) -> str:
    return next(each for each in paths if each != path)


def _most_telling(paths: Sequence[str], words: Sequence[str]) -> str | None:
    """Return the path whose last name has the most specific word, or else the path that has it anywhere."""
    for part in (-1, slice(None)):
        for word in words:
            for path in paths:
                if word in str(path.lower().split(".")[part]):
                    return path
    return None
