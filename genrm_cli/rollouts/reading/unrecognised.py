"""Describe a record in an unknown format, and say what to do."""

from genrm_cli.errors import Message, SettingRef
from genrm_cli.json_types import Record
from genrm_cli.rollouts.reading.account import describe_open, open_fields, settings_of_roles
from genrm_cli.rollouts.reading.known_names import REFERENCES, Fields, has_text


def _named(told: str, prompt: str, response: str) -> Message:
    return Message.of(
        told, SettingRef("prompt_field", prompt), " ", SettingRef("response_field", response)
    )


# Files that are easily mistaken for rollouts: their keys, what they are, and what to do instead.
_NOT_ROLLOUTS: tuple[tuple[tuple[str, ...], str | Message], ...] = (
    *(
        (pair, "labelled pairs: use `genrm eval`")
        for pair in (
            ("chosen", "rejected"),
            ("response_A", "response_B"),
            ("response_a", "response_b"),
            ("output_1", "output_2"),
            ("response1", "response2"),
            ("response_1", "response_2"),
            ("conversation_a", "conversation_b"),
            ("preferred_output", "non_preferred_output"),
            ("response_0", "response_1"),
            ("answer_0", "answer_1"),
            ("human_ref_A", "human_ref_B"),
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
_SEE = "; see `genrm formats`"
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
    gold = next((name for name in REFERENCES if has_text(record.get(name))), None)
    told = "" if gold is None else f"{gold} is a reference, which is judged only if it is named; "
    if left := open_fields(record, Fields()):
        return Message.of(told, describe_open(left, "no format has these fields"), _SEE)
    return Message.of(told, "name its fields with ", settings_of_roles(), _SEE)
