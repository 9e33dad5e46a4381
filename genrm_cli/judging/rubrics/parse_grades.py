"""Read the JSON object in a judge's answer, so that nothing the judge quotes is taken for its own words.

A judge that quotes a response without escaping its quotation marks can tear its own object in two, and the response
can be written for that. What is left of the judge's object then cannot be understood, contradicts the forged one, or
says a key of it again: all of these make the answer ambiguous. For the same reason an object may hold no more nested
values than were asked for, nor a key out of its place: they could be what the judge said.
"""

import re
from collections.abc import Callable
from typing import TypeVar

from genrm_cli.judging.profiles.parsing.answer import THINK, excerpt, make_failure, open_thought
from genrm_cli.judging.profiles.parsing.json_objects import FoundObject, Pairs, iter_objects
from genrm_cli.judging.profiles.parsing.scales import parse_decimal
from genrm_cli.verdicts import Failure, FailureKind, Grades

Read = TypeVar("Read")


def read_object(
    answer: str, keys: tuple[str, ...], inner_keys: tuple[str, ...], understand: Callable[[Pairs], Grades | Failure]
) -> Grades | Failure:
    """Read the object with one of the keys; it may be said more than once, but no two may differ.

    Args:
        answer: what the judge said after its thinking.
        keys: an object that has none of these at its top level is not the judge's.
        inner_keys: the keys of what it holds.
        understand: what is asked about an object that is the judge's.

    Returns:
        `no_verdict` if there is no such object; `ambiguous` if another one differs or cannot be read, or if any of
        the keys stands after it.
    """
    objects = list(iter_objects(answer, keys))
    carriers = [(found, pairs) for found in objects if (pairs := found.pairs) and any(key in keys for key, _ in pairs)]
    if THINK in _without(answer, [found for found, _ in carriers]):
        return open_thought()
    if not carriers:
        return make_failure(
            FailureKind.NO_VERDICT, f"no complete object with {' or '.join(keys)}; ends with {excerpt(answer[-40:])}"
        )
    last, pairs = carriers[-1]
    grades = understand(pairs)
    if isinstance(grades, Failure):
        return grades
    if any(understand(pairs) != grades for _, pairs in carriers[:-1]):
        return make_failure(FailureKind.AMBIGUOUS, f"more than one object with {keys[0]}, and they differ")
    if any(_says(answer[found.start : found.end], keys) for found in objects if found.pairs is None):
        return make_failure(FailureKind.AMBIGUOUS, f"more than one object with {keys[0]}, and one cannot be read")
    if _says(answer[last.end :], keys + inner_keys):
        return make_failure(FailureKind.AMBIGUOUS, f"after the object with {keys[0]} there is more of the kind")
    return grades


def find_member(pairs: object, key: str, kind: type[Read]) -> Read | Failure:
    """Return the one member of an object with a key, if it is of a kind.

    Args:
        pairs: a decoded value, which may turn out to be no object.
        key: the name of the member.
        kind: `float`, `str`, `list`, or `tuple` for an object.
    """
    if not isinstance(pairs, tuple):
        return make_failure(FailureKind.NO_VERDICT, f"no object with {key}: {excerpt(pairs)}")
    values = [value for name, value in pairs if name == key]
    if len(values) > 1:
        return make_failure(FailureKind.AMBIGUOUS, f"{key} is given more than once")
    if not values or not isinstance(values[0], kind):
        found = excerpt(values[0]) if values else "nothing"
        return make_failure(FailureKind.NO_VERDICT, f"{key} is not as asked for: {found}")
    return values[0]


def find_number(pairs: object, key: str) -> float | Failure:
    """Return the one member of an object with a key as a number; a string that is a plain decimal is one."""
    value = find_member(pairs, key, object)
    number = parse_decimal(value) if isinstance(value, str) else value
    if isinstance(number, float | Failure):
        return number
    return make_failure(FailureKind.NO_VERDICT, f"{key} is not a number: {excerpt(value)}")


def find_intruder(pairs: object, expected: tuple[str, ...], reserved: tuple[str, ...]) -> Failure | None:
    """Return why an object holds something that it must not, or None if it does not.

    Args:
        pairs: a decoded value; one that is no object holds nothing.
        expected: keys of it. Under other keys there may be plain values only.
        reserved: keys of other objects, which are refused unless expected here, too.
    """
    for key, value in pairs if isinstance(pairs, tuple) else ():
        if key not in expected and (key in reserved or isinstance(value, tuple | list)):
            return make_failure(FailureKind.NO_VERDICT, f"{excerpt(key)} was not asked for: {excerpt(value)}")
    return None


def find_miscount(indices: list[float], count: int) -> Failure | None:
    """Return why indices are not each of 0 to count - 1 once, or None if they are.

    Returns:
        `out_of_range`, `ambiguous` if one is given twice, `no_verdict` if one is missing.
    """
    known = set(range(count))
    for index in indices:
        if index not in known:  # true of NaN and fractions, too
            return make_failure(FailureKind.OUT_OF_RANGE, f"there is no response {index:g} of {count}")
    if len(indices) > len(set(indices)):
        return make_failure(FailureKind.AMBIGUOUS, "a response is named more than once")
    if missing := known.difference(map(int, indices)):
        return make_failure(FailureKind.NO_VERDICT, f"response {min(missing)} is not named")
    return None


def _says(text: str, keys: tuple[str, ...]) -> bool:
    return re.search(rf'"(?:{"|".join(map(re.escape, keys))})"\s*+:', text) is not None


def _without(answer: str, objects: list[FoundObject]) -> str:
    pieces, position = [], 0
    for found in objects:
        pieces.append(answer[position : found.start])
        position = found.end
    return "\n".join([*pieces, answer[position:]])
