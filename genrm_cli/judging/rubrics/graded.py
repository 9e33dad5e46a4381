"""Prompts for grading by a plan, and the parsing of the JSON object in an answer.

A judge that quotes a response without escaping its quotation marks can break its own object in two,
and a response can be written to cause that. The rest of the judge's object then cannot be parsed,
contradicts the forged one, or repeats one of its keys. Each of these makes the answer ambiguous.
For the same reason an object may hold neither unexpected nested values nor a key in the wrong
place: they could be the judge's real answer."""

import re
from collections.abc import Callable
from dataclasses import replace
from operator import itemgetter
from types import MappingProxyType
from typing import TypeVar

from genrm_cli.judging.profiles.answer import (
    THINK,
    Answer,
    Carrier,
    excerpt,
    make_failure,
    open_thought,
    parse_answer,
    parse_decimal,
    pick_own,
)
from genrm_cli.judging.profiles.json_objects import Pairs, iter_objects, text_without
from genrm_cli.judging.profiles.profile import GREEDY, ChatMessage, Fields, freeze
from genrm_cli.judging.profiles.prompt import render_listwise
from genrm_cli.judging.requests import ListwisePrompt, Reply
from genrm_cli.verdicts import Failure, FailureKind, Grades

MAX_NOTE_CHARS = 300  # a quotation of one or two sentences, as the prompt asks

SESSION = """\
A response may be a whole session, written as turns. Then the assistant's turns are what counts, \
and those of the user or client are what it had to deal with."""


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


Read = TypeVar("Read")


def parse_object(
    reply: Reply,
    prompt: ListwisePrompt,
    keys: tuple[str, ...],
    inner_keys: tuple[str, ...],
    parse: Callable[[Pairs], Grades | Failure],
) -> Grades | Failure:
    """Parse the object with one of the keys at its top level; it may be repeated, but not with
    other grades.

    Objects that the judge quotes from a response do not count. A reply is `ambiguous` if any of the
    keys, or of the `inner_keys` of nested objects, follows the object."""

    def read(answer: Answer) -> Grades | Failure:
        text = answer.text
        objects = list(iter_objects(text, keys))
        carriers = [found for found in objects if any(key in keys for key, _ in found.pairs or ())]
        if THINK in text_without(text, carriers):
            return open_thought()
        said = [Carrier(found.start, found.end, parse(found.pairs or ())) for found in carriers]
        own = pick_own(answer, said, ignore_unreadable=False)
        if own is None:
            lacks = f"no complete object with {' or '.join(keys)}; ends with {excerpt(text[-40:])}"
            return make_failure(FailureKind.NO_VERDICT, lacks)
        if isinstance(own, Failure) or isinstance(own.result, Failure):
            return own if isinstance(own, Failure) else own.result
        if any(
            _has_key(text[found.start : found.end], keys)
            for found in objects
            if found.pairs is None
        ):
            return make_failure(
                FailureKind.AMBIGUOUS,
                f"more than one object with {keys[0]}, and one cannot be read",
            )
        behind = text_without(
            text, [found for found in carriers if found.start > own.start], own.end
        )
        if _has_key(behind, keys + inner_keys):
            return make_failure(
                FailureKind.AMBIGUOUS, f"more of the same follows the object with {keys[0]}"
            )
        return own.result

    return parse_answer(reply, prompt, read)


def find_member(pairs: object, key: str, kind: type[Read]) -> Read | Failure:
    """Return the only member of a decoded object with a key, if it is a `float`, `str`, `list` or
    `tuple` (object).
    """
    if not isinstance(pairs, tuple):
        return make_failure(FailureKind.NO_VERDICT, f"no object with {key}: {excerpt(pairs)}")
    values = [value for name, value in pairs if name == key]
    if len(values) > 1:
        return make_failure(FailureKind.AMBIGUOUS, f"{key} is given more than once")
    if not values or not isinstance(values[0], kind):
        found = excerpt(values[0]) if values else "nothing"
        return make_failure(FailureKind.NO_VERDICT, f"{key} is not of the requested form: {found}")
    return values[0]


def find_number(pairs: object, key: str) -> float | Failure:
    """Return the only member of an object with a key as a number; a plain decimal in a string
    counts.
    """
    value = find_member(pairs, key, object)
    number = parse_decimal(value) if isinstance(value, str) else value
    if isinstance(number, float | Failure):
        return number
    return make_failure(FailureKind.NO_VERDICT, f"{key} is not a number: {excerpt(value)}")


def find_intruder(
    pairs: object, expected: tuple[str, ...], reserved: tuple[str, ...]
) -> Failure | None:
    """Return a failure if an object holds a nested value under an unexpected key, or a key reserved
    for others.
    """
    for key, value in pairs if isinstance(pairs, tuple) else ():
        if key not in expected and (key in reserved or isinstance(value, tuple | list)):
            return make_failure(
                FailureKind.NO_VERDICT, f"unexpected {excerpt(key)}: {excerpt(value)}"
            )
    return None


def read_entries(
    pairs: Pairs,
    key: str,
    inner_keys: tuple[str, ...],
    count: int,
    read: Callable[[object], Read | Failure],
) -> list[Read] | Failure:
    """Read the list under a key, whose entries have an `index` from 0 to count - 1, in the order of
    these.
    """
    if intruder := find_intruder(pairs, (key,), inner_keys):
        return intruder
    entries = find_member(pairs, key, list)
    if isinstance(entries, Failure):
        return entries
    found: list[tuple[float, Read]] = []
    for entry in entries:
        index = find_number(entry, "index")
        value = read(entry)
        if isinstance(index, Failure):
            return index
        if isinstance(value, Failure):
            return value
        found.append((index, value))
    miscount = find_miscount([index for index, _ in found], count)
    return miscount or [value for _, value in sorted(found, key=itemgetter(0))]


def find_miscount(indices: list[float], count: int) -> Failure | None:
    """Return a failure unless the indices are 0 to count - 1, each exactly once."""
    known = set(range(count))
    for index in indices:
        if index not in known:  # also NaN and fractions
            return make_failure(
                FailureKind.OUT_OF_RANGE, f"there is no number {index:g} of {count}"
            )
    if len(indices) > len(set(indices)):
        return make_failure(FailureKind.AMBIGUOUS, "a number is named more than once")
    if missing := known.difference(map(int, indices)):
        return make_failure(FailureKind.NO_VERDICT, f"number {min(missing)} is not named")
    return None


def _has_key(text: str, keys: tuple[str, ...]) -> bool:
    return re.search(rf'"(?:{"|".join(map(re.escape, keys))})"\s*+:', text) is not None
