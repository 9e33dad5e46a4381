"""Decide from its existing outputs whether an input has to be scored.

The metrics file is the record of a whole run: it names the input's version, the settings and the
mark of the scored lines, which change with every write. Outputs are current only if all agree. A
run publishes its metrics first and its scored lines last, so that outputs of which only some were
replaced never agree.
Files that genrm may not have written are replaced on request only; what it wrote, and what the
same input would make again, is replaced without asking.
"""

from collections.abc import Callable, Collection, Sequence
from enum import Enum, auto

from msgspec import Struct

from genrm_cli.errors import Message, SettingRef, counted, naming
from genrm_cli.groups.compile import compile_plan, compile_rewards, judge_name
from genrm_cli.jobs.due.inputs import OutputPlaces
from genrm_cli.judging.lookup import PROFILES, ProfileSource
from genrm_cli.metrics.plan_reliability import LISTS
from genrm_cli.rollouts.views import READING_VERSION
from genrm_cli.scored.describe_run import judge_record, reward_record
from genrm_cli.scored.files import find_run_record, is_marked
from genrm_cli.scored.run_record import (
    FileRecord,
    InputVersion,
    PanelRecord,
    RewardRecord,
    RunRecord,
)
from genrm_cli.settings import Settings, changed
from genrm_cli.settings.table import digest_of
from genrm_cli.storage.contract import InputIdentity, ListingDeniedError
from genrm_cli.storage.local.sinks import remove_unfinished
from genrm_cli.storage.location import (
    folder_of,
    is_remote,
    name_below,
    stem_of,
)
from genrm_cli.storage.places import place_of
from genrm_cli.storage.store import Store
from genrm_cli.verdicts import FailureKind

_FOUND = ProfileSource.PROBE.value
# the next run may get these verdicts
_TRANSIENT = {kind.value for kind in FailureKind if kind.is_transient}
Identities = Sequence[InputIdentity]
_Recorded = RunRecord | FileRecord | None
"""The record of the scored lines of one file, from the metrics of its input or set."""


class OutputStanding(Enum):
    """The state of the outputs of an input."""

    NEW = auto()  # no outputs exist
    CURRENT = auto()  # made from this version of the input, with these settings
    STALE = auto()  # made by genrm; to be replaced
    FOREIGN = auto()  # perhaps not made by genrm, or worth keeping: replaced only on request


class OutputState(Struct, frozen=True):
    """The state of the outputs of an input, the reason, and their metrics."""

    standing: OutputStanding
    reason: str | Message
    metrics: RunRecord | None = None


def read_output_state(
    places: OutputPlaces,
    identities: Identities,
    settings: Settings,
    store: Store,
    listed: Collection[str] | None = None,
) -> OutputState:
    """Read the state of the outputs of an input: metrics and scored lines that name each other
    vouch for all. `listed` are the names that a listing found beside the scored lines, if there was
    one.
    """
    if places.metrics is None:
        return OutputState(OutputStanding.NEW, "written to a stream")
    exists = _look_around(places, store, listed)
    # On a disk, a mark also refuses a folder in place of the file.
    exist = [
        exists(uri) if is_remote(uri) else store.at(uri).mark() is not None
        for uri in places.scored_files
    ]
    metrics = find_run_record(places.metrics, store) if exists(places.metrics) else None
    recorded: Sequence[_Recorded] = [metrics]
    if places.files:
        parts = {} if metrics is None else metrics.parts
        folder = folder_of(places.scored)
        recorded = [parts.get(name_below(folder, uri)) for uri in places.files]
    unknown = (
        uri
        for uri, exists, record in zip(places.scored_files, exist, recorded, strict=True)
        if exists and (record is None or not is_marked(uri, record.output_mark, store))
    )
    in_the_way = next(unknown, None)
    # Comparisons or rejects without metrics may be a user's own files.
    if in_the_way is not None or (metrics is None and any(map(exists, places.sides()))):
        if places.commit_mark is not None and exists(places.commit_mark):
            why = "an earlier run stopped while writing its outputs"
            return OutputState(OutputStanding.STALE, why)
        subject = in_the_way if places.files and in_the_way is not None else "it"
        why = (
            f"{subject} was changed after genrm wrote it, was scored with other files, or was not "
            "written by genrm"
        )
        return OutputState(OutputStanding.FOREIGN, why)
    if metrics is None:
        return OutputState(OutputStanding.NEW, "not scored yet")
    if not all(exist):
        return OutputState(OutputStanding.STALE, "its scored lines are missing", metrics)
    if (more := _has_more(metrics, settings)) is not None and not settings.output.force:
        asked, has = more
        if _stale_reason(metrics, recorded, identities, asked) is None:
            return OutputState(OutputStanding.CURRENT, has, metrics)
    kept = _reason_to_keep(metrics, recorded, identities, settings)
    if kept is not None and not settings.output.force:
        return OutputState(OutputStanding.FOREIGN, kept, metrics)
    stale = _stale_reason(metrics, recorded, identities, settings)
    if stale is not None:
        return OutputState(OutputStanding.STALE, stale, metrics)
    return OutputState(OutputStanding.CURRENT, "same input, same settings", metrics)


