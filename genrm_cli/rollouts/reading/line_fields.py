"""Find the fields of a line that hold its prompt and its response.

A name is never ranked below another and then used when the other is missing: if several fields
could be the prompt, or the response, the line is refused with the choices."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from genrm_cli.errors import Message
from genrm_cli.json_types import JsonObject
from genrm_cli.rollouts.reading.account import json_in, settings_of_roles
from genrm_cli.rollouts.reading.chat_messages import turns_of_messages
from genrm_cli.rollouts.reading.known_names import (
    CONTEXTS,
    HISTORIES,
    MANY_RESPONSES,
    PROMPTS,
    REFERENCES,
    RESPONSE_NAMES,
    RESPONSES,
    SYSTEMS,
    Fields,
    has_text,
    is_api_choices,
    is_messages,
    iter_texts,
    may_hold,
    plain_name,
)
from genrm_cli.rollouts.rollout import Rollout, Turn, UnreadableRecordError, join_texts

_CONVERSATIONS = ("messages", "conversation")
# How a judge is told which part of the text follows the gap that the policy fills.
_SUFFIX = "The text that follows the response:"
_READ_RESPONSES = (*RESPONSES, *MANY_RESPONSES)
_NEVER_ALONE = set(RESPONSE_NAMES).difference(_READ_RESPONSES).union({"message"})
# The fields that a line with a prompt and a response may have, by role.
LINE_FIELDS = Fields(
    prompt=PROMPTS,
    system=SYSTEMS,
    history=HISTORIES,
    context=CONTEXTS,
    response=_READ_RESPONSES,
    reference=REFERENCES,
)


def is_line(record: JsonObject) -> bool:
    """Whether a line has fields that can hold a prompt and a response."""
    return has_prompt(record) and any(name in record for name in RESPONSE_NAMES)


def has_prompt(record: JsonObject) -> bool:
    """Whether a line has a field that can hold a prompt on its own."""
    values = (record[name] for name in PROMPTS if name in record)
    # A list of texts is several prompts, and an object is one of its writer.
    return not all(
        isinstance(value, dict)
        or (isinstance(value, list) and any(isinstance(each, str) for each in value))
        for value in values
    )


def resolve_line(record: JsonObject, response: Sequence[str] | None = None) -> Fields:
    """Return the fields of a line with one prompt and one response, or a list of alternative
    responses.

    Of several that could be the prompt, or the response, none is chosen: the error lists them.
    `response` names those that may hold the response; by default, all that could."""
    _refuse_steps(record)
    responses = _responses_in(record, RESPONSE_NAMES if response is None else response)
    prompts = _prompts_in(record, responses)
    is_unclear = response is None and not set(responses).issubset(_READ_RESPONSES)
    if not _is_one_prompt(prompts) or len(responses) != 1 or is_unclear:
        raise UnreadableRecordError(_choices_of(prompts, responses))
    return _with_prompts(record, prompts, responses[0])


def resolve_prompt(record: JsonObject, response: str) -> Fields:
    """Return the fields of a line whose response the user has named; it may have no prompt."""
    prompts = _prompts_in(record, (response,))
    if prompts and not _is_one_prompt(prompts):
        raise UnreadableRecordError(_choices_of(prompts, (response,)))
    return _with_prompts(record, prompts, response)


def _is_one_prompt(prompts: Sequence[str]) -> bool:
    """Whether the fields are one prompt: Alpaca's `input` completes its `instruction`."""
    return len(prompts) == 1 or list(prompts) == ["instruction", "input"]


def _with_prompts(record: JsonObject, prompts: Sequence[str], response: str) -> Fields:
    also = tuple(prompts[1:])
    return parts_of(record, Fields(prompt=tuple(prompts[:1]), context=also, response=(response,)))


