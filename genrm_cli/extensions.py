"""Extensions: components, formats, profiles and environments that installed packages register by
entry points.

A package names them in its `pyproject.toml`, and genrm finds them by name:

    [project.entry-points."genrm.components"]
    brevity = "my_package:BREVITY"

An extension is imported when it is first used. Each name belongs to one package. What its code
raises ends the run with the name of its package: it is neither a bug of genrm nor a bad input.
"""

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import cache, partial, wraps
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace

from genrm_cli.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


class Seam(StrEnum):
    """A group of entry points."""

    # A `LocalKind` of `genrm_cli.rewards.component`: computes a value for each rollout of a group.
    COMPONENTS = "genrm.components"
    # A `Format` of `genrm_cli.rollouts.formats.format`: recognises and reads the lines of a writer.
    FORMATS = "genrm.formats"
    # A profile of `genrm_cli.judging.profiles.profile`: renders prompts and parses replies.
    PROFILES = "genrm.profiles"
    # A subclass of `Environment`: plays one kind of sessions.
    ENVIRONMENTS = "genrm.environments"


def extension_names(seam: Seam) -> tuple[str, ...]:
    """Return the names that installed packages register at a seam, sorted.

    Raises:
        UsageError: two packages register the same name.
    """
    return tuple(_entry_points(seam, tuple(sys.path)))


def load_extension(seam: Seam, name: str, expected: type[T]) -> T:
    """Import an extension and return it.

    Args:
        seam: group of entry points.
        name: one of `extension_names(seam)`.
        expected: type that the object must have.

    Raises:
        UsageError: the extension cannot be imported or is of another type; names its package and
            entry point.
    """
    path = tuple(sys.path)
    entry = _entry_points(seam, path)[name]
    loaded = _loaded(entry, path)
    if not isinstance(loaded, expected):
        found = type(loaded).__name__
        raise UsageError(
            f"{_described(entry)} is a {found}; expected a {expected.__name__}. Repair or "
            "uninstall the package."
        )
    return loaded


@cache
def _loaded(entry: "EntryPoint", _path: tuple[str, ...]) -> Any:
    """Import an extension; the methods of a class, and the functions among the fields of a
    record, name it if they fail.
    """
    loaded = _guarded_call(f"{_described(entry)} cannot be loaded", entry.load)
    if entry.value.startswith("genrm_cli."):
        return loaded  # what it raises is a bug of genrm
    if isinstance(loaded, type):
        return _guarded_class(loaded, f"{_described(entry)} failed")
    if not isinstance(loaded, Struct):
        return loaded
    failed = f"{_described(entry)} failed"
    guarded = {
        name: partial(_guarded_call, failed, value)
        for name, value in asdict(loaded).items()
        if callable(value) and not isinstance(value, type)
    }
    return replace(loaded, **guarded)


def _guarded_class(form: type, failed: str) -> type:
    guarded: dict[str, Any] = {"__module__": form.__module__}
    for name in ("__init__", *(each for each in dir(form) if not each.startswith("_"))):
        method = inspect.getattr_static(form, name)
        if inspect.isfunction(method):
            guarded[name] = _guarded_method(method, failed)
    return type(form)(form.__name__, (form,), guarded)


def _guarded_method(method: Callable[..., Any], failed: str) -> Callable[..., Any]:
    # A plain function, which Python binds to the instance; it stays abstract if the method is.
    @wraps(method)
    def call(*given: Any, **named: Any) -> Any:
        return _guarded_call(failed, method, *given, **named)

    @wraps(method)
    async def wait(*given: Any, **named: Any) -> Any:
        with _naming(failed):
            return await method(*given, **named)

    return wait if inspect.iscoroutinefunction(method) else call


def _guarded_call(failed: str, function: Callable[..., Any], *given: Any, **named: Any) -> Any:
    with _naming(failed):
        return function(*given, **named)


@contextmanager
def _naming(failed: str) -> Iterator[None]:
    try:
        yield
    except (Exception, SystemExit) as error:
        # By the exceptions of genrm, an extension says what is wrong with a text.
        if type(error).__module__.startswith("genrm_cli."):
            raise
        raise UsageError(
            f"{failed}: {type(error).__name__}: {error}. Repair or uninstall the package."
        ) from error


def load_extensions(seam: Seam, expected: type[T]) -> dict[str, T]:
    """Import all extensions of a seam and return them by name.

    Raises:
        UsageError: as for `extension_names` and `load_extension`.
    """
    return {name: load_extension(seam, name, expected) for name in extension_names(seam)}


# By search path, because a process may add to it. Reading the metadata of a hundred packages takes
# some milliseconds.
@cache
def _entry_points(seam: Seam, _path: tuple[str, ...]) -> "dict[str, EntryPoint]":
    import importlib.metadata

    found: dict[str, EntryPoint] = {}
    for entry in sorted(
        importlib.metadata.entry_points(group=seam), key=lambda entry: (entry.name, entry.value)
    ):
        if (other := found.get(entry.name)) is not None:
            raise UsageError(
                f"two packages register {entry.name!r}: {_described(other)}, and "
                f"{_described(entry)}; uninstall one."
            )
        found[entry.name] = entry
    return found


def _described(entry: "EntryPoint") -> str:
    package = (
        "an unknown package" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
    )
    return f"{entry.group} entry point {entry.name} = {entry.value} of {package}"
