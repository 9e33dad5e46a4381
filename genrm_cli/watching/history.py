"""The history of a watched judge: the metrics files of its runs, in the order of their times."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain

from genrm_cli.scored.json_form import parse_json, to_json
from genrm_cli.scored.run_record import PanelRecord, RunTotals
from genrm_cli.storage.encoding.records import render_document
from genrm_cli.storage.store import Store
from genrm_cli.watching.sentinels import VERDICTS
from genrm_cli.watching.signals import SIGNALS
from genrm_cli.watching.timeline import DumpFigures, DumpState, Timeline
from genrm_cli.watching.track import State
from genrm_cli.watching.watched_records import MARGINS, WatchedRecord, WatchRecord

METRICS_SUFFIX = ".metrics.json"
ACKNOWLEDGED_SUFFIX = ".acknowledged.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """An alarm of one judge that a user acknowledged as expected."""

    judge: str
    signal: str
    reason: str
    time: str


@dataclass(frozen=True, slots=True)
class History:
    """The records and acknowledgements of earlier runs in a folder.

    Attributes:
        problems: the files that cannot be read or do not fit, as sentences.
        notes: the records that are left out or whose time is doubtful, likewise.
    """

    records: tuple[WatchedRecord, ...] = ()
    acknowledged: tuple[Acknowledgement, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def read_history(folders: Sequence[str], store: Store, *, flat: bool = False) -> History:
    """Read the metrics files and acknowledgements of folders or prefixes; unless `flat`, those
    below them, too.

    Raises:
        StorageError: one cannot be listed, or a file cannot be read.
    """
    records = []
    acknowledged = []
    unreadable: dict[str, str] = {}
    partial = []
    future = []
    now = datetime.now(UTC)
    places = [store.at(f"{folder.rstrip('/')}/") for folder in folders]
    for found in chain.from_iterable(
        place.iter_named() if flat else place.iter_found() for place in places
    ):
        uri = found.identity.uri
        if not uri.endswith((METRICS_SUFFIX, ACKNOWLEDGED_SUFFIX)):
            continue
        content = store.at(uri).read()
        if content is None:
            continue
        try:
            if uri.endswith(ACKNOWLEDGED_SUFFIX):
                step: Acknowledgement | WatchedRecord = _parse_acknowledgement(content)
            else:
                step = _parse_record(content)
            if _moment(step.time) > now:
                future.append(uri)
        except ValueError as error:
            unreadable[uri] = str(error).rstrip(".")
            continue
        if isinstance(step, Acknowledgement):
            acknowledged.append(step)
        elif step.partial:
            partial.append(uri)
        else:
            records.append(step)
    reasons = f" cannot be read as part of the history: {next(iter(unreadable.values()), '')}"
    return History(
        records=tuple(records),
        acknowledged=tuple(acknowledged),
        problems=_said(list(unreadable), reasons),
        notes=(
            *_said(partial, ": partial results, left out of the history"),
            *_said(future, ": dated in the future, which decides its place in the history"),
        ),
    )


def _said(uris: Sequence[str], what: str) -> tuple[str, ...]:
    """Return one sentence about files, which names the first; none without files."""
    more = f" and {len(uris) - 1} more" if len(uris) > 1 else ""
    return tuple(f"{uri}{more}{what}" for uri in uris[:1])


def _parse_acknowledgement(content: bytes) -> Acknowledgement:
    """Return an acknowledgement; ValueError unless a timeline can take it."""
    given = parse_json(Acknowledgement, content)
    if given.signal not in SIGNALS:
        raise ValueError(
            f"signal: found {given.signal!r:.60}; expected a signal of `genrm guide watch`"
        )
    return given


def _parse_record(content: bytes) -> WatchedRecord:
    """Return a record; ValueError unless a timeline can take it."""
    record = parse_json(WatchedRecord, content)
    watch = record.watch or WatchRecord()
    for name, judges in (("sentinels", len(record.judge.judges)), ("auditor_sentinels", 1)):
        verdicts = getattr(watch, name)
        expected = judges * watch.sentinel_count
        if verdicts is None:
            continue
        if odd := set(verdicts) - VERDICTS:
            raise ValueError(f"watch: {name}: found {min(odd)!r}; expected + - = or ?")
        if len(verdicts) != expected:
            raise ValueError(f"watch: {name}: found {len(verdicts)} verdicts; expected {expected}")
    strata = len(watch.audits)
    if strata not in (0, len(MARGINS) + 1):
        raise ValueError(f"watch: audits: found {strata} strata; expected {len(MARGINS) + 1}")
    pairs = [("watch: audits", pair) for pair in watch.audits]
    pairs += [(f"watch: canaries: {name}", pair) for name, pair in watch.canaries.items()]
    totals = {"failures": record.failed_requests, "ties": record.ties, "first": record.first_wins}
    pairs += [(name, (count.count, count.of)) for name, count in totals.items()]
    for place, pair in pairs:
        if len(pair) != 2 or not 0 <= pair[0] <= pair[1]:
            raise ValueError(f"{place}: found {[*pair]!r:.60}; expected a count and its total")
    return record


def acknowledge(folder: str, judge: str, signal: str, reason: str, store: Store) -> str:
    """Write an acknowledgement, and return its URI.

    Raises:
        StorageError: it cannot be written.
    """
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    uri = f"{folder.rstrip('/')}/{signal}-{now.replace(':', '')}{ACKNOWLEDGED_SUFFIX}"
    word = Acknowledgement(judge=judge, signal=signal, reason=reason, time=now)
    store.at(uri).create(render_document(to_json(word)))
    return uri


def judge_identity(judge: PanelRecord) -> str:
    """Return what a judge is, wherever it runs; judges of different identity have different
    baselines.
    """
    return " + ".join(
        " ".join(
            str(part) for part in (one.name, one.profile, one.profile_version, one.compat) if part
        )
        or "no judge"
        for one in judge.judges
    )


class Timelines:
    """The timelines of a history's judges; runs and acknowledgements of other judges do not change
    that of one.

    Attributes:
        states: the state after each dump of the history, in order.
    """

    def __init__(self, history: History) -> None:
        self._by_judge: defaultdict[str, Timeline] = defaultdict(lambda: Timeline(history.problems))
        self.states: list[DumpState] = []
        # By their own times: a listing has no order, and files are copied.
        steps: list[WatchedRecord | Acknowledgement] = [*history.acknowledged, *history.records]
        for step in sorted(steps, key=lambda step: _moment(step.time)):
            if isinstance(step, Acknowledgement):
                self._by_judge[step.judge].acknowledge(step.signal)
            else:
                self.states.append(self.add(step.output, step, step.watch or WatchRecord()))

    def add(self, dump: str, totals: RunTotals, watch: WatchRecord) -> DumpState:
        """Add the next dump of its judge, and return the state after it."""
        judge = judge_identity(totals.judge)
        figures = DumpFigures(
            judge=judge,
            dump=dump,
            counts={name: signal.count(totals, watch) for name, signal in SIGNALS.items()},
            means={name: signal.mean(totals, watch) for name, signal in SIGNALS.items()},
            watch=watch,
        )
        return self._by_judge[judge].add(figures)

    @property
    def latest(self) -> dict[str, DumpState]:
        """The state after the last dump of the history, by judge."""
        return {state.judge: state for state in self.states}

    @property
    def worst(self) -> State:
        """The worst state of a judge after its last dump; of one dump or more."""
        return max((each.state for each in self.latest.values()), key=lambda state: state.severity)


def _moment(time: str) -> datetime:
    """Return a time of a record; without an offset, it is UTC.

    Raises:
        ValueError: it is not a time.
    """
    moment = datetime.fromisoformat(time)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