def _refuse_steps(record: JsonObject) -> None:
    """Refuse the steps of one response, each with a label (stepwise supervision in TRL): as
    alternatives, each would lack all others.
    """
    steps = record.get("completions")
    labels = record.get("labels")
    if isinstance(steps, list) and isinstance(labels, list) and len(steps) == len(labels):
        raise UnreadableRecordError(
            "completions with a label each are the steps of one response, not alternatives; join "
            "them into one text, or rename labels if they are"
        )


def parts_of(record: JsonObject, read: Fields) -> Fields:
    """Return the fields with the parts of the prompt that a line has beside them, and its
    references.
    """
    others = {
        name: value
        for name, value in record.items()
        if name not in read.names() and has_text(value)
    }
    beside = [
        name
        for plain in (*CONTEXTS, *HISTORIES)
        for name, value in others.items()
        if plain_name(name) == plain and not _is_no_part(plain, value)
    ]
    history = tuple(name for name in beside if is_messages(others[name]) or _is_pairs(others[name]))
    context = tuple(
        name for name in beside if name not in history and not is_api_choices(others[name])
    )
    return Fields(
        prompt=read.prompt,
        system=tuple(name for plain in SYSTEMS for name in others if plain_name(name) == plain),
        history=history,
        context=read.context + context,
        response=read.response,
        reference=tuple(
            name for name in REFERENCES if name in record and name not in read.response
        ),
    )


def _is_no_part(plain: str, value: object) -> bool:
    """Whether a value is no part of a prompt despite its name: settings called `options`, or one
    lone choice, which is the known answer.
    """
    if plain not in ("options", "choices") or _options_of(value):
        return False
    return isinstance(value, dict) or (isinstance(value, list) and len(value) < 2)


def prompt_of(record: JsonObject, read: Fields) -> object:
    """Return the prompt of a line. A conversation that ends in the response is the prompt without
    it.
    """
    name = read.prompt[0]
    return _asked(record, name, read.response) if name in _CONVERSATIONS else record[name]


def with_parts(record: JsonObject, read: Fields, rollouts: Sequence[Rollout]) -> list[Rollout]:
    """Return rollouts whose prompts have the system prompt, history and context beside them, each
    once.
    """
    return [
        replace(rollout, prompt=_with_parts(record, read, rollout.prompt)) for rollout in rollouts
    ]


