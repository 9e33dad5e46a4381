"""Whether an input still has to be scored: what its outputs say that they were made from."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from genrm_cli.jobs.due.inputs import OutputPlaces
from genrm_cli.jobs.provenance import judge_record, reward_record
from genrm_cli.settings import Settings
from genrm_cli.settings.table import digest_of
from genrm_cli.storage.formats.location import InputIdentity, S3Options
from genrm_cli.storage.formats.mark import Mark
from genrm_cli.storage.formats.records import BadLineError, parse_record
from genrm_cli.storage.objects import read_object
from genrm_cli.storage.sink import mark_of, place_of, which_exist
from genrm_cli.verdicts import FailureKind

_TRANSIENT = {kind.value for kind in FailureKind if kind.is_transient}
_JUDGED_ALIKE = ("name", "profile", "profile_version")
_GRADED_ALIKE = ("model", "profile", "profile_version")


class OutputStanding(Enum):
    """How the outputs of an input stand."""

    NEW = auto()  # there are none
    CURRENT = auto()  # made from this version of the input, with these settings
    STALE = auto()  # ours, to be replaced
    FOREIGN = auto()  # not known to be ours: never replaced unasked


@dataclass(frozen=True, slots=True)
class OutputState:
    """How the outputs of an input stand, and why; with the metrics that lie there."""

    standing: OutputStanding
    reason: str
    metrics: dict[str, Any] | None = None


def look_at_outputs(places: OutputPlaces, identity: InputIdentity, settings: Settings, s3: S3Options) -> OutputState:
    """Read how the outputs of an input stand. The metrics are written last: only what they vouch for is complete.

    Raises:
        StorageError: a place cannot be looked at.
    """
    if places.metrics is None:
        return OutputState(OutputStanding.NEW, "goes out at once")
    scored = mark_of(places.scored, s3)
    if scored is None:
        return _without_scored_lines(places, s3)
    metrics = _read_metrics(places.metrics, s3)
    recorded = _recorded_mark(metrics)
    if identity.etag is None and identity.mtime_ns is None:
        return OutputState(OutputStanding.FOREIGN, "what a stream brings cannot be told from what it brought before")
    if metrics is None or recorded is None or not _is_marked(scored, recorded):
        if scored.upload is not None and (recorded is None or scored.upload != recorded.upload):
            return OutputState(OutputStanding.STALE, "a run ended while it wrote its outputs")
        return OutputState(OutputStanding.FOREIGN, "it is not as genrm wrote it, or was not written by genrm")
    reason = _stale_reason(metrics, identity, settings)
    if reason is None:
        return OutputState(OutputStanding.CURRENT, "same input, same settings", metrics)
    if (kept := _reason_to_keep(metrics, identity, settings)) is not None:
        return OutputState(OutputStanding.FOREIGN, kept, metrics)
    return OutputState(OutputStanding.STALE, reason, metrics)


def _stale_reason(metrics: dict[str, Any], identity: InputIdentity, settings: Settings) -> str | None:
    if not _is_made_from(metrics, identity):
        return "the input has changed"
    if metrics.get("settings_digest") != digest_of(settings):
        return "the settings have changed"
    if not _is_judged_alike(metrics, settings):
        return "the judge is asked or read in another way by now"
    if metrics.get("partial"):
        return "its results are partial"
    kinds = metrics.get("failures_by_kind")
    may_pass = isinstance(kinds, dict) and not _TRANSIENT.isdisjoint(kinds)
    if may_pass or (settings.journal.only_failed and metrics.get("failures")):
        return "some of its comparisons failed"
    if _failed_functions(metrics):
        return "a function of yours failed"
    if metrics.get("failures") and _is_over(metrics.get("unscored_share"), settings.rewards.max_unscored):
        return "too much of it stayed unscored"
    return "asked for again" if settings.output.overwrite else None


def _failed_functions(metrics: dict[str, Any]) -> bool:
    """Whether a component of the user's own code failed: what is mended there, no record of ours can show."""
    made_of, failed = metrics.get("reward_made_of"), metrics.get("component_failures")
    components = made_of.get("components") if isinstance(made_of, dict) else None
    if not isinstance(components, dict) or not isinstance(failed, dict):
        return False
    return any(components.get(name) == "functions" for name in failed)


