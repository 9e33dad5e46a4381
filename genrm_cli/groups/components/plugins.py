"""Components that the user wrote: a plain or async function over a group."""

import asyncio
import hashlib
import importlib
import inspect
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import lru_cache
from pathlib import Path
from typing import Any, SupportsFloat

from genrm_cli.errors import UsageError
from genrm_cli.rollouts.record import Rollout, Turn

Values = list[float | None]
MOST = 1e9
"""The greatest value of a component: sums and squares of larger ones leave the range of numbers."""


class FunctionError(Exception):
    """A function of the user's failed, or returned what is no component; the message says which and how."""


@lru_cache(maxsize=64)
def find_function(place: str) -> Callable[..., Any]:
    """Import `package.module:function`; modules in the working folder are found, too.

    Raises:
        UsageError: there is no such function, or its module fails.
    """
    module_name, _, name = place.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        function: object = getattr(importlib.import_module(module_name), name, None)
    except (Exception, SystemExit) as error:  # whatever it raises is the user's to mend
        raise UsageError(f"python = {place!r}: {module_name} cannot be imported: {_in_words(error)}.") from error
    if not callable(function):
        raise UsageError(f"python = {place!r}: {module_name} has no function {name}.")
    return function


@lru_cache(maxsize=64)
def version_of(place: str) -> str | None:
    """Return a digest of the file that a function's module stands in, not of what it imports; None without a file.

    Raises:
        UsageError: there is no such function, or its module fails.
    """
    find_function(place)
    path = getattr(sys.modules[place.partition(":")[0]], "__file__", None)
    try:
        return None if path is None else hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]
    except OSError:
        return None


def call_function(place: str, rollouts: Sequence[Rollout], records: Sequence[dict[str, Any]]) -> Values:
    """Call a function over a group and check what it returns.

    It gets a list of dictionaries, one a rollout: `prompt` (messages), `response` (None without one), `reasoning` and
    `record` (the line). It returns a list, tuple or array of as many values: finite numbers of 0 and more, or None
    for what has no value. An async function is awaited.

    Raises:
        FunctionError: it raised, or returned something else.
    """
    function = find_function(place)
    group = [_as_dict(rollout, record) for rollout, record in zip(rollouts, records, strict=True)]
    try:
        returned = function(group)
        if inspect.isawaitable(returned):
            returned = asyncio.run(_awaited(returned))
        return _checked(place, returned, len(group))
    except FunctionError:
        raise
    except (Exception, SystemExit) as error:  # a generator, or a number of its own making, may raise late
        raise FunctionError(f"{place} raised {_in_words(error)}") from error


async def _awaited(returned: Any) -> object:
    return await returned


def _as_dict(rollout: Rollout, record: dict[str, Any]) -> dict[str, Any]:
    session: tuple[Turn, ...] = rollout.session or ()
    return {
        "prompt": [{"role": turn.role, "content": turn.text} for turn in rollout.prompt],
        "response": rollout.answer,
        "reasoning": rollout.reasoning,
        "session": [{"role": turn.role, "content": turn.text} for turn in session],
        "record": record,
    }


def _checked(place: str, returned: object, n: int) -> Values:
    if isinstance(returned, str | bytes | Mapping | Set) or not isinstance(returned, Iterable):
        # A text has characters, a mapping keys and a set no order: none of them is a value for each rollout.
        raise FunctionError(f"{place} returned {type(returned).__name__}, not a list of {n} values")
    values = list(returned)
    if len(values) != n:
        raise FunctionError(f"{place} returned {len(values)} values for {n} rollouts")
    return [None if value is None else _number(place, value) for value in values]


def _number(place: str, value: object) -> float:
    if isinstance(value, str | bytes) or not isinstance(value, SupportsFloat):  # numpy's numbers are such
        raise FunctionError(f"{place} returned {value!r:.40}, which is no number")
    number = float(value)
    if not math.isfinite(number) or not 0 <= number <= MOST:
        raise FunctionError(f"{place} returned {number:g}; components are finite, not below 0 and at most {MOST:g}")
    return number


def _in_words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:200].rstrip(": .")
