"""Find the fields of a line that hold its prompt and its response.

A name is never ranked below another and then used when the other is missing: if several fields
could be the prompt, or the response, the line is refused with the choices."""

from collections.abc import Callable, Iterable, Sequence
from operator import is_

from msgspec.structs import replace

from genrm_cli.errors import Message
from genrm_cli.json_types import JsonObject
from genrm_cli.rollouts.reading.all_texts import settings_of_roles
from genrm_cli.rollouts.reading.answers import is_api_choices, is_reply, is_request
from genrm_cli.rollouts.reading.known_names import (
    MANY_RESPONSES,
    PARTS,
    PROMPTS,
    REFERENCES,
    REPLIES,
    REQUESTS,
    RESPONSE_NAMES,
    RESPONSES,
    SYSTEMS,
    UNCLEAR,
    Fields,
    plain_name,
)
from genrm_cli.rollouts.reading.messages import turns_of_messages
from genrm_cli.rollouts.reading.values import (
    distinct,
    has_text,
    is_messages,
    is_objects,
    iter_texts,
    list_or_empty,
    messages_in,
    object_or_empty,
    values_at,
)
from genrm_cli.rollouts.rollout import Rollout, Turn, Turns, UnreadableRecordError, join_texts

# Fields whose messages may hold the prompt alone, or the response, too.
CONVERSATIONS = ("messages", "conversation", "conversations", "turns")
# How a judge is told which part of the text follows the gap that the policy fills.
_SUFFIX = "The text that follows the response:"
# No number is a response. A `message` of a log is a text, and `text` of the Responses API is an
# object of settings.
_ANSWERS = (str, list, dict, type(None))
_KINDS: dict[str, tuple[type, ...]] = {"message": (dict,), "text": (str, list, type(None))}
# The fields that a line with a prompt and a response may have, by role.
LINE_FIELDS = Fields(
    prompt=(*PROMPTS, *REQUESTS),
    context=PARTS,
    response=(*RESPONSES, *MANY_RESPONSES, *REPLIES),
    reference=REFERENCES,
)


def resolved_once(resolve: Callable[[JsonObject], Fields]) -> Callable[[JsonObject], Fields]:
    """Return a function that resolves the fields of a record once for as long as it holds the same
    values: its account asks for them, and so does its reader.
    """
    last: tuple[JsonObject, Fields | None] = ({}, None)

    def fields_of(record: JsonObject) -> Fields:
        nonlocal last
        seen, read = last
        if read and seen.keys() == record.keys() and all(map(is_, seen.values(), record.values())):
            return read
        read = resolve(record)
        last = (dict(record), read)
        return read

    return fields_of


def resolve_line(record: JsonObject, response: str | None = None) -> Fields:
    """Return the fields of a line with one prompt, and one response or a list of alternatives.

    Of several that could be the prompt, or the response, none is chosen: the error lists them.
    A line whose `response` the user has named, and the reply of an API, may have no prompt."""
    _refuse_steps(record)
    responses = _responses_in(record) if response is None else [response]
    prompts = _prompts_in(record, responses)
    # Alpaca's `input` completes its `instruction`.
    is_one = len(prompts) == 1 or prompts == ["instruction", "input"]
    may_lack = not prompts and (response or any(is_reply(record[name]) for name in responses))
    is_unclear = response is None and any(name in UNCLEAR for name in responses)
    if not (is_one or may_lack) or len(responses) != 1 or is_unclear:
        raise UnreadableRecordError(_choices_of(prompts, responses))
    others = tuple(prompts[1:])
    return parts_of(
        record, Fields(prompt=tuple(prompts[:1]), context=others, response=tuple(responses))
    )


line_fields = resolved_once(resolve_line)


def has_prompt(record: JsonObject) -> bool:
    """Whether a line has a field that can hold a prompt on its own."""
    return any(_may_ask(name, record.get(name)) for name in LINE_FIELDS.prompt if name in record)


def has_response(record: JsonObject) -> bool:
    """Whether a line has a field that could be a response."""
    return any(name in record for name in RESPONSE_NAMES) or bool(_replies_in(record))


def _replies_in(record: JsonObject) -> list[str]:
    return [
        name
        for name in REPLIES
        if name in record
        and (is_reply(record[name]) or (name == "choices" and is_api_choices(record[name])))
    ]


def _may_ask(name: str, value: object) -> bool:
    # A list of texts is several prompts, and an object is one of its writer, if it is no request.
    if isinstance(value, dict) or name in REQUESTS:
        return is_request(value)
    return not isinstance(value, list) or not any(isinstance(each, str) for each in value)


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


def _responses_in(record: JsonObject) -> list[str]:
    """Return the fields that could be the response; a field that repeats another counts once."""
    present = [
        name
        for name in filter(record.__contains__, RESPONSE_NAMES)
        if isinstance(record[name], _KINDS.get(name, _ANSWERS))
    ]
    present += _replies_in(record)
    texts = {name: set(iter_texts(record[name])) for name in present}
    found = distinct(filter(texts.get, texts), lambda other, name: texts[name] <= texts[other])
    if len(found) == 2 and "text" in found:  # perhaps the whole conversation as one text
        (other,) = set(found) - {"text"}
        if all(each in text for text in texts["text"] for each in texts[other]):
            return [other]
    return found or [name for name in present if name in LINE_FIELDS.response][:1]