def _with_parts(record: JsonObject, read: Fields, turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    shown = "\n".join(turn.text for turn in turns)
    system = [
        Turn("system", text)
        for name in read.system
        if (text := text_of_part(record[name])) not in shown
    ]
    history = [turn for name in read.history for turn in _turns_of_history(record[name])]
    context = [
        f"{_SUFFIX}\n{text}" if plain_name(name) == "suffix" else text
        for name in read.context
        if (text := text_of_part(record.get(name))) and text not in shown
    ]
    if not context:
        return (*dict.fromkeys(system), *history, *turns)
    last = len(turns) - 1 if turns and turns[-1].role == "user" else len(turns)
    asked = turns[last].text if last < len(turns) else ""
    return (
        *dict.fromkeys(system),
        *history,
        *turns[:last],
        Turn("user", join_texts([asked, *context])),
    )


def _choices_of(prompts: Sequence[str], responses: Sequence[str]) -> Message:
    """Return the ambiguity, and the settings that resolve it; an unambiguous field is already
    named.
    """
    unclear = "; ".join(
        f"no field holds the {role}" if not names else f"the {role} could be {', '.join(names)}"
        for role, names in (("prompt", prompts), ("response", responses))
        if role == "response" or len(names) != 1
    )
    return Message.of(unclear, "; say what each is with ", settings_of_roles())


def _responses_in(record: JsonObject, names: Sequence[str]) -> list[str]:
    """Return the fields that could be the response; a field that repeats another counts once."""
    texts = {
        name: set(iter_texts(record[name]))
        for name in names
        if name in record and may_hold(name, record[name])
    }
    found = [name for name, value in texts.items() if value]
    distinct = [
        name
        for at, name in enumerate(found)
        if not any(
            texts[name] < texts[other] or (texts[name] == texts[other] and found.index(other) < at)
            for other in found
        )
    ]
    if len(distinct) == 2 and "text" in distinct:  # perhaps the whole conversation as one text
        (other,) = set(distinct) - {"text"}
        if all(each in text for text in texts["text"] for each in texts[other]):
            return [other]
    return distinct or [name for name in names if name in record and name not in _NEVER_ALONE][:1]


def _prompts_in(record: JsonObject, responses: Sequence[str]) -> list[str]:
    """Return the fields that could be the prompt; a field whose text another contains does not
    count.
    """
    present = [name for name in PROMPTS if name in record and name not in responses]
    asked = {name: _asked(record, name, responses) for name in present}
    texts = {name: list(iter_texts(value)) for name, value in asked.items()}
    found = [name for name in present if texts[name]]
    distinct = [
        name
        for at, name in enumerate(found)
        if not any(
            _is_within(texts[name], texts[other])
            and (before < at or not _is_within(texts[other], texts[name]))
            for before, other in enumerate(found)
            if other != name
        )
    ]
    for name in set(distinct).intersection(_CONVERSATIONS):
        messages = asked[name]
        if (
            isinstance(messages, list)
            and is_messages(messages)
            and messages[-1]["role"] == "assistant"
        ):
            raise UnreadableRecordError(
                f"{name} end in a turn of the policy, and {', '.join(responses)} could be the "
                "response, too; ",
                _choices_of(distinct, (name, *responses)),
            )
    return distinct or present[:1]


def _asked(record: JsonObject, name: str, responses: Iterable[str]) -> object:
    """Return a field without a last message that repeats a response."""
    value = messages_at(record, name)
    if name in _CONVERSATIONS and isinstance(value, list) and is_messages(value):
        said = {text for response in responses for text in iter_texts(record.get(response))}
        last = set(iter_texts(value[-1]))
        if value[-1]["role"] == "assistant" and last and last <= said:
            return value[:-1]
    return value


def messages_at(record: JsonObject, name: str) -> object:
    """Return the value of a field; messages that are written as JSON text are read."""
    value = record.get(name)
    inner = json_in(value) if isinstance(value, str) else None
    return inner if is_messages(inner) else value


def _is_within(texts: Iterable[str], others: Iterable[str]) -> bool:
    whole = "\0".join(others)
    return all(text in whole for text in texts)


def _is_pairs(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, list)
        and len(each) == 2
        and all(isinstance(text, str | None) for text in each)
        for each in value
    )


def _turns_of_history(value: object) -> tuple[Turn, ...]:
    if is_messages(value) and isinstance(value, list):
        return turns_of_messages(value)
    pairs = value if isinstance(value, list) else []
    roles = ("user", "assistant")
    return tuple(
        Turn(role, text) for pair in pairs for role, text in zip(roles, pair, strict=True) if text
    )


def text_of_part(value: object) -> str:
    """Return the text of a part of a prompt: options as lines, anything else as paragraphs."""
    if isinstance(value, str):
        return value
    if options := _options_of(value):
        return "\n".join(f"{label}. {text}" for label, text in options)
    return "\n".join(iter_texts(value))


def _options_of(value: object) -> list[tuple[object, object]]:
    """Return the labelled options of a question; empty if a value is none, as settings called
    `options`.
    """
    if isinstance(value, list) and all(
        isinstance(each, dict) and {"label", "text"} <= each.keys() for each in value
    ):
        return [(each["label"], each["text"]) for each in value]
    if (
        isinstance(value, dict)
        and value.keys() == {"label", "text"}
        and isinstance(value["text"], list)
    ):
        return list(zip(value["label"], value["text"], strict=False))
    if isinstance(value, dict) and all(
        isinstance(text, str) and len(str(label)) < 3 for label, text in value.items()
    ):
        return list(value.items())
    return []
