"""The course of the watched figures over many dumps, and the state after each of them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from genrm_cli.watching.evidence import Detector, MeanNull, RateNull, log_mean, mean_null, rate_null
from genrm_cli.watching.sentinels import (
    BASELINE_RUNS,
    MIN_STABLE,
    MISSING,
    SentinelBaseline,
    errors_in,
    sentinel_baseline,
)
from genrm_cli.watching.signals import GAMES, LEARNED_DUMPS, SIGNALS, Count, Signal

DUMPS_PER_LOOK, DUMPS_PER_STOP = 100, 1_000
"""Dumps in which a sound judge raises at most one false look, and one false stop, by all signals together."""
_LOOK, _STOP = (math.log(len(SIGNALS) * dumps) for dumps in (DUMPS_PER_LOOK, DUMPS_PER_STOP))
_CONFIRMED = math.log(20)
_FEWEST_COMPARISONS = 20
_MOST_MISSING = 0.5  # of a run that may be part of the baseline
_LEAST_DEVIATION = 0.02  # a baseline without any spread must not raise an alarm on the first small change
_FLOOR_COMPARISONS, _FLOOR_SHARE = 200, 0.05


class State(StrEnum):
    """What a dump's figures say of its rewards; the later ones are worse."""

    FINE = "fine"
    BLIND = "blind"
    LOOK = "look"
    STOP = "stop"

    @property
    def severity(self) -> int:
        """0 for fine to 3 for stop."""
        return list(State).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What was measured with one dump.

    Attributes:
        dump: name of its scored lines.
        counts: bad ones and all, by signal.
        means: one value by signal.
        audits: disagreements of the auditor, and all audits, by how sure the judge was.
        sentinel_set: identity of the sentinels and of those who are asked about them: another one has its own baseline.
        asked: identity of the calls about sentinels; dumps of one run share them, and only the first one counts.
        sentinels: what the judge said of the sentinels each time it was asked; `auditor_sentinels` likewise.
        sentinels_again: what it said when an alarm had to be confirmed.
    """

    dump: str
    counts: Mapping[str, Count] = field(default_factory=dict)
    means: Mapping[str, float] = field(default_factory=dict)
    audits: Sequence[Count] = ()
    sentinel_set: str | None = None
    asked: str | None = None
    sentinels: Sequence[str] = ()
    sentinels_again: Sequence[str] = ()
    auditor_sentinels: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalState:
    """One signal after a dump.

    Attributes:
        value: in this dump; None if it was not measured.
        usual: in the baseline; None while there is none.
        log_evidence: natural logarithm of the evidence for a change; None without any.
        state: what it says alone.
        since: the first suspect dump.
        confirm: whether fresh calls would turn a look into a stop.
    """

    value: float | None
    usual: float | None
    log_evidence: float | None
    state: State
    since: str | None
    confirm: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The state after a dump.

    Attributes:
        reasons: of a state that is not fine, as sentences.
        learned: dumps of the baseline so far, of `LEARNED_DUMPS`.
    """

    dump: str
    state: State
    reasons: tuple[str, ...]
    signals: Mapping[str, SignalState]
    learned: int

    @property
    def wants_confirmation(self) -> set[str]:
        """The signals that would say stop if fresh calls did."""
        return {name for name, state in self.signals.items() if state.confirm}


@dataclass(slots=True)
class _Watched:
    """A signal with its baseline, its evidence and its alarm.

    Attributes:
        learned: the dumps of the baseline: values of a mean, or counts by stratum of a rate.
        null: what they tell of a mean; `nulls` of a rate, by stratum.
    """

    signal: Signal
    learned: list[Any] = field(default_factory=list)
    null: MeanNull | None = None
    nulls: list[RateNull | None] = field(default_factory=list)
    detector: Detector = field(default_factory=Detector)
    level: State = State.FINE
    since: int | None = None
    wants_confirmation: bool = False
    _calm: list[float] = field(default_factory=list)

    def add(self, number: int, ratios: Sequence[float], again: Sequence[float] | None) -> None:
        """Add a dump; raise an alarm, or end one that the dumps since then refute.

        `again`: the log likelihood ratios of fresh calls, which a stop takes; None without any.
        """
        self.detector.add(number, ratios)
        if self.level is not State.FINE:
            self._calm = [before + ratio for before, ratio in zip(self._calm, ratios, strict=True)]
            if max(self._calm) <= -_CONFIRMED:
                self.end()
        evidence = self.detector.log_evidence
        if evidence >= _LOOK and self.level is State.FINE:
            start = self.detector.best_start
            self.level, self.since, self._calm = State.LOOK, number if start is None else start, [0.0] * len(ratios)
        self.wants_confirmation = self.signal.can_stop and self.level is State.LOOK and evidence >= _STOP
        if self.wants_confirmation and again is not None and log_mean(again) >= _CONFIRMED:
            self.level, self.wants_confirmation = State.STOP, False

    def end(self) -> None:
        """End the alarm and forget the evidence."""
        self.level, self.since, self.wants_confirmation = State.FINE, None, False
        self.detector.restart()


