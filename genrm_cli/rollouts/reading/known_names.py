"""Names of fields that hold prompts, responses and references, and the texts of a field in any
shape.

A name may have several roles: writers disagree. A format says which of them it reads, and as what.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Literal, TypeGuard

from genrm_cli.json_types import JsonObject

# A prompt on its own; all but one of those that a line has must repeat it.
PROMPTS = (
    *(
        "prompt",
        "messages",
        "conversation",
        "question",
        "query",
        "problem",
        "instruction",
        "input",
        "inputs",
    ),
    "user_input",
)
# Parts of a prompt beside it.
SYSTEMS = (
    "system",
    "system_prompt",
    "system_message",
    "system_instruction",
    "developer_prompt",
    "instructions",
)
HISTORIES = ("history", "conversation_history", "chat_history")
CONTEXTS = (
    *(
        "context",
        "contexts",
        "passage",
        "passages",
        "choices",
        "options",
        "retrieved_contexts",
        "retrieval_context",
    ),
)

# One response, or a list of alternatives.
RESPONSES = (
    *(
        "completion",
        "response",
        "output",
        "generation",
        "generated_text",
        "predict",
        "model_output",
    ),
    *(
        "model_response",
        "model_completion",
        "output_text",
        "response_text",
        "text",
        "generated_response",
    ),
    *("generated_solution", "llm_response", "llm_output", "actual_output", "message"),
)
MANY_RESPONSES = (
    "responses",
    "completions",
    "outputs",
    "generations",
    "samples",
    "candidates",
    "rollouts",
)
# A response for some writers; an extract of one, a pair, or a whole conversation for others. Read
# only if named.
_UNCLEAR = (
    *(
        "prediction",
        "predictions",
        "predicts",
        "predicted_text",
        "generated",
        "generated_texts",
        "model_answer",
    ),
    *(
        "reply",
        "conversations",
        "trajectory",
        "trajectories",
        "chosen",
        "rejected",
        "turns",
        "messages_and_choices",
    ),
)
# Never a response unless the user names it.
REFERENCES = (
    *(
        "reference",
        "references",
        "reference_answer",
        "reference_solution",
        "reference_response",
        "expected_answer",
    ),
    *(
        "expected_output",
        "expected",
        "answer",
        "answers",
        "correct_answer",
        "correct_answers",
        "incorrect_answers",
    ),
    *(
        "ground_truth",
        "ground_truths",
        "gold",
        "golden_answer",
        "gold_answer",
        "gt",
        "gts",
        "gt_cot",
        "best_answer",
    ),
    *(
        "ideal_completion",
        "solution",
        "solutions",
        "target",
        "targets",
        "label",
        "labels",
        "final_answer",
    ),
)

RESPONSE_NAMES = (*RESPONSES, *MANY_RESPONSES, *_UNCLEAR)
_PROMPT_NAMES = frozenset((*PROMPTS, *SYSTEMS, *HISTORIES, *CONTEXTS, "prefix", "raw_input"))
# Any other name that ends in one of these words could be a prompt or a response as well, ...
_PROMPT_WORDS = (
    *(
        "prompt",
        "prompts",
        "instruction",
        "instructions",
        "history",
        "context",
        "contexts",
        "document",
        "documents",
    ),
    *("article", "articles", "passage", "passages", "examples", "dialogue", "dialog", "question"),
    *("query", "problem"),
)
_RESPONSE_WORDS = (
    *(
        "response",
        "responses",
        "completion",
        "completions",
        "output",
        "outputs",
        "generation",
        "generations",
    ),
    *("conversation", "conversations"),
)
# ... unless one of these says whose text it is.
_OTHERS_WORDS = {
    *(
        "judge",
        "judgment",
        "grader",
        "grading",
        "critic",
        "critique",
        "verifier",
        "verification",
        "reward",
        "eval",
    ),
    *(
        "evaluation",
        "evaluator",
        "scorer",
        "error",
        "reference",
        "expected",
        "gold",
        "correct",
        "incorrect",
        "ideal",
    ),
    *(
        "target",
        "test",
        "tests",
        "tool",
        "parsed",
        "extracted",
        "negative",
        "feedback",
        "public",
        "private",
    ),
}
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
_NUMBER = re.compile(r"(?<=[a-z])_?\d+$|_[a-z]$")


@lru_cache(maxsize=1024)
def plain_name(name: str) -> str:
    """Return a name in one spelling: `system_prompt` for `systemPrompt`, and `response` for
    `response_b`.
    """
    return _NUMBER.sub("", "_".join(_WORD_START.split(name)).lower())


@lru_cache(maxsize=1024)
def part_named(name: str) -> Literal["prompt", "response"] | None:
    """Return what a field of this name could hold; None for a name that says neither."""
    plain = plain_name(name)
    if plain in _PROMPT_NAMES or plain in RESPONSE_NAMES:
        return "prompt" if plain in _PROMPT_NAMES else "response"
    words = plain.split("_")
    if plain in REFERENCES or not _OTHERS_WORDS.isdisjoint(words):
        return None
    return (
        "prompt"
        if words[-1] in _PROMPT_WORDS
        else "response"
        if words[-1] in _RESPONSE_WORDS
        else None
    )


_TEXT_KEYS = ("content", "text", "value", "message", "output", "response", "parts")


def iter_texts(value: object) -> Iterator[str]:
    """Yield the texts of a value that are not blank: of a text, messages, content parts, or lists
    of these.
    """
    if isinstance(value, str):
        if text := value.strip():
            yield text
    elif isinstance(value, list):
        for each in value:
            yield from iter_texts(each)
    elif isinstance(value, dict):
        names = [name for name in _TEXT_KEYS if name in value] or value
        for name in names:
            yield from iter_texts(value[name])


def has_text(value: object) -> bool:
    """Whether a value holds any text that is not blank."""
    return next(iter_texts(value), None) is not None


def may_hold(name: str, value: object) -> bool:
    """Whether a value could be a prompt or a response: no number, and `message` only as an
    object.
    """
    return isinstance(value, list | dict | None) or (isinstance(value, str) and name != "message")


def is_messages(value: object) -> TypeGuard[list[JsonObject]]:
    """Whether a value is a list of messages."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(each, dict) and "role" in each for each in value)
    )


