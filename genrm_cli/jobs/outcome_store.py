"""What became of the groups of an input, kept on disk until all of them are judged."""

import pickle
from array import array
from types import TracebackType
from typing import Any, Self

from genrm_cli.groups.group_case import GroupCase
from genrm_cli.rewards.estimators import CalibrationStatistics, verdict_array
from genrm_cli.storage.spool import Spool


class OutcomeStore:
    """The outcomes of judged groups; 24 bytes of memory a group, without their texts."""

    def __init__(self) -> None:
        self._spool = Spool()
        self._states, self._verdicts = array("Q"), array("Q")  # offset and length of each group's

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._spool.close()

    def keep(self, case: GroupCase) -> None:
        """Keep what became of a group."""
        self._store(self._verdicts, case.number, (len(case.rollouts), verdict_array(case.verdicts())))
        self._store(self._states, case.number, case.state())

    def restore(self, case: GroupCase) -> None:
        """Give a group that was read anew what was kept of it."""
        case.set_state(self._load(self._states, case.number))

    def statistics(self) -> CalibrationStatistics:
        """Gather what all groups say of the judge, in their own order: sums must not depend on who answered first."""
        statistics = CalibrationStatistics()
        for number in range(len(self._verdicts) // 2):
            statistics.add_arrays(*self._load(self._verdicts, number))
        return statistics

    def _store(self, places: "array[int]", number: int, value: object) -> None:
        missing = 2 * (number + 1) - len(places)
        if missing > 0:
            places.extend([0] * missing)
        places[2 * number], places[2 * number + 1] = self._spool.append(pickle.dumps(value))

    def _load(self, places: "array[int]", number: int) -> Any:
        kept = self._spool.read(places[2 * number], places[2 * number + 1])
        return pickle.loads(kept)  # noqa: S301  (our own bytes, in a file without a name)
