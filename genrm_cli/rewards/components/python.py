"""Components written by the user: plain or async functions over a group."""

import asyncio
import hashlib
import importlib
import inspect
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import lru_cache
from pathlib import Path
from typing import Any, SupportsFloat

from genrm_cli.errors import UsageError, counted
from genrm_cli.json_types import JsonObject, Record
from genrm_cli.rewards.component import (
    MOST,
    Column,
    Ids,
    Lines,
    LocalKind,
    RolloutId,
    Rollouts,
    Values,
)
from genrm_cli.rollouts.rollout import Rollout, Turn
from genrm_cli.settings import checks
from genrm_cli.settings.components import Component, last_part


class FunctionError(Exception):
    """A user function failed, or its result is not a component; the message names the function and
    the cause.
    """


@lru_cache(maxsize=64)
def find_function(place: str) -> Callable[..., Any]:
    """Import `package.module:function`, from installed packages or the working folder; `UsageError`
    if that fails.
    """
    module_name, _, name = place.partition(":")
    if str(Path.cwd()) not in sys.path:
        # Last, so that a json.py in the folder does not shadow the standard module.
        sys.path.append(str(Path.cwd()))
    try:
        function: object = getattr(importlib.import_module(module_name), name, None)
    except (Exception, SystemExit) as error:  # user code may raise anything
        raise UsageError(
            f"python = {place!r}: {module_name} cannot be imported: {_in_words(error)}. "
            "Repair the module."
        ) from error
    if not callable(function):
        raise UsageError(
            f"python = {place!r}: {module_name} has no function {name}; define it there."
        )
    return function


@lru_cache(maxsize=64)
def version_of(place: str) -> str | None:
    """Return a digest of the file of a function's module, or None without a file; imports do not
    count.
    """
    find_function(place)
    path = getattr(sys.modules[place.partition(":")[0]], "__file__", None)
    try:
        return None if path is None else hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]
    except OSError:
        return None


def call_function(place: str, name: str, rollouts: Rollouts, records: Lines, ids: Ids) -> Values:
    """Return the values of a component by a function over a group, which is called once for all its
    components.

    The function, plain or async, takes a list with one dictionary per rollout: `group` and `index`,
    `prompt` and `session` (messages), `response` (None without one), `reasoning`, `reference` and
    `record` (the line). It returns one value per rollout in a list, tuple or array: finite numbers
    from 0, or None for no value; or dictionaries of such numbers, of which the component takes the
    one of its name."""
    try:
        if _last.place != place or _last.rollouts is not rollouts:
            _last.place = ""
            group = [_as_dict(*each) for each in zip(rollouts, records, ids, strict=True)]
            returned = find_function(place)(group)
            if inspect.iscoroutine(returned):
                returned = asyncio.run(returned)  # in a worker thread, which has no event loop
            _last.returned = _listed(place, returned, len(group))
            _last.rollouts = rollouts
            _last.place = place
        return _checked(place, _named(place, name, _last.returned))
    except FunctionError:
        raise
    except (Exception, SystemExit) as error:  # generators and custom numbers may raise late
        raise FunctionError(f"{place} raised {_in_words(error)}") from error


class _LastCall(threading.local):
    """The last call in a thread; `rollouts` are kept so that nothing else has their identity."""

    place = ""
    rollouts: Sequence[Rollout] = ()
    returned: Sequence[object] = ()


_last = _LastCall()


def _as_dict(rollout: Rollout, record: JsonObject, id_: RolloutId) -> Record:
    def messages(turns: Sequence[Turn]) -> list[Record]:
        return [{"role": turn.role, "content": turn.text} for turn in turns]

    return {
        "group": id_[0],
        "index": id_[1],
        "prompt": messages(rollout.prompt),
        "response": rollout.answer,
        "reasoning": rollout.reasoning,
        "session": messages(rollout.session or ()),
        "reference": rollout.reference,
        "record": dict(record),
    }


def _listed(place: str, returned: object, n: int) -> Sequence[object]:
    if isinstance(returned, (str, bytes, Mapping, Set)) or not isinstance(returned, Iterable):
        # Strings, mappings and sets are not lists of values.
        raise FunctionError(f"{place} returned {type(returned).__name__}, not a list of {n} values")
    values = list(returned)
    if len(values) != n:
        raise FunctionError(
            f"{place} returned {counted(len(values), 'value')} for {counted(n, 'rollout')}"
        )
    return values


def _named(place: str, name: str, values: Sequence[object]) -> Sequence[object]:
    """Return the values of one name, if the values are dictionaries; a rollout may lack it."""
    if not any(isinstance(value, Mapping) for value in values):
        return values
    tables = [value if isinstance(value, Mapping) else {} for value in values]
    if all(name not in table for table in tables):
        known = ", ".join(dict.fromkeys(str(key) for table in tables for key in table)) or "nothing"
        raise FunctionError(
            f"{place} returned {known}, not {name}; name the component after one of them"
        )
    return [table.get(name) for table in tables]


def _checked(place: str, values: Sequence[object]) -> Values:
    numbers: Values = [None] * len(values)
    for index, value in enumerate(values):
        if value is None:
            continue
        # Numpy scalars are numbers, too.
        if isinstance(value, (str, bytes)) or not isinstance(value, SupportsFloat):
            raise FunctionError(f"{place} returned {value!r:.40}, which is not a number")
        numbers[index] = number = float(value)
        if not 0 <= number <= MOST:  # nor is NaN
            raise FunctionError(
                f"{place} returned {number:g}; components must be finite, from 0 to {MOST:g}"
            )
    return numbers


def _in_words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:200].rstrip(": .")


def _compute(component: Component, rollouts: Rollouts, records: Lines, ids: Ids) -> Column:
    try:
        return Column(
            call_function(component.option("python") or "", component.name, rollouts, records, ids)
        )
    except FunctionError as error:
        return Column([None] * len(rollouts), failure=str(error))


KIND = LocalKind(
    options={"python": checks.function},
    required=("python",),
    short="python",
    name_of=last_part,
    source="functions",
    version=lambda component: version_of(component.option("python") or ""),
    of_a_group=True,
    compute=_compute,
)
