"""One signal over many dumps: its baseline, its evidence and its alarm.

The first dumps make the baseline, and a detector adds the evidence of the dumps after it. Evidence
of `_LOOK` raises the alarm to look. Evidence of `_STOP` asks for confirmation, if the null was
estimated: the dumps that follow must show the change by themselves. Dumps that refute a change by
as much end its alarm.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from genrm_cli.metrics.figures import rounded
from genrm_cli.metrics.running_stats import wilson_interval
from genrm_cli.metrics.verdict_counts import GroupedCount
from genrm_cli.watching.evidence import (
    Detector,
    RateNull,
    Ratios,
    log_mean,
    mean_ratios,
    rate_null,
)
from genrm_cli.watching.sentinels import BASELINE_RUNS, Count, Sentinels
from genrm_cli.watching.signals import LEARNED_DUMPS, SIGNALS, Signal

DUMPS_PER_LOOK = 100
DUMPS_PER_STOP = 1_000
"""Dumps in which a sound judge raises at most one false look, and one false stop, by all signals
together.
"""
STOP_EVIDENCE = math.log(len(SIGNALS) * DUMPS_PER_STOP)
_LOOK_EVIDENCE = math.log(len(SIGNALS) * DUMPS_PER_LOOK)
_CONFIRMED = math.log(20)  # evidence of 20 to 1 by the dumps since the alarm alone
# A baseline without any spread must not raise an alarm on the first small change.
_LEAST_DEVIATION = 0.02
# Least rate of departures of an unchanged judge: ten runs without one do not rule out the few that
# a batch of another size or a new cache brings.
_LEAST_RATE = 0.02


class State(StrEnum):
    """Whether the rewards of a dump can be trusted; later members are worse."""

    FINE = "fine"
    BLIND = "blind"
    LOOK = "look"
    STOP = "stop"

    @property
    def severity(self) -> int:
        """0 for fine to 3 for stop."""
        return list(State).index(self)

    @property
    def is_alarm(self) -> bool:
        """Whether it is look or stop."""
        return self in (State.LOOK, State.STOP)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalState:
    """One signal after a dump.

    Attributes:
        log_evidence: natural logarithm of the evidence for a change; None without any.
        state: of this signal alone; blind until it is known.
        since: the first suspect dump.
        is_pending: whether it says stop if the following dumps confirm it.
        value: in this dump; None if it was not measured.
        interval: of the value, 95 %; None if this dump alone does not tell it.
        usual: in the baseline so far; None without any.
        learned: dumps of the baseline so far, of `needed`; both 0 for a signal that needs none.
    """

    log_evidence: float | None = None
    state: State = State.BLIND
    since: str | None = None
    is_pending: bool = False
    value: float | None = None
    interval: tuple[float, ...] | None = None
    usual: float | None = None
    learned: int = 0
    needed: int = 0


Measured = tuple[SignalState, Ratios]
"""A signal in a dump, with the evidence that the dump adds; none while the baseline is taken."""


@dataclass(slots=True)
class Track:
    """A signal with its baseline, its evidence and its alarm.

    Attributes:
        accepted: rates that an acknowledgement accepted, which the floor may not fall below.
        learned: the dumps of the baseline: values of a mean, or counts by stratum of audits.
        counts: bad ones and all of each dump; `pooled`: of all dumps, for the design effect.
    """

    signal: Signal
    accepted: tuple[float, ...] = ()
    learned: list[Any] = field(default_factory=list)
    counts: dict[int, GroupedCount] = field(default_factory=dict)
    pooled: GroupedCount = field(default_factory=GroupedCount)
    detector: Detector = field(default_factory=Detector)
    level: State = State.BLIND
    since: int | None = None
    is_pending: bool = False
    _after: dict[str, float] = field(default_factory=dict)

    def measure(self, number: int, counts: GroupedCount, value: float | None) -> Measured:
        """Measure the counts of a dump against the floor, and its value against the baseline."""
        figure, ratios = self._measure_counts(number, counts) if counts.of else (SignalState(), {})
        if value is None:
            return figure, ratios
        sign = -1.0 if self.signal.falls else 1.0
        if len(self.learned) == LEARNED_DUMPS:
            # Relative to the first value, so that it does not depend on the rest of the baseline.
            least = _LEAST_DEVIATION * max(1.0, abs(self.learned[0]))
            ratios |= _named("change", mean_ratios(self.learned, sign * value, least))
        else:
            self.learned.append(sign * value)
        usual = sign * math.fsum(self.learned) / len(self.learned)
        return self._learning(replace(figure, value=value, usual=usual)), ratios

    def _measure_counts(
        self, number: int, counts: GroupedCount
    ) -> tuple[SignalState, dict[str, float]]:
        self.counts[number] = counts
        self.pooled.merge(counts)
        # Of all dumps so far: one dump has too few groups to show how much they differ.
        effect = self.pooled.design_effect()
        ratios: dict[str, float] = {}
        sides = self._sides(counts)
        for side, (bad, rate) in enumerate(sides):
            of_side = RateNull(rate, effect).ratios(self.signal.shifts, bad, counts.of)
            ratios |= _named(f"floor {side}", of_side)
        return _share(max(bad for bad, _ in sides), counts.of, counts.of / effect), ratios

    def _sides(self, counts: GroupedCount) -> list[tuple[int, float]]:
        """Return the bad ones, and the others if they may be too many, each with its null."""
        bads = [counts.count] + [counts.of - counts.count] * self.signal.is_two_sided
        rates = self.accepted or (self.signal.floor or 0.0,) * len(bads)
        return list(zip(bads, rates, strict=True))

    def measure_audits(self, audits: Sequence[Sequence[int]]) -> Measured:
        """Measure the disagreement of the auditor, each stratum against its own baseline."""
        bad, count = (sum(column) for column in zip(*audits, strict=True))
        ratios: Ratios = {}
        if len(self.learned) == LEARNED_DUMPS:
            nulls = [rate_null(stratum) for stratum in zip(*self.learned, strict=True)]
            of_strata = [
                null.ratios(self.signal.shifts, *stratum)
                for null, stratum in zip(nulls, audits, strict=True)
                if null is not None
            ]
            ratios = _named("change", [sum(column) for column in zip(*of_strata, strict=True)])
        else:
            self.learned.append(audits)
        shares = [sum(x for x, _ in each) / sum(n for _, n in each) for each in self.learned]
        usual = math.fsum(shares) / len(shares)
        return self._learning(replace(_share(bad, count, count), usual=usual)), ratios

    def measure_sentinels(
        self, sentinels: Sentinels, baseline: Sequence[Count], newest: Count
    ) -> Measured:
        """Measure the bad verdicts of the newest run, and all of them, against the baseline's."""
        bad, count = newest
        null = rate_null(baseline, _LEAST_RATE, is_cautious=True)
        ratios: Ratios = {}
        if null is not None and count and sentinels.is_armed and not sentinels.is_learning:
            ratios = _named("change", null.ratios(self.signal.shifts, bad, count))
        figure = _share(bad, count, count) if count else SignalState()
        runs = len(sentinels.runs)
        of = sum(count for _, count in baseline)
        usual = sum(bad for bad, _ in baseline) / of if of else None
        needed = BASELINE_RUNS if runs else 0
        return replace(figure, usual=usual, learned=runs, needed=needed), ratios

    def _learning(self, figure: SignalState) -> SignalState:
        return replace(figure, learned=len(self.learned), needed=LEARNED_DUMPS)

    def acknowledged(self) -> "Track":
        """Return the signal without evidence and baseline; its floor is the upper end of the share
        in the suspect dumps, where that is larger.
        """
        suspect = GroupedCount()
        for number, counts in self.counts.items():
            if self.since is not None and number >= self.since:
                suspect.merge(counts)
        accepted = self.accepted
        if suspect.of:
            size = suspect.of / self.pooled.design_effect()
            accepted = tuple(
                max(rate, wilson_interval(bad / suspect.of, size)[1])
                for bad, rate in self._sides(suspect)
            )
        return Track(self.signal, accepted, pooled=self.pooled)

    def add(self, number: int, ratios: Ratios) -> None:
        """Add the evidence of a dump: raise an alarm, confirm it, or end one that the dumps since
        then refute.
        """
        self.detector.add(number, ratios)
        evidence = self.detector.log_evidence
        if self.level.is_alarm:
            for name, ratio in ratios.items():
                before = self._after.get(name, 0.0)
                # Evidence that confirms is summed from its dump on; what refutes may begin later.
                self._after[name] = ratio + (before if self.is_pending else min(0.0, before))
            if rounded(max(self._after.values())) <= -_CONFIRMED:
                self._turn(State.FINE)
                self.since = None
                self.detector = Detector()
            elif self.is_pending and log_mean([*self._after.values()]) >= _CONFIRMED:
                self._turn(State.STOP)
        elif evidence >= _LOOK_EVIDENCE:
            start = self.detector.best_start
            self.since = number if start is None else start
            self._turn(State.LOOK)
        else:
            self.level = State.FINE
        is_certain = self.signal.can_stop and evidence >= STOP_EVIDENCE
        if is_certain and self.level is State.LOOK and not self.is_pending:
            # A floor is known, and not estimated: nothing to confirm.
            self._turn(State.LOOK if self.signal.floor is None else State.STOP)
            self.is_pending = self.signal.floor is None

    def _turn(self, level: State) -> None:
        self.level = level
        self.is_pending = False
        self._after = {}


def _named(kind: str, ratios: Sequence[float]) -> dict[str, float]:
    return {f"{kind} {j}": ratio for j, ratio in enumerate(ratios)}


def _share(bad: int, count: int, size: float) -> SignalState:
    """Return a share with the interval that so many independent observations give."""
    share = bad / count
    return SignalState(value=share, interval=wilson_interval(share, size))
