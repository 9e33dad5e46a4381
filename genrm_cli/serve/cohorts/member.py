"""A member of a cohort, and the order of members."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from genrm_cli.rollouts.grouping import digest_of_prompt
from genrm_cli.rollouts.rollout import Rollout


@dataclass(frozen=True, slots=True)
class Member:
    """One rollout of a cohort.

    Attributes:
        id: unique in its cohort; it fixes the order of the members.
        line: the rollout as a line of a file would hold it.
        rollout: as `genrm score` reads that line.
        digest: of the line: equal lines, equal digests.
        task: prompt and principle, which all members of a cohort share.
    """

    id: str
    line: Mapping[str, Any]
    rollout: Rollout
    digest: bytes
    task: tuple[int, str | None]

    @classmethod
    def of(cls, id_: str, line: Mapping[str, Any], rollout: Rollout, digest: bytes) -> Self:
        """Return a member; its task is that of its rollout."""
        return cls(id_, line, rollout, digest, (digest_of_prompt(rollout.prompt), rollout.principle))

    def without_texts(self) -> Self:
        """Return what tells a repeated request of the member from another one."""
        return replace(self, line={}, rollout=_NO_ROLLOUT)


_NO_ROLLOUT = Rollout((), None)


def in_order(ids: Iterable[str]) -> list[str]:
    """Sort member ids: integers by value, before all others by text."""
    return sorted(ids, key=_sort_key)


def _sort_key(id_: str) -> tuple[bool, int, str]:
    number = index_in(id_)
    return (True, 0, id_) if number is None else (False, number, id_)


def index_in(id_: str) -> int | None:
    """Return the integer, 0 or more, that an id is written as; None for other ids."""
    return int(id_) if id_.isascii() and id_.isdecimal() and len(id_) < 10 and str(int(id_)) == id_ else None
