"""Sentinels: the same pairs, judged again in each run, show a judge that has changed without any
label.

The baseline is one answer of each of the first runs, not several answers of the first run: what an
unchanged server answers differs more from day to day than within a minute."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from genrm_cli.watching.watched_records import WatchRecord

BASELINE_RUNS = 10
"""Runs whose answers are the baseline."""
MIN_STABLE = 0.7
"""Share of stable sentinels below which the judge is too noisy to be watched by them."""
MISSING = "?"
"""Stands for a sentinel without a verdict; "+" prefers the chosen response, "-" the other, "="
neither.
"""
_AGREEING = 0.75  # share of the baseline's runs that agree on a stable sentinel
_MOST_MISSING = 0.5  # of a run that may be part of the baseline
VERDICTS = frozenset("+-=" + MISSING)
Count = tuple[int, int]
"""How many were bad, and of how many."""


@dataclass(slots=True)
class Sentinels:
    """The verdicts of one judge on its sentinels: a text of one character for each sentinel every
    time it was asked.

    Attributes:
        runs: those of the baseline so far.
        usual: for each sentinel the verdict that most runs of the baseline gave; None if too few
            agree, or while the baseline is taken.
        departed: departures of each run of the baseline from what the others agree on, and all
            verdicts on stable sentinels.
        newest: the run of the newest dump; None if it has no new one, as dumps of one run share
            theirs.
        is_learning: whether the newest run is part of the baseline.
    """

    runs: list[str] = field(default_factory=list)
    usual: tuple[str | None, ...] = ()
    departed: list[Count] = field(default_factory=list)
    newest: str | None = None
    is_learning: bool = False
    _identity: tuple[str | None, int] | None = None
    _asked: str | None = None

    @property
    def is_armed(self) -> bool:
        """Whether there is a baseline."""
        return len(self.runs) >= BASELINE_RUNS

    def add(self, watch: WatchRecord, run: str | None) -> None:
        """Add the verdicts of the next dump."""
        self.newest = None
        if run is None or watch.asked == self._asked:
            return
        identity = (watch.sentinel_set, len(run))
        # The length, too: with another panel, there are more verdicts on the same pairs.
        if identity != self._identity:
            self.runs = []
            self.usual = ()
            self.departed = []
            self._identity = identity
        self.newest = run
        self._asked = watch.asked
        self.is_learning = not self.is_armed and run.count(MISSING) <= _MOST_MISSING * len(run)
        if not self.is_learning:
            return
        self.runs.append(run)
        self.usual = _usual_of(self.runs) if self.is_armed else ()
        if len(self.runs) > 1:
            self.departed = [
                _departures(_usual_of(self.runs[:place] + self.runs[place + 1 :]), each)
                for place, each in enumerate(self.runs)
            ]

    def departures(self) -> Count:
        """Return how many verdicts of the newest run on stable sentinels are others than usual, and
        how many there are.
        """
        if self.newest is not None and self.is_learning and self.departed:
            return self.departed[-1]
        return _departures(self.usual, self.newest) if self.newest and self.usual else (0, 0)


def errors_in(run: str) -> Count:
    """Return on how many sentinels a run did not prefer the better response, and how many verdicts
    it has.
    """
    verdicts = run.replace(MISSING, "")
    return len(verdicts) - verdicts.count("+"), len(verdicts)


def _departures(usual: Sequence[str | None], run: str) -> Count:
    pairs = [
        (expected, now)
        for expected, now in zip(usual, run, strict=True)
        if expected is not None and now != MISSING
    ]
    return sum(expected != now for expected, now in pairs), len(pairs)


def _usual_of(runs: Sequence[str]) -> tuple[str | None, ...]:
    """Return the verdict on each sentinel that enough of these runs agree on; None if too few
    agree, or miss it.
    """
    usual: list[str | None] = []
    for verdicts in zip(*runs, strict=True):
        verdict, count = Counter(verdicts).most_common(1)[0]
        is_stable = verdict != MISSING and count >= _AGREEING * len(runs)
        usual.append(verdict if is_stable else None)
    return tuple(usual)
