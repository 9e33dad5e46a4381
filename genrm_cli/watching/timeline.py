"""The figures of a judge over many dumps, and the state after each of them.

Each signal has a track: the baseline that its first dumps make, a detector that adds the evidence
of the dumps after it, and an alarm. Evidence of `_LOOK` raises the alarm to look. Evidence of
`_STOP` asks for confirmation, if the null was estimated: the dumps that follow must show the change
by themselves. Dumps that refute a change by as much end its alarm. The state of a dump is that of
its worst signal, after alarms that another one explains are dropped.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from genrm_cli.metrics.figures import rounded
from genrm_cli.metrics.running_stats import wilson_interval
from genrm_cli.metrics.verdict_counts import GroupedCount
from genrm_cli.scored.run_record import WatchedRun
from genrm_cli.watching.evidence import (
    Detector,
    RateNull,
    Ratios,
    log_mean,
    mean_null,
    rate_of,
)
from genrm_cli.watching.sentinels import (
    BASELINE_RUNS,
    MIN_STABLE,
    MISSING,
    Count,
    Sentinels,
    errors_in,
)
from genrm_cli.watching.signals import GAMES, LEARNED_DUMPS, SIGNALS, Signal
from genrm_cli.watching.watched_records import WatchRecord

DUMPS_PER_LOOK = 100
DUMPS_PER_STOP = 1_000
"""Dumps in which a sound judge raises at most one false look, and one false stop, by all signals
together.
"""
_LOOK = math.log(len(SIGNALS) * DUMPS_PER_LOOK)
_STOP = math.log(len(SIGNALS) * DUMPS_PER_STOP)
_CONFIRMED = math.log(20)  # evidence of 20 to 1 by the dumps since the alarm alone
_FEWEST_COMPARISONS = 20  # fewer show neither a change nor that there is none
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
class DumpFigures:
    """The figures of one dump.

    Attributes:
        dump: name of its scored lines.
        counts: bad ones and all, by signal.
        means: one value by signal.
        watch: audits, and verdicts on the sentinels, which dumps of one run share: only the
            first one counts.
    """

    dump: str
    counts: Mapping[str, GroupedCount] = field(default_factory=dict)
    means: Mapping[str, float] = field(default_factory=dict)
    watch: WatchRecord = field(default_factory=WatchRecord)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpState(WatchedRun):
    """The state after a dump, and that of each signal."""

    dump: str
    state: State = State.BLIND
    signals: Mapping[str, SignalState]


@dataclass(slots=True)
class _Track:
    """A signal with its baseline, its evidence and its alarm.

    Attributes:
        learned: the dumps of the baseline: values of a mean, or counts by stratum of audits.
        counts: bad ones and all of each dump; `pooled`: of all dumps, for the design effect.
        accepted: rates that an acknowledgement accepted, which the null may not fall below.
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

    def measure_counts(
        self, number: int, counts: GroupedCount
    ) -> tuple[SignalState, dict[str, float]]:
        """Measure the counts of a dump against the null of the signal."""
        self.counts[number] = counts
        self.pooled.merge(counts)
        sides = self._sides(counts)
        if (null := self.signal.null) is None or not counts.of:
            return SignalState(), {}
        effect = self.pooled.design_effect()
        rates = self.accepted or (null.rate,) * len(sides)
        share = max(bad for bad, _ in sides) / counts.of
        figure = SignalState(value=share, interval=wilson_interval(share, counts.of / effect))
        nulls = (RateNull(rate, null.shifts, effect) for rate in rates)
        return figure, {
            f"floor {side} {j}": ratio
            for side, (rate_null, bad) in enumerate(zip(nulls, sides, strict=True))
            for j, ratio in enumerate(rate_null.ratios(*bad))
        }

    def _sides(self, counts: GroupedCount) -> list[Count]:
        sides = [(counts.count, counts.of)]
        return sides + [(counts.of - counts.count, counts.of)] * self.signal.is_two_sided

    def acknowledged(self) -> "_Track":
        """Return the signal without evidence and baseline; its null is the upper end of the share
        in the suspect dumps, where that is larger.
        """
        suspect = GroupedCount()
        for number, counts in self.counts.items():
            if self.since is not None and number >= self.since:
                suspect.merge(counts)
        accepted = self.accepted
        if (null := self.signal.null) is not None and suspect.of:
            size = suspect.of / self.pooled.design_effect()
            sides = self._sides(suspect)
            accepted = tuple(
                max(rate, wilson_interval(bad / of, size)[1])
                for rate, (bad, of) in zip(
                    accepted or (null.rate,) * len(sides), sides, strict=True
                )
            )
        return _Track(self.signal, accepted, pooled=self.pooled)

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
                self._end()
            elif self.is_pending and log_mean([*self._after.values()]) >= _CONFIRMED:
                self._raise(State.STOP)
        elif evidence >= _LOOK:
            start = self.detector.best_start
            self.since = number if start is None else start
            self._raise(State.LOOK)
        else:
            self.level = State.FINE
        if self.signal.can_stop and self.level is State.LOOK and evidence >= _STOP:
            if self.signal.null is not None:  # known, and not estimated: nothing to confirm
                self._raise(State.STOP)
            elif not self.is_pending:
                self._raise(State.LOOK)
                self.is_pending = True

    def _raise(self, level: State) -> None:
        self.level = level
        self.is_pending = False
        self._after = {}

    def _end(self) -> None:
        self._raise(State.FINE)
        self.since = None
        self.detector = Detector()