def _look_around(
    places: OutputPlaces, store: Store, listed: Collection[str] | None
) -> Callable[[str], bool]:
    """Return whether a file exists: on S3, one listing says so of all outputs of an input."""

    def exists(uri: str) -> bool:
        return store.at(uri).exists()

    beside = f"{stem_of(places.scored)}."
    if not is_remote(beside) or places.files:
        return exists
    try:
        names = listed or {found.identity.uri for found in store.at(beside).iter_named()}
    except ListingDeniedError:
        return exists
    return lambda uri: uri in names if uri.startswith(beside) else exists(uri)


def finish_outputs(places: OutputPlaces, store: Store) -> None:
    """Discard the unfinished outputs that a killed run left."""
    if places.commit_mark is not None:
        remove_unfinished([stem_of(places.scored), *places.scored_files, *places.sides()])


def _reason_to_keep(
    metrics: RunRecord, recorded: Sequence[_Recorded], identities: Identities, settings: Settings
) -> str | Message | None:
    """Return why outputs must not be replaced unasked; None if they may."""
    before = metrics.judge
    name = judge_name(settings)
    has_verdicts = metrics.verdicts or metrics.journal_hits
    if has_verdicts and not before.is_baseline and name not in (None, before.name):
        return f"it was judged by {before.name}, not {name}"
    if settings.limits.limit is not None and metrics.limit is None:
        return naming("it is the result of a full run, which a trial ($limit) must not replace")
    for record, identity in zip(recorded, identities, strict=True):
        made_from = None if record is None else record.input
        if identity.etag is None and identity.mtime_ns is None:
            return "the input is a stream, which cannot be compared with the earlier one"
        if made_from is None or _is_made_from(made_from, identity):
            continue
        if made_from.place not in (None, place_of(identity.uri)):
            return f"it was made from another input, {made_from.uri}"
    # The whole run replaces a trial of some groups.
    if metrics.groups_left_out or not _are_same_files(recorded, identities):
        return None
    known = _answered_as_planned(metrics)
    planned = _most_planned(metrics, settings)
    if planned is None or planned >= known:
        return None
    return f"it has {known:,} verdicts, and these settings ask for {planned:,} of them"


def _has_more(metrics: RunRecord, settings: Settings) -> tuple[Settings, Message] | None:
    """Return the settings with the rings and repeats of earlier rewards, and what those have, if
    that is more than these settings ask for; a trial of all groups counts as a whole run.
    """
    pairing = settings.pairing
    rings = metrics.ring_k or pairing.ring_k
    counts = (rings, metrics.repeats)
    least = (pairing.ring_k, pairing.repeats)
    if counts == least or rings < pairing.ring_k or metrics.repeats < pairing.repeats:
        return None
    limit = settings.limits.limit
    if limit is None and not metrics.groups_left_out:
        limit = metrics.limit
    asked = changed(settings, ring_k=rings, repeats=metrics.repeats, limit=limit)
    name, had = ("ring_k", rings) if rings > pairing.ring_k else ("repeats", metrics.repeats)
    answered = metrics.verdicts + metrics.journal_hits
    why = f", {counted(answered, 'verdict')}, which is more than these settings ask for"
    return asked, Message.of("it has ", SettingRef(name, f"{had:g}"), why)


