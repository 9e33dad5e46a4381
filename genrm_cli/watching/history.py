"""The history of a watched judge: the metrics files of its runs, in the order of their times."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain

from genrm_cli.scored.files import parse_run_record
from genrm_cli.scored.json_form import FormError, from_json, to_json
from genrm_cli.scored.run_record import PanelRecord, RunRecord, RunTotals, WatchRecord
from genrm_cli.storage.encoding.records import BadLineError, parse_record, render_document
from genrm_cli.storage.listing import iter_found, iter_named
from genrm_cli.storage.location import S3Options
from genrm_cli.storage.objects import create_object, read_object
from genrm_cli.watching.course import Course, Judgement, Observation
from genrm_cli.watching.signals import MEANS

METRICS_SUFFIX = ".metrics.json"
ACKNOWLEDGED_SUFFIX = ".acknowledged.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """A person's word that an alarm has been looked at, and that what it shows is as it should
    be.
    """

    signal: str
    reason: str
    time: str


@dataclass(frozen=True, slots=True)
class History:
    """What earlier runs left in a folder: records and acknowledgements, and the files that cannot
    be read.
    """

    records: tuple[RunRecord, ...] = ()
    acknowledged: tuple[Acknowledgement, ...] = ()
    unreadable: tuple[str, ...] = ()


def read_history(folders: Sequence[str], s3: S3Options, *, flat: bool = False) -> History:
    """Read the metrics files and acknowledgements of folders or prefixes; unless `flat`, those
    below them, too.

    Raises:
        StorageError: one cannot be listed, or a file cannot be read.
    """
    records = []
    acknowledged = []
    unreadable = []
    places = [f"{folder.rstrip('/')}/" for folder in folders]
    for found in chain.from_iterable(
        iter_named(each, s3, flat=True) if flat else iter_found(each, s3) for each in places
    ):
        uri = found.identity.uri
        if not uri.endswith((METRICS_SUFFIX, ACKNOWLEDGED_SUFFIX)):
            continue
        content = read_object(uri, s3)
        try:
            if content is None:
                continue
            if uri.endswith(METRICS_SUFFIX):
                record = parse_run_record(content)
                moment_of(record.time)
                records.append(record)
            else:
                word = from_json(Acknowledgement, parse_record(content))
                moment_of(word.time)
                acknowledged.append(word)
        except (BadLineError, FormError, ValueError):
            unreadable.append(uri)
    return History(tuple(records), tuple(acknowledged), tuple(unreadable))


def acknowledge(folder: str, signal: str, reason: str, s3: S3Options) -> str:
    """Write an acknowledgement, and return its URI.

    Raises:
        StorageError: it cannot be written.
    """
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    uri = f"{folder.rstrip('/')}/{signal}-{now.replace(':', '')}{ACKNOWLEDGED_SUFFIX}"
    create_object(
        uri, s3, render_document(to_json(Acknowledgement(signal=signal, reason=reason, time=now)))
    )
    return uri


def judge_identity(judge: PanelRecord) -> tuple[object, ...]:
    """Return what a judge is, wherever it runs; judges of different identity have different
    baselines.
    """
    return tuple((one.name, one.profile, one.profile_version, one.compat) for one in judge.judges)


def observe(dump: str, totals: RunTotals, watch: WatchRecord | None) -> Observation:
    """Return what was measured with one dump."""
    watch = watch or WatchRecord()
    canaries = {f"canary_{name}": (won, of) for name, (won, of) in watch.canaries.items()}
    means = {name: read(totals) for name, read in MEANS.items()} | {
        "audit_length": watch.audit_length
    }
    return Observation(
        dump=dump,
        counts={"failures": (totals.failures, totals.comparisons_planned), **canaries},
        means={name: value for name, value in means.items() if value is not None},
        watch=watch,
    )


def follow(
    history: History, judge: PanelRecord | None = None
) -> tuple[Course, list[tuple[RunRecord, Judgement]]]:
    """Fold a history; return the course of the last judge, or of the given one, and the state after
    each dump.

    Each judge has a course of its own, which runs of others leave as it is. An acknowledgement
    holds for all of them.
    """
    courses: defaultdict[tuple[object, ...] | None, Course] = defaultdict(Course)
    found = []
    identity = None
    steps: list[RunRecord | Acknowledgement] = [*history.acknowledged]
    steps += [record for record in history.records if not record.partial]
    for each in sorted(steps, key=lambda step: moment_of(step.time)):
        if isinstance(each, Acknowledgement):
            for course in courses.values():
                course.acknowledge(each.signal)
            continue
        identity = judge_identity(each.judge)
        found.append((each, courses[identity].add(observe(each.output, each, each.watch))))
    return courses[identity if judge is None else judge_identity(judge)], found


def moment_of(time: str) -> datetime:
    """Return a time of a record; without an offset, it is UTC.

    Raises:
        ValueError: it is none.
    """
    moment = datetime.fromisoformat(time)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
