"""The history of a watched judge: the metrics files of its runs, in the order of their times."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain

from genrm_cli.metrics.verdict_counts import GroupedCount
from genrm_cli.scored.json_form import parse_json, to_json
from genrm_cli.scored.run_record import PanelRecord, RunTotals
from genrm_cli.storage.encoding.records import render_document
from genrm_cli.storage.store import Store
from genrm_cli.watching.sentinels import VERDICTS
from genrm_cli.watching.signals import COUNTS, MEANS, SIGNALS
from genrm_cli.watching.timeline import DumpFigures, DumpState, State, Timeline
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
    """The records and acknowledgements of earlier runs in a folder, and as sentences the files that
    cannot be read or do not fit.
    """

    records: tuple[WatchedRecord, ...] = ()
    acknowledged: tuple[Acknowledgement, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FoldedHistory:
    """A history, folded.

    Attributes:
        timelines: by judge; that of a judge without a dump is empty.
        judged: each dump with the state after it, in order.
    """

    timelines: defaultdict[str, Timeline]
    judged: list[tuple[WatchedRecord, DumpState]]

    @property
    def latest(self) -> dict[str, tuple[WatchedRecord, DumpState]]:
        """The last dump of each judge."""
        return {judge_identity(record.judge): (record, state) for record, state in self.judged}

    @property
    def state(self) -> State:
        """The worst state of a judge after its last dump; of one dump or more."""
        states = (judgement.state for _, judgement in self.latest.values())
        return max(states, key=lambda state: state.severity)


def read_history(folders: Sequence[str], store: Store, *, flat: bool = False) -> History:
    """Read the metrics files and acknowledgements of folders or prefixes; unless `flat`, those
    below them, too.

    Raises:
        StorageError: one cannot be listed, or a file cannot be read.
    """
    records = []
    acknowledged = []
    unreadable: dict[str, str] = {}
    places = [store.at(f"{folder.rstrip('/')}/") for folder in folders]
    for found in chain.from_iterable(
        place.iter_named() if flat else place.iter_found() for place in places
    ):
        uri = found.identity.uri
        if not uri.endswith((METRICS_SUFFIX, ACKNOWLEDGED_SUFFIX)):
            continue
        content = store.at(uri).read()
        try:
            if content is None:
                continue
            if uri.endswith(METRICS_SUFFIX):
                records.append(_parse_record(content))
            else:
                acknowledged.append(_parse_acknowledgement(content))
        except ValueError as error:
            unreadable[uri] = str(error).rstrip(".")
    problems: tuple[str, ...] = ()
    if unreadable:
        (uri, why), *others = unreadable.items()
        more = f" and {len(others)} more" * bool(others)
        problems = (f"{uri}{more} cannot be read as part of the history: {why}",)
    return History(tuple(records), tuple(acknowledged), problems)


def _parse_acknowledgement(content: bytes) -> Acknowledgement:
    """Return an acknowledgement; ValueError unless a timeline can take it."""
    given = parse_json(Acknowledgement, content)
    moment_of(given.time)
    if given.signal not in SIGNALS:
        raise ValueError(
            f"signal: found {given.signal!r:.60}; expected a signal of `genrm guide watch`"
        )
    return given


def _parse_record(content: bytes) -> WatchedRecord:
    """Return a record; ValueError unless a timeline can take it."""
    record = parse_json(WatchedRecord, content)
    moment_of(record.time)
    watch = record.watch or WatchRecord()
    for name, judges in (("sentinels", len(record.judge.judges)), ("auditor_sentinels", 1)):
        verdicts = getattr(watch, name)
        if verdicts is None:
            continue
        odd = set(verdicts) - VERDICTS
        if odd:
            raise ValueError(f"watch: {name}: found {min(odd)!r}; expected + - = or ?")
        expected = judges * watch.sentinel_count
        if len(verdicts) != expected:
            raise ValueError(f"watch: {name}: found {len(verdicts)} verdicts; expected {expected}")
    if len(watch.audits) not in (0, len(MARGINS) + 1):
        found = len(watch.audits)
        raise ValueError(f"watch: audits: found {found} strata; expected {len(MARGINS) + 1}")
    pairs = [("watch: audits", pair) for pair in watch.audits]
    pairs += [(f"watch: canaries: {name}", pair) for name, pair in watch.canaries.items()]
    totals = {name: read(record) for name, read in COUNTS.items()}
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


def observe(dump: str, totals: RunTotals, watch: WatchRecord | None) -> DumpFigures:
    """Return the figures of one dump."""
    watch = watch or WatchRecord()
    counts = {name: read(totals) for name, read in COUNTS.items()}
    counts |= {f"canary_{name}": GroupedCount(*each) for name, each in watch.canaries.items()}
    means = {name: read(totals) for name, read in MEANS.items()}
    means["audit_length"] = watch.audit_length
    return DumpFigures(
        dump=dump,
        counts=counts,
        means={name: value for name, value in means.items() if value is not None},
        watch=watch,
    )


def fold_history(history: History) -> FoldedHistory:
    """Fold a history into the state after each dump.

    Each judge has its own timeline; runs and acknowledgements of other judges do not change it.
    """
    timelines: defaultdict[str, Timeline] = defaultdict(lambda: Timeline(history.problems))
    judged = []
    steps: list[WatchedRecord | Acknowledgement] = [*history.acknowledged]
    steps += [record for record in history.records if not record.partial]
    # By their own times: a listing has no order, and files are copied.
    for each in sorted(steps, key=lambda step: moment_of(step.time)):
        if isinstance(each, Acknowledgement):
            timelines[each.judge].acknowledge(each.signal)
            continue
        timeline = timelines[judge_identity(each.judge)]
        judged.append((each, timeline.add(observe(each.output, each, each.watch))))
    return FoldedHistory(timelines, judged)


def moment_of(time: str) -> datetime:
    """Return a time of a record; without an offset, it is UTC.

    Raises:
        ValueError: it is not a time.
    """
    moment = datetime.fromisoformat(time)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