def _reason_to_keep(metrics: dict[str, Any], identity: InputIdentity, settings: Settings) -> str | None:
    """Say why outputs of ours are not to be replaced, though they are not what would be written now."""
    made_from, judge = metrics.get("input"), metrics.get("judge")
    judged = isinstance(judge, dict) and judge.get("name") is not None and not judge.get("stand_in", True)
    if isinstance(judge, dict) and judged and settings.judge.judge is not None:
        return f"it was judged by {judge.get('name')}, which the embedded stand-in must not replace"
    if _is_made_from(metrics, identity) or not isinstance(made_from, dict):
        return None
    if made_from.get("place") not in (None, place_of(identity.uri)):
        return f"it was made from another input, {made_from.get('uri')}"
    return None


def _is_made_from(metrics: dict[str, Any], identity: InputIdentity) -> bool:
    made_from = metrics.get("input")
    now = {"size_bytes": identity.size_bytes, "etag": identity.etag, "mtime_ns": identity.mtime_ns}
    return isinstance(made_from, dict) and {name: made_from.get(name) for name in now} == now


def _is_judged_alike(metrics: dict[str, Any], settings: Settings) -> bool:
    """Say whether whatever judged and graded still has the version that the outputs were made with."""
    before, now = metrics.get("judge"), judge_record(settings)
    is_judged = isinstance(before, dict) and all(before.get(key) == now[key] for key in _JUDGED_ALIKE)
    return is_judged and _versions_in(metrics.get("reward_made_of")) == _versions_in(reward_record(settings))


def _versions_in(made_of: object) -> tuple[object, ...]:
    """Return the versions of phrase lists, of the user's functions, and of how graders are asked, by name."""
    if not isinstance(made_of, dict):
        return {}, {}, {}
    graders = made_of.get("graders")
    alike = {
        name: [grader.get(key) for key in _GRADED_ALIKE] if isinstance(grader, dict) else None
        for name, grader in (graders if isinstance(graders, dict) else {}).items()
    }
    return made_of.get("rules"), made_of.get("functions"), alike


def _is_over(share: object, limit: float) -> bool:
    return isinstance(share, int | float) and share > limit


def _without_scored_lines(places: OutputPlaces, s3: S3Options) -> OutputState:
    left = which_exist(places.sides(), s3)
    if not left:
        return OutputState(OutputStanding.NEW, "not scored yet")
    has_metrics = places.metrics in left and _read_metrics(str(places.metrics), s3) is not None
    if has_metrics or all(_is_ours(mark_of(uri, s3)) for uri in left):
        return OutputState(OutputStanding.STALE, "its scored lines are missing")
    return OutputState(OutputStanding.FOREIGN, "files with the names of its outputs were not written by genrm")


def _is_ours(mark: Mark | None) -> bool:
    return mark is None or mark.upload is not None


def _read_metrics(uri: str, s3: S3Options) -> dict[str, Any] | None:
    """Return the metrics that lie there; None if nothing does, or it is something else."""
    content = read_object(uri, s3)
    try:
        metrics = None if content is None else parse_record(content)
    except BadLineError:
        return None
    return metrics if metrics is not None and "settings_digest" in metrics else None


def _recorded_mark(metrics: dict[str, Any] | None) -> Mark | None:
    recorded = (metrics or {}).get("output_mark")
    if not isinstance(recorded, dict):
        return None
    return Mark(recorded.get("size_bytes", -1), recorded.get("upload"), recorded.get("mtime_ns"))


def _is_marked(found: Mark, recorded: Mark) -> bool:
    """Say whether what was found is what was recorded; a copy has another time, and not the id that a file carries."""
    is_copy = found.upload is None and recorded.upload is not None
    return found.size_bytes == recorded.size_bytes and (is_copy or found == recorded)
