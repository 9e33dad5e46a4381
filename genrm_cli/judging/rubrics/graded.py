"""Profiles of judges that grade by a plan, and the parsing of the JSON object in an answer.

One JSON Schema says what is asked for and how it is read (`_GradedForm`): servers that support it
constrain the judge to it, and the others are asked for the same in words. So a reply is read
leniently where models vary (a number as a string, a quotation left out, an entry given as its only
value), and strictly everywhere else.

An object may hold neither unexpected nested values nor a key in the wrong place: they could be the
judge's real answer, if a response that it quotes has torn its object in two."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.judging.profiles.answer import ambiguous, excerpt, parse_number, unreadable
from genrm_cli.judging.profiles.json_objects import key_form, parse_object
from genrm_cli.judging.profiles.profile import GREEDY, ChatMessage, Fields, GradingProfile, freeze
from genrm_cli.judging.profiles.prompt import render_listwise
from genrm_cli.judging.requests import ListwisePrompt, Reply
from genrm_cli.verdicts import Failure, FailureKind, Grades

MAX_NOTE_CHARS = 300  # a quotation of one or two sentences, as the prompt asks
NUMBER: Fields = {"type": "integer"}
TEXT: Fields = {"type": "string"}

SESSION = """\
A response may be a whole session, written as turns. Then the assistant's turns are what counts, \
and those of the user or client are what it had to deal with."""

Given = dict[str, Any]
"""The members of an object, each of the type that its schema asks for."""


def graded_profile(
    name: str,
    version: int,
    about: str,
    title: str,
    properties: Fields,
    render: Callable[[ListwisePrompt], list[ChatMessage]],
    grade: Callable[[ListwisePrompt, Given], Grades],
    *,
    whole_group: bool = False,
) -> GradingProfile:
    """Return a profile that asks for one JSON object.

    Args:
        title: of the schema.
        properties: schema by key of the object. Texts without a list of choices are notes, which
            may be missing; all else must be there, but for lists, which are then empty.
        grade: makes grades of the object, or raises `UnreadableError`.
    """
    form = _GradedForm(properties)

    def parse_reply(reply: Reply, prompt: ListwisePrompt) -> Grades | Failure:
        return parse_object(
            reply, prompt, lambda pairs: grade(prompt, form.read(pairs)), form.keys, form.every_key
        )

    return GradingProfile(
        name=name,
        version=version,
        about=about,
        request_fields=request_object(title, properties),
        render_messages=render,
        parse_reply=parse_reply,
        verdict_forms=(key_form(form.every_key),),
        whole_group=whole_group,
    )


def render_graded(prompt: ListwisePrompt, task: str, plan: str, closing: str) -> list[ChatMessage]:
    """Render the responses by number, from 0, and after them the plan with the prompt's
    principle.
    """
    principle = (
        plan if prompt.principle is None else f"{plan}\n\nKeep to this as well:\n{prompt.principle}"
    )
    names = [str(number) for number in range(len(prompt.responses))]
    return render_listwise(replace(prompt, principle=principle), names, closing, task)


def request_object(name: str, properties: Fields) -> Fields:
    """Return request fields that constrain the judge to one JSON object with these properties, in
    order.
    """
    json_schema = {"name": name, "strict": True, "schema": object_of(properties)}
    response_format = {"type": "json_schema", "json_schema": json_schema}
    return MappingProxyType({**GREEDY, "response_format": freeze(response_format)})


def object_of(properties: Fields) -> dict[str, object]:
    """Return the schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def list_of(items: Fields) -> dict[str, object]:
    """Return the schema of a list."""
    return {"type": "array", "items": items}


def in_order(entries: Sequence[Given], count: int) -> list[Given]:
    """Return entries with an `index` from 0 to count - 1, each exactly once, by this index."""
    check_numbers([entry["index"] for entry in entries], count)
    return sorted(entries, key=lambda entry: float(entry["index"]))


def check_numbers(numbers: Sequence[float], count: int) -> None:
    """Raise `UnreadableError` unless the numbers are 0 to count - 1, each exactly once."""
    known = set(range(count))
    for number in numbers:
        if number not in known:  # also NaN and fractions
            raise unreadable(f"there is no number {number:g} of {count}", FailureKind.OUT_OF_RANGE)
    if len(numbers) > len(set(numbers)):
        raise ambiguous("a number is named more than once")
    if missing := known.difference(map(int, numbers)):
        raise unreadable(f"number {min(missing)} is not named")


class _GradedForm(Struct, frozen=True):
    """The form of the object that a judge is asked for."""

    properties: Fields

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the object, without those of notes."""
        return tuple(key for key, schema in self.properties.items() if schema != TEXT)

    @property
    def every_key(self) -> tuple[str, ...]:
        """Keys of the object and of those in it, without those of notes."""
        return tuple(dict.fromkeys(_iter_keys(self.properties)))

    def read(self, pairs: object, properties: Fields | None = None) -> Given:
        """Return the members of a decoded object, or raise `UnreadableError`."""
        schemas: Mapping[str, Any] = self.properties if properties is None else properties
        if not isinstance(pairs, tuple):
            raise unreadable(f"not an object: {excerpt(pairs)}")
        given: Given = {}
        for key, value in pairs:
            if key in given:
                raise ambiguous(f"{key} is given more than once")
            if key in schemas:
                given[key] = self._read_value(key, value, schemas[key])
            elif key in self.every_key or isinstance(value, (tuple, list, float)):
                raise unreadable(f"unexpected {excerpt(key)}: {excerpt(value)}")
        for key in schemas.keys() - given.keys():
            if schemas[key] == TEXT:
                given[key] = ""
            elif schemas[key]["type"] == "array":
                given[key] = []
            else:
                raise unreadable(f"{key} is not given")
        return given

    def _read_value(self, key: str, value: object, schema: Mapping[str, Any]) -> object:
        kind = schema["type"]
        is_wrong = isinstance(value, (tuple, list))
        if kind == "object":
            values = [name for name, each in schema["properties"].items() if each != TEXT]
            if len(values) == 1 and not is_wrong:
                value = ((values[0], value),)
            return self.read(value, schema["properties"])
        if kind == "array":
            if not isinstance(value, list):
                raise unreadable(f"{key} is not a list: {excerpt(value)}")
            return [self._read_value(key, each, schema["items"]) for each in value]
        if kind == "boolean":
            is_wrong = not isinstance(value, bool)
        elif schema == TEXT:
            value = value[:MAX_NOTE_CHARS] if isinstance(value, str) else ""
        elif kind == "string":
            value = " ".join(str(value).lower().replace("_", " ").split())
            is_wrong = value not in schema["enum"]
        else:
            number = parse_number(value, max(schema.get("enum", [math.nan])))
            if number is None:
                raise unreadable(f"{key} is {excerpt(value)}")
            if number not in schema.get("enum", [number]):
                expected = " or ".join(f"{each:.15g}" for each in schema["enum"])
                raise unreadable(
                    f"{key} is {number:g}, expected {expected}", FailureKind.OUT_OF_RANGE
                )
            return number
        if is_wrong:
            raise unreadable(f"{key} is {excerpt(value)}")
        return value


def _iter_keys(properties: Any) -> Iterator[str]:
    for key, schema in properties.items():
        while schema["type"] == "array":
            yield key
            schema = schema["items"]
        if schema == TEXT:
            continue
        yield key
        if schema["type"] == "object":
            yield from _iter_keys(schema["properties"])
