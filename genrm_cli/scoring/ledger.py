"""What became of the groups of an input, kept on disk until all of them are judged."""

import pickle
from array import array
from types import TracebackType
from typing import Self

from genrm_cli.scoring.group import GroupCase
from genrm_cli.storage.spool import Spool


class Ledger:
    """The outcomes of judged groups; 12 bytes of memory a group, without their texts."""

    def __init__(self) -> None:
        self._spool = Spool()
        self._offsets, self._lengths = array("Q"), array("I")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._spool.close()

    def keep(self, case: GroupCase) -> None:
        """Keep what became of a group."""
        missing = case.number + 1 - len(self._offsets)
        if missing > 0:
            self._offsets.extend([0] * missing)
            self._lengths.extend([0] * missing)
        self._offsets[case.number], self._lengths[case.number] = self._spool.append(pickle.dumps(case.state()))

    def restore(self, case: GroupCase) -> None:
        """Give a group that was read anew what was kept of it."""
        kept = self._spool.read(self._offsets[case.number], self._lengths[case.number])
        case.set_state(pickle.loads(kept))  # noqa: S301  (our own bytes, in a file without a name)
