"""The calibration of the judge on everything that a server has judged, kept in the journal."""

from collections.abc import Sequence

from genrm_cli.judging.journal_file import KeptSums
from genrm_cli.rewards.estimators import RunStatistics, Verdicts
from genrm_cli.serve.answers import CalibrationRecord

_REFIT_AFTER = 1.02  # times the groups of the last fit: a calibration moves as their number does
_MOST_PENDING = 64  # groups whose sums are not in the journal yet


class RunningCalibration:
    """Sums over all groups judged so far, each counted once, and the calibration that is fitted to them.

    The sums of groups are added a few groups at a time, because that costs hardly more than one group. Killed, a server
    forgets those that were not added yet, not their verdicts.
    """

    def __init__(self, sums: KeptSums | None, name: str, judges: int = 0) -> None:
        """Continue with the sums of this name.

        Args:
            sums: of the journal; None to keep nothing.
            name: of the judges and the settings whose verdicts are summed.
            judges: number of judges, if they answer different comparisons.

        Raises:
            StorageError: the journal cannot be read or written.
        """
        self._sums = sums
        self._judges = judges
        self._total = RunStatistics()
        self._name = f"{name} {len(self._total.numbers(judges))}"
        self._pending: dict[bytes, RunStatistics] = {}
        self._fitted_groups = 0
        if sums is not None:
            sums.open()
            numbers = sums.read(self._name)
            if numbers is not None:
                self._total = RunStatistics.of_numbers(numbers, judges)
        self._record = self._fit()

    def add(self, part: bytes, size: int, verdicts: Verdicts, own: Sequence[Verdicts] = ()) -> None:
        """Add the verdicts of a group of this size, unless they have been added before.

        Args:
            part: a digest of the group: the same group, the same digest.
            size: rollouts in the group.
            verdicts: that count.
            own: the verdicts of each judge that count, where judges answer different comparisons; else none.
        """
        if part in self._pending or (self._sums is not None and self._sums.has(self._name, part)):
            return
        self._pending[part] = RunStatistics()
        self._pending[part].add_group(size, verdicts, own)

    def latest(self) -> CalibrationRecord:
        """Return the calibration, fitted again if it has grown enough."""
        grown = self._total.joined.groups + len(self._pending)
        if len(self._pending) >= _MOST_PENDING or grown >= _REFIT_AFTER * self._fitted_groups:
            self.flush()
            self._record = self._fit()
        return self._record

    def flush(self) -> None:
        """Write pending sums to the journal, and take over what other servers have added to it."""
        if not self._pending:
            return
        if self._sums is None:
            for statistics in self._pending.values():
                self._total.merge(statistics)
        else:
            numbers = {part: statistics.numbers(self._judges) for part, statistics in self._pending.items()}
            self._total = RunStatistics.of_numbers(self._sums.add(self._name, numbers), self._judges)
        self._pending = {}

    def _fit(self) -> CalibrationRecord:
        self._fitted_groups = self._total.joined.groups
        return CalibrationRecord(self._total.joined.groups, self._total.joined.verdicts, self._total.fit())
