"""Find the fields of a line that hold its prompt and its response.

Nothing is guessed: a text under a known name that could be part of either must be read, or repeat
what is read."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from genrm_cli.errors import Message, SettingRef
from genrm_cli.json_types import JsonObject, Record
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
    part_named,
    plain_name,
)
from genrm_cli.rollouts.rollout import Rollout, Turn, UnreadableRecordError, join_texts

_CONVERSATIONS = ("messages", "conversation")
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
    responses = _responses_in(record, RESPONSE_NAMES if response is None else response)
    prompts = _prompts_in(record, responses)
    also = list[str]()
    if prompts == ["instruction", "input"]:
        prompts, also = prompts[:1], prompts[1:]
    is_unclear = response is None and not set(responses).issubset(_READ_RESPONSES)
    if len(prompts) != 1 or len(responses) != 1 or is_unclear:
        raise UnreadableRecordError(_choices_of(prompts, responses))
    return parts_of(
        record, Fields(prompt=tuple(prompts), context=tuple(also), response=tuple(responses))
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
        if plain_name(name) == plain
        and not (plain == "options" and isinstance(value, dict) and not _options_of(value))
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
        if (text := _part_text(record[name])) not in shown
    ]
    history = [turn for name in read.history for turn in _turns_of_history(record[name])]
    context = [
        text for name in read.context if (text := _part_text(record[name])) and text not in shown
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


def unexplained(record: Record, read: Fields, format_: str) -> Message | None:
    """Return why a format, which reads these fields of a line, does not account for all others;
    None if it does.
    """
    names = [
        name
        for name in record.keys() - read.names()
        if part_named(name) and may_hold(name, record[name])
        if has_text(record[name]) and not _repeats(record, name, read)
    ]
    if not names:
        return None
    shown = ", ".join(sorted(names))
    prompts = [*read.prompt, *sorted(name for name in names if part_named(name) == "prompt")]
    responses = [*read.response, *sorted(name for name in names if part_named(name) == "response")]
    told = (
        f"{shown} could be part of the prompt or a response, but {format_} lines have no such "
        "field; "
    )
    return Message.of(
        told, _choices_of(prompts, responses), ", or set ", SettingRef("format", format_)
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
    prompt = SettingRef("prompt_field", prompts[0] if len(prompts) == 1 else None)
    response = SettingRef("response_field", responses[0] if len(responses) == 1 else None)
    return Message.of(unclear, "; name the fields with ", prompt, " and ", response)


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
    value = record[name]
    if name in _CONVERSATIONS and isinstance(value, list) and is_messages(value):
        said = {text for response in responses for text in iter_texts(record.get(response))}
        last = set(iter_texts(value[-1]))
        if value[-1]["role"] == "assistant" and last and last <= said:
            return value[:-1]
    return value


def _repeats(record: Record, name: str, read: Fields) -> bool:
    """Whether a field holds only texts that are read: as a part of the prompt, or as a whole
    response.
    """
    prompts = [
        text
        for each in read.names()
        if each not in read.reference
        for text in iter_texts(record.get(each))
    ]
    texts = list(iter_texts(record[name]))
    return (
        _is_within(texts, prompts) if part_named(name) == "prompt" else set(texts) <= set(prompts)
    )


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


def _part_text(value: object) -> str:
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
