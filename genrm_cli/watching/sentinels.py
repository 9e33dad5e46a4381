"""Sentinels: the same pairs, judged again in each run, show a judge that has changed without any
label.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from genrm_cli.scored.run_record import WatchRecord
from genrm_cli.watching.evidence import RateNull, rate_null

BASELINE_RUNS = 5
"""Verdicts of each sentinel that are asked for on the first day."""
MIN_STABLE = 0.7
"""Share of stable sentinels below which the judge is too noisy to be watched by them."""
MISSING = "?"
"""Stands for a sentinel without a verdict; "+" prefers the chosen response, "-" the other, "="
neither.
"""
_SHIFTS = (0.04, 0.10, 0.25)
_MOST_MISSING = 0.5  # of a run that may be part of the baseline


@dataclass(slots=True)
class Sentinels:
    """What one judge has said of its sentinels, a text of one character for each of them every time
    it was asked.

    Attributes:
        runs: those of the baseline.
        identity: of the sentinels and of those who are asked about them.
        usual: for each sentinel the verdict that all runs of the baseline gave; None if they differ
            or one is missing.
        null: the rate at which an unchanged judge departs from them; None while there is no
            baseline.
    """

    runs: list[str] = field(default_factory=list)
    identity: str | None = None
    usual: tuple[str | None, ...] = ()
    null: RateNull | None = None
    _asked: str | None = None

    def add(self, watch: WatchRecord, runs: Sequence[str]) -> Sequence[str]:
        """Add what the judge said; return the runs that are new and that the baseline judges."""
        if not runs or watch.asked == self._asked:
            return ()
        if watch.sentinel_set != self.identity:
            self.runs = []
            self.usual = ()
            self.null = None
            self.identity = watch.sentinel_set
        self._asked = watch.asked
        if self.null is not None:
            return runs
        self.runs += (run for run in runs if run.count(MISSING) <= _MOST_MISSING * len(run))
        if len(self.runs) >= BASELINE_RUNS:
            self.arm()
        return ()

    def arm(self) -> None:
        """Take the baseline from two runs or more.

        The rate of departures is estimated by leaving each run out: departures of a run from the
        sentinels on which all other runs agree."""
        self.usual = tuple(_unanimous(verdicts) for verdicts in zip(*self.runs, strict=True))
        departures = cases = 0
        for verdicts in zip(*self.runs, strict=True):
            for left_out, now in enumerate(verdicts):
                usual = _unanimous(verdicts[:left_out] + verdicts[left_out + 1 :])
                if now != MISSING and usual is not None:
                    cases += 1
                    departures += now != usual
        self.null = rate_null([(departures, cases)], _SHIFTS) or RateNull(1.0, _SHIFTS)

    def departures(self, runs: Sequence[str]) -> tuple[int, int]:
        """Return how many verdicts of these runs on stable sentinels are others than usual, and how
        many there are.
        """
        told = [
            (usual, now)
            for run in (runs if self.usual else ())
            for usual, now in zip(self.usual, run, strict=True)
            if usual is not None and now != MISSING
        ]
        return sum(usual != now for usual, now in told), len(told)


def errors_in(runs: Sequence[str]) -> tuple[int, int]:
    """Return on how many sentinels these runs did not prefer the better response, and how many
    verdicts they have.
    """
    said = "".join(runs).replace(MISSING, "")
    return len(said) - said.count("+"), len(said)


def _unanimous(verdicts: Sequence[str]) -> str | None:
    """Return the verdict that all are; None if they differ or one is missing."""
    return verdicts[0] if MISSING not in verdicts and len(set(verdicts)) == 1 else None
