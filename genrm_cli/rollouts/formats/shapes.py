"""The shapes that formats share: a prompt and a response, a conversation, several responses to one
prompt.
"""

from collections.abc import Sequence
from typing import Any, Literal

from msgspec.structs import replace

from genrm_cli.json_types import JsonObject
from genrm_cli.rollouts.reading.answers import asked_of, items_of_answer
from genrm_cli.rollouts.reading.known_names import SYSTEMS, plain_name
from genrm_cli.rollouts.reading.messages import (
    REASONING,
    items_of_messages,
    media_of_messages,
    read_messages,
    turns_of_messages,
)
from genrm_cli.rollouts.reading.record_fields import is_truncated, rollout_of
from genrm_cli.rollouts.reading.values import is_messages, list_or_empty, object_or_empty
from genrm_cli.rollouts.rollout import Rollout, Turn, UnreadableRecordError

Begins = Literal["task", "policy", "answer"]
"""Where the response of a conversation begins: after the first turn of the user, as in an episode;
with the first turn of the policy; or with its last one, with the tool turns before it."""
# SkyRL and AReaL decode with special tokens: what the environment said between turns of the policy
# is told by them.
_KEEPS_TOKENS = (
    frozenset(("input_prompt", "output_response")),
    frozenset(("task_id", "sample_idx")),
)


def read_completion(record: JsonObject, prompt: object, response: object, **known: Any) -> Rollout:
    """Read a rollout from the values of its two fields; `known` overrides its attributes."""
    asked = asked_of(prompt)
    keeps_tokens = any(record.keys() >= names for names in _KEEPS_TOKENS)
    if keeps_tokens and asked.template is not None and not asked.awaits_answer:
        # AReaL cuts the prompt by the number of trained tokens, also with several turns.
        raise UnreadableRecordError(
            "the prompt does not end where the policy begins: it holds turns of the policy"
        )
    # A loss mask has zeros for tokens that the policy did not write (slime).
    observes = keeps_tokens or 0 in list_or_empty(record.get("loss_mask"))
    items = items_of_answer(asked, response, observes=observes)
    is_cut = is_truncated(record) or is_truncated(object_or_empty(response))
    known = {"prompt_media": asked.media, "is_truncated": is_cut} | known
    return rollout_of(record, asked.turns, items, **known)


def read_alternatives(
    record: JsonObject,
    prompt: object,
    responses: Sequence[object],
    *,
    is_group: bool = True,
    **known: Any,
) -> list[Rollout]:
    """Read responses to one prompt, in their order: by default as a group of their own.

    They have no rollout index: if `group_by` joins lines, their positions would look like
    duplicates. Those with a system prompt of their own (UltraFeedback) answer other prompts."""
    if not responses:
        raise UnreadableRecordError("the list of responses is empty")
    stops = list_or_empty(record.get("finish_reasons", record.get("stop_reasons")))
    asked = asked_of(prompt)
    pairs = [_split_system(response) for response in responses]
    if len(pairs) > 1:
        known = {"index": None} | known
        if is_group and len({told for told, _ in pairs}) == 1 and not known.get("task"):
            known |= {"task": None, "line_is_group": True}
    rollouts = []
    if len(stops) != len(responses):
        stops = [None] * len(responses)
    for (told, response), stop in zip(pairs, stops, strict=True):
        turns = (Turn("system", told), *asked.turns) if told else asked.turns
        rollout = read_completion(record, replace(asked, turns=turns), response, **known)
        is_cut = rollout.is_truncated or is_truncated({"finish_reason": stop})
        rollouts.append(replace(rollout, is_truncated=is_cut))
    return rollouts


def _split_system(response: object) -> tuple[str, object]:
    """Return the system prompt that an alternative has for itself, and the alternative without
    it.
    """
    own = object_or_empty(response)
    for name, value in own.items():
        is_system = plain_name(name).removeprefix("custom_") in SYSTEMS
        if is_system and isinstance(value, str) and value.strip():
            return value, {key: each for key, each in own.items() if key != name}
    return "", response


def read_conversation(
    record: JsonObject, messages: object, begins: Begins | int = "answer", **known: Any
) -> Rollout:
    """Read a conversation whose response begins there, or at a position.

    There is no response if the user has the last word."""
    if not isinstance(messages, list):
        raise UnreadableRecordError("no messages, expected a list of messages")
    read = read_messages(messages)
    turns = turns_of_messages(read)
    start, end = response_span(turns, begins)
    known = {"prompt_media": media_of_messages(read[:start])} | known
    return rollout_of(record, turns[:start], items_of_messages(read[start:end]), **known)


def response_span(turns: Sequence[Turn], begins: Begins | int) -> tuple[int, int]:
    """Return the span of the response; empty, at the end, if there is none."""
    if isinstance(begins, int):
        return begins, len(turns)
    roles = [turn.role for turn in turns]
    end = len(turns)
    if begins == "task":
        return (roles.index("user") + 1 if "user" in roles else 0), end
    if begins == "policy":
        acts = (at for at, role in enumerate(roles) if role in ("assistant", REASONING))
        return next(acts, end), end
    while end and roles[end - 1] not in ("assistant", "user"):
        end -= 1
    if not end or roles[end - 1] == "user":
        return len(turns), len(turns)
    start = end
    while start and roles[start - 1] in ("assistant", "tool", REASONING):
        start -= 1
    return start, end


def splits_conversation(prompt: object, response: object) -> bool:
    """Whether a response is a conversation that holds more of its prompt than `prompt` does."""
    if not is_messages(response):
        return False
    turns = turns_of_messages(response)
    asked = asked_of(prompt).turns
    return turns[0].role != "assistant" and turns[: len(asked)] != (asked or None)