def _answered_as_planned(metrics: RunRecord) -> int:
    """Return the verdicts on pairs behind earlier rewards, without those that replaced others."""
    answered = metrics.verdicts + metrics.journal_hits
    return min(answered, metrics.comparisons_planned - metrics.extra_comparisons)


def _most_planned(metrics: RunRecord, settings: Settings) -> int | None:
    """Return the most comparisons of pairs that a full run plans for the same groups; None for a
    trial, and if either run asks about anything but pairs.
    """
    plan = compile_plan(settings)
    if settings.limits.limit is not None or metrics.strategy == LISTS or not plan.compares_pairs:
        return None
    if metrics.components or plan.rewards.is_composed:  # grades are no comparisons
        return None
    sizes = ((int(size), groups) for size, groups in metrics.group_sizes.items())
    return sum(groups * plan.count_requests(size) for size, groups in sizes)


def _stale_reason(
    metrics: RunRecord, recorded: Sequence[_Recorded], identities: Identities, settings: Settings
) -> str | Message | None:
    # The order of reasons is that of what a user can do about them.
    if not _are_same_files(recorded, identities) or len(metrics.files or recorded) != len(recorded):
        return "the input has changed"
    if metrics.limit is not None and metrics.limit != settings.limits.limit:
        return Message.of("it is a trial (", SettingRef("limit", metrics.limit), ")")
    if metrics.settings_digest != digest_of(settings):
        return "the settings have changed"
    if metrics.reading_version != READING_VERSION:
        return "responses are read differently now"
    # Code may change without a setting: the versions are not part of the digest.
    made_of = reward_record(settings, compile_rewards(settings))
    before = _versions_in(metrics.judge, metrics.judge, metrics.reward_made_of)
    if before != _versions_in(judge_record(settings), metrics.judge, made_of):
        return "the judge's profile has changed"
    if metrics.partial or metrics.failed_figures:
        return "its results are partial"
    # Otherwise cron would ask again and again about failures that the judge repeats.
    may_pass = not _TRANSIENT.isdisjoint(metrics.failures_by_kind)
    asks_again = settings.journal.only_failed or settings.offline.is_used
    if may_pass or (asks_again and metrics.failures):
        return "some of its comparisons failed"
    if metrics.failures and metrics.unscored_share > settings.rewards.max_unscored:
        return "too many rollouts stayed unscored"
    return Message.of(SettingRef("force")) if settings.output.force else None


def _are_same_files(recorded: Sequence[_Recorded], identities: Identities) -> bool:
    return all(
        record is not None and record.input is not None and _is_made_from(record.input, identity)
        for record, identity in zip(recorded, identities, strict=True)
    )


def _is_made_from(made_from: InputVersion, identity: InputIdentity) -> bool:
    # The ctime of a copy or a moved file says nothing about its content.
    is_same_file = made_from.inode == identity.inode and made_from.place == place_of(identity.uri)
    return (
        made_from.size_bytes == identity.size_bytes
        and made_from.etag == identity.etag
        and made_from.mtime_ns == identity.mtime_ns
        and (not is_same_file or made_from.ctime_ns == identity.ctime_ns)
    )


def _versions_in(
    judge: PanelRecord, before: PanelRecord, made_of: RewardRecord | None
) -> tuple[object, ...]:
    """Return the versions of judges, graders and components.

    A judge has the profile that the probe found for it before: the same settings lead to it again.
    """
    found = {each.name: each.profile for each in before.judges if each.profile_from == _FOUND}
    profiles = []
    for each in judge.judges:
        name = found.get(each.name, each.profile)
        version = each.profile_version
        if name is not None and name != each.profile:
            profile = PROFILES.get(name)
            version = None if profile is None else profile.version
        profiles.append((name, version))
    if made_of is None:
        return judge.name, profiles
    graders = {
        name: (each.model, each.profile, each.profile_version)
        for name, each in made_of.graders.items()
    }
    return judge.name, profiles, made_of.versions, graders