@dataclass(slots=True)
class _Sentinels:
    """What one judge has said of the sentinels: the runs of the baseline, and what they tell."""

    runs: list[str] = field(default_factory=list)
    baseline: SentinelBaseline | None = None
    _set: str | None = None
    _asked: str | None = None

    def add(self, seen: Observation, runs: Sequence[str]) -> Sequence[str]:
        """Add what the judge said; return the runs that are new and that the baseline judges."""
        if not runs or seen.asked == self._asked:
            return ()
        if seen.sentinel_set != self._set:
            self.runs, self.baseline, self._set = [], None, seen.sentinel_set
        self._asked = seen.asked
        if self.baseline is not None:
            return runs
        self.runs += (run for run in runs if run.count(MISSING) <= _MOST_MISSING * len(run))
        if len(self.runs) >= BASELINE_RUNS:
            self.baseline = sentinel_baseline(self.runs)
        return ()

    def is_armed(self, sentinel_set: str) -> bool:
        """Whether there is a baseline of these sentinels."""
        return self.baseline is not None and self._set == sentinel_set

    def flips(self, new: Sequence[str], again: Sequence[str]) -> "_Measured":
        """Measure the departures from the baseline."""
        if self.baseline is None:
            return _Measured(None)
        null, (bad, count) = self.baseline.null, self.baseline.departures(new)
        fresh = null.ratios(*self.baseline.departures(again)) if again else None
        return _Measured(_share(bad, count), null.rate, null.ratios(bad, count) if count else None, fresh)

    def errors(self, new: Sequence[str], again: Sequence[str]) -> "_Measured":
        """Measure the errors, since the better response is known."""
        null = rate_null([errors_in([run]) for run in self.runs], SIGNALS["sentinel_errors"].shifts)
        (bad, count), fresh = errors_in(new), errors_in(again)
        if self.baseline is None or null is None:
            return _Measured(None)
        told = null.ratios(bad, count) if count else None
        return _Measured(_share(bad, count), null.rate, told, null.ratios(*fresh) if fresh[1] else None)


@dataclass(frozen=True, slots=True)
class _Measured:
    """A signal in one dump: its value, what is usual, and its log likelihood ratios once there is a baseline."""

    value: float | None
    usual: float | None = None
    ratios: Sequence[float] | None = None
    again: Sequence[float] | None = None


