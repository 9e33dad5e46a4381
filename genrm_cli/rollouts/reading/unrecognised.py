"""Describe a record in an unknown format, and suggest what to do."""

from collections.abc import Iterator, Sequence

from genrm_cli.errors import Message, SettingRef
from genrm_cli.json_types import Record
from genrm_cli.rollouts.reading.known_names import REFERENCES, has_text, is_messages, part_named


def _named(told: str, prompt: str, response: str) -> Message:
    return Message.of(
        told, SettingRef("prompt_field", prompt), " ", SettingRef("response_field", response)
    )


# Files that are easily mistaken for rollouts: their keys, what they are, and what to do instead.
_NOT_ROLLOUTS: tuple[tuple[tuple[str, ...], str | Message], ...] = (
    *(
        (pair, "labelled pairs: use `genrm eval`")
        for pair in (
            *(("chosen", "rejected"), ("response_A", "response_B"), ("response_a", "response_b")),
            *(("output_1", "output_2"), ("response1", "response2"), ("response_1", "response_2")),
            *(("conversation_a", "conversation_b"), ("preferred_output", "non_preferred_output")),
            *(
                ("response_0", "response_1"),
                ("answer_0", "answer_1"),
                ("human_ref_A", "human_ref_B"),
            ),
        )
    ),
    *(
        (signs, _named(f"{what}: name the fields with ", prompt, response))
        for signs, what, prompt, response in (
            (
                ("doc", "model_response", "metric"),
                *(
                    "details of lighteval, whose rows hold tables",
                    "model_response.input",
                    "model_response.text",
                ),
            ),
            (("question", "gt", "code"), "samples of Qwen2.5-Math", "question", "code"),
            (
                ("question_content", "output_list"),
                "outputs of LiveCodeBench",
                "question_content",
                "output_list",
            ),
        )
    ),
    *(
        (
            signs,
            _named(
                f"{what}, whose records are within: run `jq -c '{path}' FILE`, and name the "
                "fields with ",
                *paths,
            ),
        )
        for signs, what, path, *paths in (
            (
                ("request_states",),
                "a scenario of HELM",
                ".request_states[]",
                "request.prompt",
                "result.completions.text",
            ),
            (
                ("evalId", "results"),
                "results of promptfoo",
                ".results.results[]",
                "prompt.raw",
                "response.output",
            ),
            (("0",), "predictions of OpenCompass", ".[]", "origin_prompt", "prediction"),
        )
    ),
    (
        ("question_id", "choices"),
        Message.of(
            "answers of MT-Bench or arena-hard, whose prompts are in another file: run "
            "`jq -c '.choices[] as $c | {question_id, response: $c.turns[0]}' FILE`, and name the "
            "fields with ",
            *(SettingRef("response_field", "response"), " ", SettingRef("id_field", "question_id")),
        ),
    ),
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
# Names that say what a text is not: a reference, a name, a role, another part of the prompt.
_NO_RESPONSES = (
    *(
        "gold",
        "reference",
        "expected",
        "ground_truth",
        "correct",
        "solution",
        "target",
        "label",
        "ideal",
        "best",
    ),
)
_NO_TEXTS = (
    *(
        "id",
        "uuid",
        "role",
        "type",
        "name",
        "model",
        "version",
        "source",
        "title",
        "hash",
        "status",
        "reason",
        "date",
    ),
    *("language", "url", "key", "generator", "format"),
)
# Words in field names, the most specific first.
_PROMPT_WORDS = (
    "prompt",
    "question",
    "query",
    "instruction",
    "problem",
    "user",
    "input",
    "task",
    "context",
)
_RESPONSE_WORDS = (
    *(
        "response",
        "completion",
        "answer",
        "output",
        "generat",
        "reply",
        "assistant",
        "predict",
        "solution",
    ),
    *("candidate", "sample", "result"),
)
_ANY_TEXT = ("text",)
_SEE = "; or see `genrm formats`"
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
    return next(
        (told for signs, told in _NOT_ROLLOUTS if all(sign in record for sign in signs)), None
    )


def _advice(record: Record) -> Message:
    looks_like = _looks_like(record)
    if (
        looks_like is None
        and _ERROR_KEYS.issuperset(record)
        and not _ERROR_SIGNS.isdisjoint(record)
    ):
        looks_like = "an error reply of a server: download the file again"
    if looks_like is not None:
        return Message.of("this looks like ", looks_like)
    paths = [path for path in _iter_readable(record) if not _says_other(path)]
    gold = [name for name in REFERENCES if has_text(record.get(name))]
    prompts = [path for path in paths if not _has_word(path, ("system",))]
    responses = [path for path in paths if part_named(path.split(".")[-1]) != "prompt"]
    response = _most_telling(responses, _RESPONSE_WORDS)
    prompt = _most_telling([path for path in prompts if path != response], _PROMPT_WORDS)
    response = response or _most_telling([path for path in responses if path != prompt], _ANY_TEXT)
    if (
        len(paths) == 2 and not gold and (prompt is None) is not (response is None)
    ):  # the other text must be the other
        prompt, response = (
            prompt or _other(prompts, response),
            response or _other(responses, prompt),
        )
    told = f"{gold[0]} is a reference, which is judged only if it is named; " if gold else ""
    if prompt is not None and response is not None:
        return Message.of(_named("name its fields, perhaps ", prompt, response), _SEE)
    if len(talks := [name for name, value in record.items() if is_messages(value)]) == 1:
        return Message.of(
            f"{talks[0]} holds a conversation: name it messages, if its last turn is to be judged",
            _SEE,
        )
    if response is not None and (
        name := next((key for key in record if key.endswith(("id", "idx", "index"))), None)
    ):
        named = SettingRef("response_field", response), " ", SettingRef("id_field", name)
        return Message.of(
            "no field holds a prompt; name the response and the task, perhaps ", *named, _SEE
        )
    lacks = " or ".join(
        role for role, path in (("prompt", prompt), ("response", response)) if path is None
    )
    told = f"no field looks like a {lacks}; {told}"
    return Message.of(
        _named(f"{told}name its fields, as in ", prompt or "question", response or "reply.text"),
        _SEE,
    )


def _iter_readable(value: object, path: str = "", depth: int = 0) -> Iterator[str]:
    """Yield the dotted path of each field that holds a text, messages or a reply of an API, or a
    list of these.
    """
    if isinstance(value, list) and value and not is_messages(value):
        value = value[0]
    is_reply = isinstance(value, dict) and (
        "choices" in value or {"role", "content"} <= value.keys()
    )
    if path and " " not in path and (isinstance(value, str) or is_messages(value) or is_reply):
        yield path
    elif isinstance(value, dict) and depth < _MAX_DEPTH:
        for key, inner in value.items():
            yield from _iter_readable(inner, f"{path}.{key}" if path else str(key), depth + 1)


def _says_other(path: str) -> bool:
    words = path.lower().split(".")[-1].split("_")
    is_reference = path.split(".")[-1] in REFERENCES or _has_word(path, _NO_RESPONSES)
    return is_reference or words[-1] in _NO_TEXTS or words[0] in ("extracted", "parsed")


def _has_word(path: str, words: Sequence[str]) -> bool:
    return any(word in path.lower().split(".")[-1] for word in words)


def _other(paths: Sequence[str], path: str | None) -> str | None:
    return next((each for each in paths if each != path), None)


def _most_telling(paths: Sequence[str], words: Sequence[str]) -> str | None:
    """Return the path whose last name has the most specific word, or else the path that has it
    anywhere.
    """
    for part in (-1, slice(None)):
        for word in words:
            for path in paths:
                if word in str(path.lower().split(".")[part]):
                    return path
    return None
