"""The figures of a judge over many dumps, and the state after each of them.

The state of a dump is that of its worst signal, after alarms that another one explains are dropped.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from genrm_cli.errors import counted
from genrm_cli.metrics.verdict_counts import GroupedCount
from genrm_cli.scored.run_record import WatchedRun
from genrm_cli.watching.sentinels import (
    BASELINE_RUNS,
    MIN_STABLE,
    MISSING,
    Sentinels,
    errors_in,
)
from genrm_cli.watching.signals import GAMES, LEARNED_DUMPS, SIGNALS
from genrm_cli.watching.track import STOP_EVIDENCE, Measured, SignalState, State, Track
from genrm_cli.watching.watched_records import WatchRecord

_FEWEST_COMPARISONS = 20  # fewer show neither a change nor that there is none


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpFigures:
    """The figures of one dump.

    Attributes:
        judge: identity of the judge.
        dump: name of its scored lines.
        counts: bad ones and all, by signal.
        means: one value by signal.
        watch: audits, and verdicts on the sentinels, which dumps of one run share: only the
            first one counts.
    """

    judge: str = ""
    dump: str
    counts: Mapping[str, GroupedCount] = field(default_factory=dict)
    means: Mapping[str, float | None] = field(default_factory=dict)
    watch: WatchRecord = field(default_factory=WatchRecord)


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpState(WatchedRun):
    """The state after a dump, and that of each signal.

    Attributes:
        look_at: groups on which the auditor and the judge disagree most.
    """

    judge: str
    dump: str
    state: State = State.BLIND
    signals: Mapping[str, SignalState]
    look_at: tuple[str, ...] = ()


class Timeline:
    """Folds the observations of one judge, in their order, into states.

    `problems` is what of the history cannot be read, as sentences: with it, no state is fine.
    """

    def __init__(self, problems: Sequence[str] = ()) -> None:
        self._problems = problems
        self._dumps: list[str] = []
        self._tracks = {name: Track(signal) for name, signal in SIGNALS.items()}
        self._judge = Sentinels()
        self._auditor = Sentinels()

    def add(self, seen: DumpFigures) -> DumpState:
        """Add the next dump and return the state after it."""
        number = len(self._dumps)
        self._dumps.append(seen.dump)
        states = {}
        for name, (figure, ratios) in self._measure(number, seen).items():
            track = self._tracks[name]
            if ratios:
                track.add(number, ratios)
            evidence = track.detector.log_evidence
            states[name] = replace(
                figure,
                log_evidence=evidence if math.isfinite(evidence) else None,
                state=track.level,
                since=None if track.since is None else self._dumps[track.since],
                is_pending=track.is_pending,
            )
        raised = _explained({name: state for name, state in states.items() if state.state.is_alarm})
        blind = [*self._blindness(seen), *self._problems]
        worst = [state.state for state in raised.values()] + [State.BLIND] * bool(blind)
        return DumpState(
            judge=seen.judge,
            dump=seen.dump,
            state=max(worst, key=lambda state: state.severity, default=State.FINE),
            reasons=(*map(_reason, raised, raised.values()), *blind),
            signals={**states, **raised},
            look_at=seen.watch.look_at,
        )

    def acknowledge(self, name: str) -> None:
        """End the alarm of a signal, take its baseline again, and accept the share it has."""
        names = [name]
        if name.startswith("sentinel_"):
            self._judge = Sentinels()
            names = ["sentinel_flips", "sentinel_errors"]
        elif name.startswith("auditor_"):
            self._auditor = Sentinels()
        for each in names:
            self._tracks[each] = self._tracks[each].acknowledged()

    def _measure(self, number: int, seen: DumpFigures) -> dict[str, Measured]:
        """Return each signal in a dump."""
        tracks = self._tracks
        found = {}
        for name, track in tracks.items():
            counts = seen.counts.get(name, GroupedCount())
            found[name] = track.measure(number, counts, seen.means.get(name))
        watch = seen.watch
        if any(count for _, count in watch.audits):
            found["audits"] = tracks["audits"].measure_audits(watch.audits)
        judge = self._judge
        judge.add(watch, watch.sentinels)
        self._auditor.add(watch, watch.auditor_sentinels)
        for name, sentinels in (("sentinel_flips", judge), ("auditor_flips", self._auditor)):
            departures = sentinels.departures()
            found[name] = tracks[name].measure_sentinels(sentinels, sentinels.departed, departures)
        errors = [errors_in(run) for run in judge.runs]
        newest = errors_in(judge.newest or "")
        found["sentinel_errors"] = tracks["sentinel_errors"].measure_sentinels(
            judge, errors, newest
        )
        return found

    def _blindness(self, seen: DumpFigures) -> Iterator[str]:
        """Yield why the state of a dump cannot be known."""
        asked = seen.counts["failures"]
        if asked.of - asked.count < _FEWEST_COMPARISONS:
            yield f"only {counted(asked.of - asked.count, 'comparison')} with a verdict"
        judge = self._judge
        dumps = max(len(track.learned) for track in self._tracks.values())
        if not judge.is_armed and dumps < LEARNED_DUMPS:
            runs = f"{len(judge.runs)} of {BASELINE_RUNS} runs of the sentinels, "
            yield f"no baseline yet: {runs if judge.runs else ''}{dumps} of {LEARNED_DUMPS} dumps"
        unstable = judge.usual.count(None)
        if unstable > (1 - MIN_STABLE) * len(judge.usual):
            yield f"the judge contradicts itself on {unstable} of {len(judge.usual)} sentinels"
        if seen.watch.sentinels is not None and not set(seen.watch.sentinels) - {MISSING}:
            yield "no sentinel has a verdict"


def _reason(name: str, state: SignalState) -> str:
    since = "" if state.since is None else f" since {state.since}"
    pending = "; this becomes a stop if the next dumps confirm it" if state.is_pending else ""
    return f"{SIGNALS[name].text}{since}: {SIGNALS[name].advice}{pending}"


def _explained(raised: Mapping[str, SignalState]) -> dict[str, SignalState]:
    """Return the alarms as they explain each other.

    A judge or an auditor that changed disagrees with the other one more often: the policy is not to
    blame then. If neither did, less agreement together with what a policy may have learned says
    that it games the judge."""
    left = dict(raised)
    audits = left.get("audits")
    if audits is None:
        return left
    if left.keys() & {"sentinel_flips", "auditor_flips"}:
        del left["audits"]
    elif (audits.log_evidence or 0.0) >= STOP_EVIDENCE and left.keys() & GAMES:
        left["audits"] = replace(audits, state=State.STOP)
    return left