def _prompts_in(record: JsonObject, responses: Sequence[str]) -> list[str]:
    """Return the fields that could be the prompt; a field whose text another contains does not
    count.
    """
    present = [name for name in filter(record.__contains__, PROMPTS) if name not in responses]
    present += [name for name in REQUESTS if name in record and is_request(record[name])]
    asked = {name: _asked(record, name, responses) for name in present}
    texts = {name: list(iter_texts(value)) for name, value in asked.items()}
    wholes = {name: "\0".join(each) for name, each in texts.items() if each}
    found = distinct(wholes, lambda other, name: all(text in wholes[other] for text in texts[name]))
    for name in set(found).intersection(CONVERSATIONS):
        messages = asked[name]
        if is_messages(messages) and messages[-1].get("role") == "assistant":
            raise UnreadableRecordError(
                f"{name} end in a turn of the policy, and {', '.join(responses)} could be the "
                "response, too; ",
                _choices_of(found, (name, *responses)),
            )
    return found or present[:1]


def prompt_of(record: JsonObject, read: Fields) -> object:
    """Return the prompt of a line. A conversation that ends in the response is the prompt without
    it.
    """
    return _asked(record, read.prompt[0], read.response) if read.prompt else None


def _asked(record: JsonObject, name: str, responses: Iterable[str]) -> object:
    """Return a field without a last message that repeats a response."""
    value = messages_in(values_at(record, name))
    if name in CONVERSATIONS and is_messages(value) and value[-1].get("role") == "assistant":
        said = {text for response in responses for text in iter_texts(record.get(response))}
        last = set(iter_texts(value[-1]))
        if last and last <= said:
            return value[:-1]
    return value


# What a line has beside its prompt


def parts_of(record: JsonObject, read: Fields) -> Fields:
    """Return the fields with the parts of the prompt that a line has beside them, and its
    references.
    """
    taken = read.names()
    beside = [
        name
        for name, value in record.items()
        if name not in taken and _is_part(_plain_last(name), value) and has_text(value)
    ]
    beside.sort(key=lambda name: PARTS.index(_plain_last(name)))
    references = tuple(name for name in REFERENCES if name in record and name not in taken)
    return read._replace(context=(*read.context, *beside), reference=references)


def with_parts(record: JsonObject, read: Fields, rollouts: Sequence[Rollout]) -> list[Rollout]:
    """Return rollouts whose prompts have the system prompt, history and context beside them, each
    once.
    """
    if not read.context:
        return list(rollouts)
    return [
        replace(rollout, prompt=_with_parts(record, read, rollout.prompt)) for rollout in rollouts
    ]


def _with_parts(record: JsonObject, read: Fields, turns: Turns) -> Turns:
    shown = "\n".join(turn.text for turn in turns)
    before: list[Turn] = []
    context: list[str] = []
    for name in read.context:
        value = values_at(record, name)
        text = text_of_part(value)
        plain = _plain_last(name)
        if plain not in SYSTEMS and (history := _turns_of_history(value)):
            before += history
        elif text not in shown and plain in SYSTEMS:
            before.append(Turn("system", text))
        elif text not in shown:
            context.append(f"{_SUFFIX}\n{text}" if plain == "suffix" else text)
    if context:
        asked = [turn.text for turn in turns[-1:] if turn.role == "user"]
        turns = turns[: len(turns) - len(asked)]
        turns = (*turns, Turn("user", join_texts([*asked, *context])))
    return (*dict.fromkeys(before), *turns)


def _turns_of_history(value: object) -> Turns:
    """Return the turns of earlier messages, or of pairs of question and answer; none for anything
    else.
    """
    if is_messages(value):
        return turns_of_messages(value)
    pairs = [pair for pair in list_or_empty(value) if isinstance(pair, list) and len(pair) == 2]
    said = [each for pair in pairs for each in zip(("user", "assistant"), pair, strict=True)]
    turns = [Turn(role, text) for role, text in said if isinstance(text, str) and text]
    return tuple(turns) if pairs == value else ()


def text_of_part(value: object) -> str:
    """Return the text of a part of a prompt: options as lines, anything else as paragraphs."""
    if isinstance(value, str):
        return value
    if options := _options_of(value):
        return "\n".join(f"{label}. {text}" for label, text in options.items())
    return "\n".join(iter_texts(value))


def _options_of(value: object) -> JsonObject:
    """Return the options of a question by their labels; empty if a value has none."""
    if is_objects(value) and all({"label", "text"} <= each.keys() for each in value):
        return {str(each["label"]): each["text"] for each in value}
    options = object_or_empty(value)
    labels = options.get("label")
    texts = options.get("text")
    if isinstance(labels, list) and isinstance(texts, list):
        return dict(zip(map(str, labels), texts, strict=False))
    is_labelled = all(isinstance(each, str) and len(str(key)) < 3 for key, each in options.items())
    return options if is_labelled else {}


def _plain_last(path: str) -> str:
    return plain_name(path.rpartition(".")[2])


def _is_part(plain: str, value: object) -> bool:
    """Whether a value of this name is a part of a prompt: no settings called `options`, no lone
    choice, which is the known answer, and no choices of an API.
    """
    if plain not in ("options", "choices") or _options_of(value):
        return plain in PARTS
    is_lone = isinstance(value, list) and len(value) < 2
    return not (isinstance(value, dict) or is_lone or is_api_choices(value))
