"""The course of the watched figures over many dumps, and the state after each of them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from genrm_cli.scored.run_record import WatchRecord
from genrm_cli.watching.evidence import Detector, RateNull, log_mean, mean_null, rate_null
from genrm_cli.watching.sentinels import MIN_STABLE, MISSING, Sentinels, errors_in
from genrm_cli.watching.signals import GAMES, LEARNED_DUMPS, SIGNALS, Count, Signal

DUMPS_PER_LOOK = 100
DUMPS_PER_STOP = 1_000
"""Dumps in which a sound judge raises at most one false look, and one false stop, by all signals
together.
"""
_LOOK, _STOP = (math.log(len(SIGNALS) * dumps) for dumps in (DUMPS_PER_LOOK, DUMPS_PER_STOP))
_CONFIRMED = math.log(20)
_FEWEST_COMPARISONS = 20
_LEAST_DEVIATION = (
    0.02  # a baseline without any spread must not raise an alarm on the first small change
)
_FLOOR_COMPARISONS = 200
_FLOOR_SHARE = 0.05


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
        watch: audits, and what was said of the sentinels. Dumps of one run share that: only the
            first one counts.
    """

    dump: str
    counts: Mapping[str, Count] = field(default_factory=dict)
    means: Mapping[str, float] = field(default_factory=dict)
    watch: WatchRecord = field(default_factory=WatchRecord)


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
    """

    signal: Signal
    learned: list[Any] = field(default_factory=list)
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
                self.level = State.FINE
                self.since = None
                self.detector = Detector()
        evidence = self.detector.log_evidence
        if evidence >= _LOOK and self.level is State.FINE:
            start = self.detector.best_start
            self.level = State.LOOK
            self.since = number if start is None else start
            self._calm = [0.0] * len(ratios)
        self.wants_confirmation = (
            self.signal.can_stop and self.level is State.LOOK and evidence >= _STOP
        )
        if self.wants_confirmation and again is not None and log_mean(again) >= _CONFIRMED:
            self.level = State.STOP
            self.wants_confirmation = False


@dataclass(frozen=True, slots=True)
class _Measured:
    """A signal in one dump: its value, what is usual, and its log likelihood ratios once there is a
    baseline.
    """

    value: float | None
    usual: float | None = None
    ratios: Sequence[float] | None = None
    again: Sequence[float] | None = None


def _rated(null: RateNull | None, counts: Count, again: Count = (0, 0)) -> _Measured:
    """Measure a rate whose null is known; `again`: the counts of fresh calls that confirm an
    alarm.
    """
    if null is None:
        return _Measured(None)
    (bad, count), ratios = (
        counts,
        [null.ratios(*each) if each[1] else None for each in (counts, again)],
    )
    return _Measured(bad / count if count else None, null.rate, *ratios)


class Course:
    """Folds the observations of one judge, in their order, into states."""

    def __init__(self) -> None:
        self._dumps: list[str] = []
        self._watched = {name: _Watched(signal) for name, signal in SIGNALS.items()}
        self._judge = Sentinels()
        self._auditor = Sentinels()

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
            self._judge = Sentinels()
        elif name.startswith("auditor"):
            self._auditor = Sentinels()
        for each in (
            ("sentinel_flips", "sentinel_errors") if name.startswith("sentinel") else (name,)
        ):
            self._watched[each] = _Watched(SIGNALS[each])

    def _measure(self, seen: Observation) -> Iterator[tuple[str, _Measured]]:
        """Yield the signals of a dump."""
        for name, counts in seen.counts.items():
            null = SIGNALS[name].null
            if counts[1] and null is not None:  # the calls of the dump are fresh ones
                yield name, replace(_rated(null, counts), again=(_CONFIRMED,))
        for name, value in seen.means.items():
            yield name, self._measure_mean(name, value)
        watch = seen.watch
        judge = self._judge
        auditor = self._auditor
        if any(count for _, count in watch.audits):
            yield "audits", self._measure_audits(watch.audits)
        new = judge.add(watch, watch.sentinels)
        again = watch.sentinels_again
        yield "sentinel_flips", _rated(judge.null, judge.departures(new), judge.departures(again))
        usual = [errors_in([run]) for run in judge.runs]
        error_null = judge.null and rate_null(usual, SIGNALS["sentinel_errors"].shifts)
        yield "sentinel_errors", _rated(error_null, errors_in(new), errors_in(again))
        departures = auditor.departures(auditor.add(watch, watch.auditor_sentinels))
        yield "auditor_flips", _rated(auditor.null, departures)

    def _measure_mean(self, name: str, value: float) -> _Measured:
        learned = self._watched[name].learned
        sign = -1.0 if SIGNALS[name].falls else 1.0
        if len(learned) < LEARNED_DUMPS:
            learned.append(sign * value)
            return _Measured(value)
        null = mean_null(learned, _LEAST_DEVIATION * max(1.0, abs(learned[0])))
        return _Measured(value, sign * null.mean, null.ratios(sign * value))

    def _measure_audits(self, audits: Sequence[Sequence[int]]) -> _Measured:
        """Measure the disagreement of the auditor, each stratum against its own baseline."""
        bad, count = (sum(column) for column in zip(*audits, strict=True))
        learned = self._watched["audits"].learned
        if len(learned) < LEARNED_DUMPS:
            learned.append(audits)
            return _Measured(bad / count)
        nulls = [
            rate_null(stratum, SIGNALS["audits"].shifts) for stratum in zip(*learned, strict=True)
        ]
        known = [
            (null, stratum) for null, stratum in zip(nulls, audits, strict=True) if null is not None
        ]
        usual = sum(null.rate * stratum[1] for null, stratum in known) / count
        ratios = zip(*(null.ratios(*stratum) for null, stratum in known), strict=True)
        return _Measured(bad / count, usual, [sum(column) for column in ratios])

    def _state(self, name: str, measured: _Measured) -> SignalState:
        watched = self._watched[name]
        floor = watched.signal.floor
        level = watched.level
        if (
            level is State.FINE
            and floor is not None
            and measured.value is not None
            and measured.value > floor
        ):
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
        reasons = []
        for name, state in raised.items():
            since = "" if state.since is None else f" since {state.since}"
            reasons.append(f"{SIGNALS[name].text}{since}: {SIGNALS[name].advice}")
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
        """Whether these sentinels must be asked about several times, since there is no baseline for
        them.
        """
        return self._judge.null is None or self._judge.identity != sentinel_set

    @property
    def _learned(self) -> int:
        return max((len(watched.learned) for watched in self._watched.values()), default=0)

    def _blindness(self, seen: Observation) -> Iterator[str]:
        """Yield why the state of a dump cannot be known."""
        failed, asked = seen.counts.get("failures", (0, 0))
        if asked - failed < _FEWEST_COMPARISONS:
            yield f"only {asked - failed} comparisons have a verdict"
        usual = self._judge.usual
        sentinels = seen.watch.sentinels
        if self._judge.null is None and self._learned < LEARNED_DUMPS:
            yield f"no baseline yet: {self._learned} of {LEARNED_DUMPS} dumps"
        if (stable := sum(verdict is not None for verdict in usual)) < MIN_STABLE * len(usual):
            yield f"the judge contradicts itself on {len(usual) - stable} of {len(usual)} sentinels"
        if sentinels and not any(set(run) - {MISSING} for run in sentinels):
            yield "no sentinel has a verdict"


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