class Course:
    """Folds the observations of one judge, in their order, into states."""

    def __init__(self) -> None:
        self._dumps: list[str] = []
        self._watched = {name: _Watched(signal) for name, signal in SIGNALS.items()}
        self._judge, self._auditor = _Sentinels(), _Sentinels()

    def add(self, seen: Observation) -> Judgement:
        """Add the next dump and return the state after it."""
        self._dumps.append(seen.dump)
        measured = dict(self._measure(seen))
        for name, each in measured.items():
            if each.ratios is not None:
                self._watched[name].add(len(self._dumps) - 1, each.ratios, each.again)
        states = {name: self._state(name, measured.get(name, _Measured(None))) for name in SIGNALS}
        return self._judgement(seen, states)

    def acknowledge(self, name: str) -> None:
        """End the alarm of a signal and take its baseline again."""
        if name.startswith("sentinel"):
            self._judge = _Sentinels()
        elif name.startswith("auditor"):
            self._auditor = _Sentinels()
        for each in ("sentinel_flips", "sentinel_errors") if name.startswith("sentinel") else (name,):
            self._watched[each] = _Watched(SIGNALS[each])

    def _measure(self, seen: Observation) -> Iterator[tuple[str, _Measured]]:
        """Yield the signals of a dump."""
        for name, (bad, count) in seen.counts.items():
            null = SIGNALS[name].null
            if count and null is not None:  # the calls of the dump are fresh ones
                yield name, _Measured(bad / count, null.rate, null.ratios(bad, count), (_CONFIRMED,))
        for name, value in seen.means.items():
            yield name, self._measure_mean(name, value)
        if any(count for _, count in seen.audits):
            yield "audits", self._measure_audits(seen)
        new, again = self._judge.add(seen, seen.sentinels), seen.sentinels_again
        yield "sentinel_flips", self._judge.flips(new, again)
        yield "sentinel_errors", self._judge.errors(new, again)
        yield "auditor_flips", self._auditor.flips(self._auditor.add(seen, seen.auditor_sentinels), ())

    def _measure_mean(self, name: str, value: float) -> _Measured:
        watched = self._watched[name]
        sign = -1.0 if watched.signal.falls else 1.0
        if len(watched.learned) < LEARNED_DUMPS:
            watched.learned.append(sign * value)
            return _Measured(value)
        if watched.null is None:
            watched.null = mean_null(watched.learned, _LEAST_DEVIATION * max(1.0, abs(watched.learned[0])))
        null = watched.null
        return _Measured(value, sign * null.mean, null.ratios(sign * value))

    def _measure_audits(self, seen: Observation) -> _Measured:
        """Measure the disagreement of the auditor, each stratum against its own baseline."""
        bad, count = (sum(column) for column in zip(*seen.audits, strict=True))
        watched = self._watched["audits"]
        if len(watched.learned) < LEARNED_DUMPS:
            watched.learned.append(tuple(seen.audits))
            return _Measured(bad / count)
        nulls = watched.nulls = watched.nulls or [
            rate_null(stratum, watched.signal.shifts) for stratum in zip(*watched.learned, strict=True)
        ]
        usual = sum(null.rate * n for null, (_, n) in zip(nulls, seen.audits, strict=True) if null is not None) / count
        by_stratum = [null.ratios(*of) for null, of in zip(nulls, seen.audits, strict=True) if null is not None]
        return _Measured(bad / count, usual, [sum(column) for column in zip(*by_stratum, strict=True)])

    def _state(self, name: str, measured: _Measured) -> SignalState:
        watched = self._watched[name]
        floor, level = watched.signal.floor, watched.level
        if level is State.FINE and floor is not None and measured.value is not None and measured.value > floor:
            level = State.LOOK
        evidence = watched.detector.log_evidence
        return SignalState(
            value=measured.value,
            usual=measured.usual,
            log_evidence=evidence if math.isfinite(evidence) else None,
            state=level,
            since=None if watched.since is None else self._dumps[watched.since],
            confirm=watched.wants_confirmation,
        )

    def _judgement(self, seen: Observation, states: Mapping[str, SignalState]) -> Judgement:
        raised = {name: state for name, state in states.items() if state.state is not State.FINE}
        failed, asked = seen.counts.get("failures", (0, 0))
        if "failures" in raised and asked >= _FLOOR_COMPARISONS and failed > _FLOOR_SHARE * asked:
            raised["failures"] = replace(raised["failures"], state=State.STOP)
        raised = _explained(raised)
        reasons = [f"{SIGNALS[name].text}{_since(state)}: {SIGNALS[name].advice}" for name, state in raised.items()]
        blind = list(self._blindness(seen))
        worst = [state.state for state in raised.values()] + [State.BLIND] * bool(blind)
        return Judgement(
            dump=seen.dump,
            state=max(worst, key=lambda state: state.severity, default=State.FINE),
            reasons=(*reasons, *blind),
            signals={**states, **raised},
            learned=self._learned,
        )

    def needs_baseline(self, sentinel_set: str) -> bool:
        """Whether these sentinels must be asked about several times, since there is no baseline for them."""
        return not self._judge.is_armed(sentinel_set)

    @property
    def _learned(self) -> int:
        return max((len(watched.learned) for watched in self._watched.values()), default=0)

    def _blindness(self, seen: Observation) -> Iterator[str]:
        """Yield why the state of a dump cannot be known."""
        failed, asked = seen.counts.get("failures", (0, 0))
        if asked - failed < _FEWEST_COMPARISONS:
            yield f"only {asked - failed} comparisons have a verdict"
        armed = self._judge.baseline
        if armed is None and self._learned < LEARNED_DUMPS:
            yield f"no baseline yet: {self._learned} of {LEARNED_DUMPS} dumps"
        if armed is not None and armed.stable < MIN_STABLE * len(armed.usual):
            yield f"the judge contradicts itself on {len(armed.usual) - armed.stable} of {len(armed.usual)} sentinels"
        if seen.sentinels and not any(set(run) - {MISSING} for run in seen.sentinels):
            yield "no sentinel has a verdict"


def _explained(raised: Mapping[str, SignalState]) -> dict[str, SignalState]:
    """Return the alarms as they explain each other.

    A judge or an auditor that changed disagrees with the other one more often: the policy is not to blame then. If
    neither did, less agreement together with what a policy may have learned says that it games the judge.
    """
    audits = raised.get("audits")
    if audits is not None and raised.keys() & {"sentinel_flips", "auditor_flips"}:
        return {name: state for name, state in raised.items() if name != "audits"}
    if audits is not None and (audits.log_evidence or 0.0) >= _STOP and raised.keys() & set(GAMES):
        return {**raised, "audits": replace(audits, state=State.STOP)}
    return dict(raised)


def _share(bad: int, count: int) -> float | None:
    return bad / count if count else None


def _since(state: SignalState) -> str:
    return "" if state.since is None else f" since {state.since}"