class Timeline:
    """Folds the observations of one judge, in their order, into states.

    `problems` is what of the history cannot be read, as sentences: with it, no state is fine.
    """

    def __init__(self, problems: Sequence[str] = ()) -> None:
        self._problems = problems
        self._dumps: list[str] = []
        self._tracks = {name: _Track(signal) for name, signal in SIGNALS.items()}
        self._judge = Sentinels()
        self._auditor = Sentinels()

    def add(self, seen: DumpFigures) -> DumpState:
        """Add the next dump and return the state after it."""
        number = len(self._dumps)
        self._dumps.append(seen.dump)
        figures: dict[str, SignalState] = {}
        for name, figure, ratios in self._measure(number, seen):
            figures[name] = figure
            if ratios:
                self._tracks[name].add(number, ratios)
        states = {name: self._state(name, figures.get(name, SignalState())) for name in SIGNALS}
        return self._judgement(seen, states)

    def acknowledge(self, name: str) -> None:
        """End the alarm of a signal, take its baseline again, and accept the share it has."""
        kind = name.partition("_")[0]
        if kind == "sentinel":
            self._judge = Sentinels()
        elif kind == "auditor":
            self._auditor = Sentinels()
        for each in ("sentinel_flips", "sentinel_errors") if kind == "sentinel" else (name,):
            self._tracks[each] = self._tracks[each].acknowledged()

    def _measure(self, number: int, seen: DumpFigures) -> Iterator[tuple[str, SignalState, Ratios]]:
        """Yield the signals of a dump, with the evidence of those that have any."""
        for name in SIGNALS:
            if name not in seen.counts and name not in seen.means:
                continue
            figure = SignalState()
            ratios: dict[str, float] = {}
            if (counts := seen.counts.get(name)) is not None:
                figure, ratios = self._tracks[name].measure_counts(number, counts)
            if (value := seen.means.get(name)) is not None:
                usual, change = self._measure_mean(name, value)
                figure = replace(usual, interval=figure.interval)
                ratios |= change
            yield name, figure, ratios
        watch = seen.watch
        if any(count for _, count in watch.audits):
            yield "audits", *self._measure_audits(watch.audits)
        judge = self._judge
        run = judge.add(watch, watch.sentinels)
        yield self._measure_sentinels("sentinel_flips", judge, run)
        yield self._measure_sentinels("sentinel_errors", judge, run)
        run = self._auditor.add(watch, watch.auditor_sentinels)
        yield self._measure_sentinels("auditor_flips", self._auditor, run)

    def _measure_mean(self, name: str, value: float) -> tuple[SignalState, Ratios]:
        learned = self._tracks[name].learned
        sign = -1.0 if SIGNALS[name].falls else 1.0
        ratios: Ratios = {}
        if len(learned) == LEARNED_DUMPS:
            null = mean_null(learned, _LEAST_DEVIATION * max(1.0, abs(learned[0])))
            ratios = _named("change", null.ratios(sign * value))
        else:
            learned.append(sign * value)
        usual = sign * math.fsum(learned) / len(learned)
        figure = SignalState(value=value, usual=usual, learned=len(learned), needed=LEARNED_DUMPS)
        return figure, ratios

    def _measure_audits(self, audits: Sequence[Sequence[int]]) -> tuple[SignalState, Ratios]:
        """Measure the disagreement of the auditor, each stratum against its own baseline."""
        bad, count = (sum(column) for column in zip(*audits, strict=True))
        learned = self._tracks["audits"].learned
        ratios: Ratios = {}
        if len(learned) == LEARNED_DUMPS:
            rates = [rate_of(stratum) for stratum in zip(*learned, strict=True)]
            of_strata = [
                rate.null(SIGNALS["audits"].shifts).ratios(*stratum)
                for rate, stratum in zip(rates, audits, strict=True)
                if rate is not None
            ]
            ratios = _named("change", [sum(column) for column in zip(*of_strata, strict=True)])
        else:
            learned.append(audits)
        shares = [sum(x for x, _ in each) / sum(n for _, n in each) for each in learned]
        figure = SignalState(
            value=bad / count,
            interval=wilson_interval(bad / count, count),
            usual=math.fsum(shares) / len(shares),
            learned=len(learned),
            needed=LEARNED_DUMPS,
        )
        return figure, ratios

    def _measure_sentinels(
        self, name: str, sentinels: Sentinels, run: str | None
    ) -> tuple[str, SignalState, Ratios]:
        if name == "sentinel_errors":
            counts = [errors_in(each) for each in sentinels.runs]
            bad, count = errors_in(run or "")
        else:
            counts = sentinels.departed
            bad, count = sentinels.departures(run) if run is not None else (0, 0)
        rate = rate_of(counts, is_cautious=True)
        ratios: Ratios = {}
        if rate is not None and count and sentinels.is_armed and not sentinels.is_learning:
            null = rate.null(SIGNALS[name].shifts, _LEAST_RATE)
            ratios = _named("change", null.ratios(bad, count))
        figure = SignalState(
            value=bad / count if count else None,
            interval=wilson_interval(bad / count, count) if count else None,
            usual=None if rate is None else rate.bad / rate.count,
            learned=len(sentinels.runs),
            needed=BASELINE_RUNS if sentinels.runs else 0,
        )
        return name, figure, ratios

    def _state(self, name: str, figure: SignalState) -> SignalState:
        track = self._tracks[name]
        evidence = track.detector.log_evidence
        return replace(
            figure,
            log_evidence=evidence if math.isfinite(evidence) else None,
            state=track.level,
            since=None if track.since is None else self._dumps[track.since],
            is_pending=track.is_pending,
        )

    def _judgement(self, seen: DumpFigures, states: Mapping[str, SignalState]) -> DumpState:
        raised = _explained({name: state for name, state in states.items() if state.state.is_alarm})
        reasons = []
        for name, state in raised.items():
            since = "" if state.since is None else f" since {state.since}"
            reasons.append(f"{SIGNALS[name].text}{since}: {SIGNALS[name].advice}")
            if state.is_pending:
                reasons[-1] += "; this becomes a stop if the next dumps confirm it"
        blind = [*self._blindness(seen), *self._problems]
        worst = [state.state for state in raised.values()] + [State.BLIND] * bool(blind)
        return DumpState(
            dump=seen.dump,
            state=max(worst, key=lambda state: state.severity, default=State.FINE),
            reasons=(*reasons, *blind),
            signals={**states, **raised},
        )

    def _blindness(self, seen: DumpFigures) -> Iterator[str]:
        """Yield why the state of a dump cannot be known."""
        asked = seen.counts["failures"]
        if asked.of - asked.count < _FEWEST_COMPARISONS:
            yield f"only {asked.of - asked.count} comparisons have a verdict"
        judge = self._judge
        dumps = max(len(track.learned) for track in self._tracks.values())
        if not judge.is_armed and dumps < LEARNED_DUMPS:
            runs = f"{len(judge.runs)} of {BASELINE_RUNS} runs of the sentinels, "
            yield f"no baseline yet: {runs if judge.runs else ''}{dumps} of {LEARNED_DUMPS} dumps"
        stable = sum(verdict is not None for verdict in judge.usual)
        if stable < MIN_STABLE * len(judge.usual):
            unstable = len(judge.usual) - stable
            yield f"the judge contradicts itself on {unstable} of {len(judge.usual)} sentinels"
        if seen.watch.sentinels is not None and not set(seen.watch.sentinels) - {MISSING}:
            yield "no sentinel has a verdict"


def _named(kind: str, ratios: Sequence[float]) -> dict[str, float]:
    return {f"{kind} {j}": ratio for j, ratio in enumerate(ratios)}


def _explained(raised: Mapping[str, SignalState]) -> dict[str, SignalState]:
    """Return the alarms as they explain each other.

    A judge or an auditor that changed disagrees with the other one more often: the policy is not to
    blame then. If neither did, less agreement together with what a policy may have learned says
    that it games the judge."""
    audits = raised.get("audits")
    if audits is not None and raised.keys() & {"sentinel_flips", "auditor_flips"}:
        return {name: state for name, state in raised.items() if name != "audits"}
    if audits is not None and (audits.log_evidence or 0.0) >= _STOP and raised.keys() & set(GAMES):
        return {**raised, "audits": replace(audits, state=State.STOP)}
    return dict(raised)
