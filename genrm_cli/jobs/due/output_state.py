"""Decide from its existing outputs whether an input has to be scored.

The metrics file is the record of a whole run: it names the input's version, the settings and the
mark of the scored lines, which change with every write. Outputs are current only if all agree. A
run publishes its metrics first and its scored lines last, so that outputs of which only some were
replaced never agree.
Files that genrm may not have written are replaced on request only; what it wrote, and what the
same input would make again, is replaced without asking.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from genrm_cli.errors import Message, SettingRef, naming
from genrm_cli.groups.check import judge_specs
from genrm_cli.groups.compile import compile_rewards, judge_name
from genrm_cli.jobs.due.inputs import OutputPlaces
from genrm_cli.rollouts.views import READING_VERSION
from genrm_cli.scored.describe_run import judge_record, reward_record
from genrm_cli.scored.files import is_marked, read_run_record
from genrm_cli.scored.run_record import (
    FileRecord,
    InputVersion,
    OutputMark,
    RewardRecord,
    RunRecord,
)
from genrm_cli.settings import Settings
from genrm_cli.settings.table import digest_of
from genrm_cli.storage.contract import InputIdentity, Mark
from genrm_cli.storage.local.sinks import remove_unfinished
from genrm_cli.storage.location import (
    SET_NAME,
    folder_of,
    name_below,
    stem_of,
)
from genrm_cli.storage.outputs import finish_commit, was_interrupted
from genrm_cli.storage.places import place_of
from genrm_cli.storage.store import Store
from genrm_cli.verdicts import FailureKind

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
    FOREIGN = auto()  # perhaps not made by genrm: replaced only on request


@dataclass(frozen=True, slots=True)
class OutputState:
    """The state of the outputs of an input, the reason, and their metrics."""

    standing: OutputStanding
    reason: Message
    metrics: RunRecord | None = None


def _state(
    standing: OutputStanding, reason: str | Message, metrics: RunRecord | None = None
) -> OutputState:
    return OutputState(standing, Message.of(reason), metrics)


INTERRUPTED = _state(OutputStanding.STALE, "an earlier run stopped while writing its outputs")


def read_output_state(
    places: OutputPlaces, identities: Identities, settings: Settings, store: Store
) -> OutputState:
    """Read the state of the outputs of an input: metrics and scored lines that name each other
    vouch for all.
    """
    if places.metrics is None:
        return _state(OutputStanding.NEW, "written to a stream")
    marks = [store.at(uri).mark() for uri in places.scored_files]
    if not any(marks):
        return _without_scored_lines(places, store)
    metrics = read_run_record(places.metrics, store)
    if any(identity.etag is None and identity.mtime_ns is None for identity in identities):
        why = "the input is a stream, which cannot be compared with the earlier one"
        return _state(OutputStanding.FOREIGN, why)
    by_name = {} if metrics is None else metrics.parts
    folder = folder_of(places.scored)
    recorded: Sequence[_Recorded] = [
        by_name.get(name_below(folder, uri)) for uri in places.files
    ] or [metrics]
    for mark, record in zip(marks, recorded, strict=True):
        known = None if record is None else record.output_mark
        if mark is None or (metrics is not None and known is not None and is_marked(mark, known)):
            continue
        if _is_in_set(places, settings, store):
            others = f"it was scored with the other files of {SET_NAME} ("
            return _state(OutputStanding.FOREIGN, Message.of(others, SettingRef("together"), ")"))
        if _is_rewritten(mark, known, places, store) or _were_interrupted(places, store):
            return INTERRUPTED
        return _state(
            OutputStanding.FOREIGN,
            "it was changed after genrm wrote it, or was not written by genrm",
        )
    if metrics is None or None in marks:
        return _state(
            OutputStanding.STALE, "the scored lines of some of its files are missing", metrics
        )
    if not settings.output.force and (other := _other_judge(metrics, settings)) is not None:
        return _state(OutputStanding.FOREIGN, other, metrics)
    reason = _stale_reason(metrics, recorded, identities, settings)
    if reason is None:
        return _state(OutputStanding.CURRENT, "same input, same settings", metrics)
    if (kept := _reason_to_keep(metrics, recorded, identities, settings)) is not None:
        return _state(OutputStanding.FOREIGN, kept, metrics)
    return _state(OutputStanding.STALE, reason, metrics)


def _is_in_set(places: OutputPlaces, settings: Settings, store: Store) -> bool:
    """Whether the scored lines of a single file are those of a set in the same folder."""
    folder, slash, name = places.scored.rpartition("/")
    beside = (
        None if places.files else read_run_record(f"{folder}{slash}{SET_NAME}.metrics.json", store)
    )
    return beside is not None and name in beside.parts


def _is_rewritten(mark: Mark, known: OutputMark | None, places: OutputPlaces, store: Store) -> bool:
    """Whether genrm wrote scored lines after their metrics; for a set, also if its files were
    scored alone.
    """
    if mark.upload is None or (known is not None and mark.upload == known.upload):
        return False
    return not places.files or (places.manifest is not None and store.at(places.manifest).exists())


def finish_outputs(places: OutputPlaces, store: Store) -> None:
    """Finish or discard the outputs that a killed run left. Requires their lease."""
    if places.manifest is not None:
        finish_commit(places.manifest, store)
        remove_unfinished([stem_of(places.scored), *places.scored_files, *places.sides()])


def _were_interrupted(places: OutputPlaces, store: Store) -> bool:
    existing = store.which_exist([*places.scored_files, *places.sides()])
    return places.manifest is not None and was_interrupted(places.manifest, existing, store)


def _stale_reason(
    metrics: RunRecord, recorded: Sequence[_Recorded], identities: Identities, settings: Settings
) -> str | Message | None:
    same_files = all(
        record is not None and record.input is not None and _is_made_from(record.input, identity)
        for record, identity in zip(recorded, identities, strict=True)
    )
    if not same_files or len(metrics.files or recorded) != len(recorded):
        return "the input has changed"
    if metrics.limit is not None and metrics.limit != settings.limits.limit:
        return Message.of("it is a trial (", SettingRef("limit", metrics.limit), ")")
    if metrics.settings_digest != digest_of(settings):
        return "the settings have changed"
    if metrics.single and settings.rewards.default_score is None:
        return "rollouts that are alone in their groups get no reward now"
    if metrics.reading_version != READING_VERSION:
        return "responses are read differently now"
    if not _is_judged_alike(metrics, settings):
        return "the judge's profile has changed"
    if metrics.partial:
        return "its results are partial"
    if metrics.failed_figures:
        return "some of its figures could not be computed"
    may_pass = not _TRANSIENT.isdisjoint(metrics.failures_by_kind)
    asks_again = settings.journal.only_failed or settings.offline.is_used
    if may_pass or (asks_again and metrics.failures):
        return "some of its comparisons failed"
    sources = {} if metrics.reward_made_of is None else metrics.reward_made_of.components
    if any(
        sources.get(name) == "functions" for name in metrics.component_failures
    ):  # its code may have been fixed
        return "a Python component failed"
    if metrics.failures and metrics.unscored_share > settings.rewards.max_unscored:
        return "too many rollouts stayed unscored"
    return Message.of(SettingRef("force")) if settings.output.force else None


def _reason_to_keep(
    metrics: RunRecord, recorded: Sequence[_Recorded], identities: Identities, settings: Settings
) -> str | Message | None:
    """Return why stale outputs must not be replaced; None if they may."""
    judge = metrics.judge
    if judge.name is not None and not judge.is_baseline and settings.judge.judge is not None:
        return f"it holds {judge.name}'s verdicts; the lexical baseline would overwrite them"
    if settings.limits.limit is not None and metrics.limit is None:
        return naming("it is the result of a full run, which a trial ($limit) must not replace")
    for record, identity in zip(recorded, identities, strict=True):
        made_from = None if record is None else record.input
        if made_from is None or _is_made_from(made_from, identity):
            continue
        if made_from.place not in (None, place_of(identity.uri)):
            return f"it was made from another input, {made_from.uri}"
    return None


def _other_judge(metrics: RunRecord, settings: Settings) -> str | None:
    """Return how the judge of existing outputs differs from the one of this run in model, profile
    or identity.

    None if it does not, or if the outputs come from the lexical baseline, which any judge may
    replace. Its endpoint is no part of a judge: as a job of a cluster, it has another host and port
    every night."""
    before = metrics.judge
    specs = [spec for spec in judge_specs(settings) if spec.compares]
    if before.is_baseline or not (metrics.verdicts or metrics.journal_hits) or not specs:
        return None
    if specs[0].profile is None:  # the baseline has its own reason
        return None
    for was, spec in zip(before.judges, specs, strict=False):
        if was.model != spec.config.judge.model:
            return f"it was judged by the model {was.model}, not {spec.config.judge.model}"
        profile = _base_name(was.profile)
        planned = None if spec.profile is None else spec.profile.name
        if profile != _base_name(planned):
            return f"it was judged with the profile {profile}, not {planned}"
    name = judge_name(settings)
    return None if before.name == name else f"it was judged by {before.name}, not {name}"


def _base_name(profile: str | None) -> str:
    """Return the name of a profile without the suffix of `compat`, which is a setting of its
    own.
    """
    return str(profile).partition("+")[0]


def _is_made_from(made_from: InputVersion, identity: InputIdentity) -> bool:
    # The ctime of a copy or a moved file says nothing about its content.
    is_same_file = made_from.inode == identity.inode and made_from.place == place_of(identity.uri)
    return (
        made_from.size_bytes == identity.size_bytes
        and made_from.etag == identity.etag
        and made_from.mtime_ns == identity.mtime_ns
        and (not is_same_file or made_from.ctime_ns == identity.ctime_ns)
    )


def _is_judged_alike(metrics: RunRecord, settings: Settings) -> bool:
    """Whether judges and graders still have the versions that the outputs were made with."""
    before = metrics.judge
    specs = [spec for spec in judge_specs(settings) if spec.compares]
    if before.name != judge_record(settings, specs).name or len(before.judges) != max(
        1, len(specs)
    ):
        return False
    for was, spec in zip(before.judges, specs, strict=False):
        profile = spec.profile
        planned = (None, None) if profile is None else (profile.name, profile.version)
        if (was.profile, was.profile_version) != planned:
            return False
    made_of = reward_record(settings, compile_rewards(settings))
    return _versions_in(metrics.reward_made_of) == _versions_in(made_of)


def _versions_in(made_of: RewardRecord | None) -> tuple[object, ...]:
    """Return the versions of component code and of the graders' profiles, by name."""
    if made_of is None:
        return {}, {}
    graders = made_of.graders.items()
    return made_of.versions, {
        name: (each.model, each.profile, each.profile_version) for name, each in graders
    }


def _without_scored_lines(places: OutputPlaces, store: Store) -> OutputState:
    left = store.which_exist(places.sides())
    if not left:
        return _state(OutputStanding.NEW, "not scored yet")
    if _were_interrupted(places, store):
        return INTERRUPTED
    has_metrics = places.metrics in left and read_run_record(str(places.metrics), store) is not None
    marks = [store.at(uri).mark() for uri in left]
    if has_metrics or all(mark is None or mark.upload is not None for mark in marks):
        return _state(OutputStanding.STALE, "its scored lines are missing")
    return _state(
        OutputStanding.FOREIGN, "files with the names of its outputs were not written by genrm"
    )