def is_api_choices(value: object) -> bool:
    """Whether a value is the list of choices of an API's completion; other `choices` are those of a
    question.
    """
    return isinstance(value, list) and all(
        isinstance(each, dict)
        and (
            "message" in each
            or ("text" in each and not {"index", "finish_reason", "logprobs"}.isdisjoint(each))
        )
        for each in value
    )


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields that a format reads, by role.

    A field may have several roles: `messages` often hold prompt and response. Together they say
    what the format accounts for: any other field could hold a prompt or a response that it does not
    read.

    Attributes:
        prompt: what the policy answered: a text or messages. Of several, the first that a line has
            is read.
        response: what the policy answered; of several likewise.
        metadata: names, rewards, and what else tells the format apart.
    """

    prompt: tuple[str, ...] = ()
    system: tuple[str, ...] = ()
    history: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    response: tuple[str, ...] = ()
    reference: tuple[str, ...] = ()
    reasoning: tuple[str, ...] = ()
    metadata: tuple[str, ...] = ()

    def names(self) -> tuple[str, ...]:
        """Return all fields, each once."""
        return tuple(
            dict.fromkeys(name for role in fields(self) for name in getattr(self, role.name))
        )

    def roles(self) -> dict[str, tuple[str, ...]]:
        """Return the fields of each role that has any."""
        return {role.name: names for role in fields(self) if (names := getattr(self, role.name))}

    def present_in(self, record: JsonObject) -> "Fields":
        """Return the fields that a line has; of the alternatives for prompt and response the first
        with a text.
        """
        present = {
            role: tuple(name for name in names if name in record)
            for role, names in self.roles().items()
        }
        for role in ("prompt", "response"):
            names = present.get(role, ())
            present[role] = tuple([name for name in names if has_text(record[name])] or names)[:1]
        return Fields(**present)
