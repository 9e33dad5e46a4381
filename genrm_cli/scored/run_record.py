"""The metrics file: what was scored, by whom, from what, and with what result."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from genrm_cli import __version__
from genrm_cli.groups.check import judge_specs
from genrm_cli.groups.compile import compile_rewards, judge_name
from genrm_cli.groups.graders import graders_in
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.judging.open_judges import JudgeSpec
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.metrics.summary import RunSummary, summarise
from genrm_cli.pairing import RING_STRATEGIES
from genrm_cli.rollouts.views import READING_VERSION
from genrm_cli.scored.json_form import FormError, extended, from_json
from genrm_cli.settings import Settings
from genrm_cli.settings.components import find_kind
from genrm_cli.settings.table import digest_of
from genrm_cli.storage.encoding.records import BadLineError, parse_record
from genrm_cli.storage.location import InputIdentity, Mark, S3Options
from genrm_cli.storage.objects import read_object
from genrm_cli.storage.sink import place_of

FORMAT: Literal[1] = 1
"""Version of the metrics file; increased when a key changes its meaning or is removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputVersion:
    """The version of an input that was read.

    Attributes:
        place: absolute path or URI, so that the same input is recognised from another working directory.
    """

    uri: str
    place: str | None
    size_bytes: int | None
    etag: str | None
    mtime_ns: int | None
    ctime_ns: int | None
    inode: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """The scored lines of one file of an input, by name in the folder of the set, and what they were made from."""

    input: InputVersion | None
    output: str
    output_mark: Mark | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeRecord:
    """One judge, and how it was prompted; a run without comparisons has no judge, and its name is None.

    Attributes:
        is_baseline: whether it is the built-in lexical baseline.
        profile_from: where the choice of the profile came from.
        compat: `--compat`, which replaces missing verdicts.
        weight: in a panel.
    """

    name: str | None
    is_baseline: bool
    base_urls: tuple[str, ...]
    profile: str | None
    profile_version: int | None
    profile_from: str | None
    compat: str | None
    weight: float | None = None

    @property
    def judges(self) -> "tuple[JudgeRecord, ...]":
        """The judge itself."""
        return (self,)


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelRecord:
    """A panel of judges; `profile` and `profile_version` are those of each."""

    name: str | None
    is_baseline: bool
    base_urls: tuple[str, ...]
    profile: tuple[str, ...]
    profile_version: tuple[int, ...]
    compat: str | None
    panel: tuple[JudgeRecord, ...]
    quorum: int
    disagreement: str

    @property
    def judges(self) -> tuple[JudgeRecord, ...]:
        """The judges of the panel."""
        return self.panel


@dataclass(frozen=True, slots=True, kw_only=True)
class GraderRecord:
    """The judge that grades a component."""

    model: str | None
    base_urls: tuple[str, ...]
    profile: str
    profile_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardRecord:
    """What rewards are made of besides verdicts.

    Attributes:
        components: source of each component.
        versions: of what computes a component, such as a phrase list or a function, by component.
        diversity: its settings, as are those of `total`.
    """

    components: Mapping[str, str]
    versions: Mapping[str, str | int]
    graders: Mapping[str, GraderRecord]
    diversity: Mapping[str, Any] | None
    total: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTotals(RunSummary):
    """Who judged and what rewards are made of, with the counts and statistics of one input or of many.

    Attributes:
        limit: number of groups of a trial; None for a full run.
        reward_made_of: None if rewards come from verdicts alone.
    """

    limit: int | None
    judge: PanelRecord | JudgeRecord
    reward_made_of: RewardRecord | None
    min_reliability: float | None
    strategy: str
    ring_k: float | None
    estimator: str
    repeats: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord(RunTotals):
    """The metrics file of one input.

    Attributes:
        input: the version that was scored; of a set of files, its name; None for served groups.
        output: the scored lines; of a set of files, the name that the files beside them share.
        output_mark: identity of the scored lines; None for a stream and for a set.
        files: of a set of files.
        partial: whether the run was stopped before its end.
        settings_digest: of every setting that changes rewards.
        journal: path of the journal; None without one.
        damaged_verdicts: verdicts of the journal that cannot be read.
    """

    format: Literal[1] = FORMAT
    input: InputVersion | None
    output: str
    output_mark: Mark | None
    files: tuple[FileRecord, ...] | None = None
    time: str
    reading_version: int
    partial: bool
    settings_digest: str
    versions: Mapping[str, str]
    journal: str | None
    damaged_verdicts: int | None = None

    @property
    def parts(self) -> dict[str, FileRecord]:
        """The files of a set by the names of their scored lines; empty for a single file."""
        return {file.output: file for file in self.files or ()}


def run_totals(
    settings: Settings, metrics: RunMetrics, plan: GroupPlan, judges: Sequence[JudgeSpec], wall_time_s: float
) -> RunTotals:
    """Return the totals of a run over one input or over many, with the judges as they were asked."""
    pairing = plan.pairing
    return extended(
        RunTotals,
        summarise(metrics, wall_time_s),
        limit=settings.limits.limit,
        judge=judge_record(settings, judges),
        reward_made_of=reward_record(settings),
        min_reliability=settings.rewards.min_reliability,
        strategy=pairing.strategy,
        ring_k=pairing.ring_k if pairing.strategy in RING_STRATEGIES else None,
        estimator=plan.rewards.estimator,
        repeats=pairing.repeats,
    )


def run_record(
    totals: RunTotals,
    settings: Settings,
    *,
    input_: InputVersion | None,
    output: str,
    output_mark: Mark | None,
    files: tuple[FileRecord, ...] | None = None,
    journal: str | None,
    damaged_verdicts: int | None = None,
) -> RunRecord:
    """Return the record of a finished input; see `RunRecord` for the arguments."""
    return extended(
        RunRecord,
        totals,
        input=input_,
        output=output,
        output_mark=output_mark,
        files=files,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        reading_version=READING_VERSION,
        partial=totals.stopped_by is not None or totals.failures_by_kind.get("not_asked", 0) > 0,
        settings_digest=digest_of(settings),
        versions=versions_record(),
        journal=journal,
        damaged_verdicts=damaged_verdicts,
    )


def read_run_record(uri: str, s3: S3Options) -> RunRecord | None:
    """Read the metrics file of an earlier run; None if it is missing or something else."""
    content = read_object(uri, s3)
    try:
        return None if content is None else parse_run_record(content)
    except (BadLineError, FormError):
        return None


def parse_run_record(content: bytes) -> RunRecord:
    """Parse a metrics file.

    Raises:
        BadLineError: it is not a JSON object.
        FormError: it is not a metrics file.
    """
    return from_json(RunRecord, parse_record(content))


def input_version(identity: InputIdentity) -> InputVersion:
    """Return the version of an input that was read."""
    return extended(InputVersion, identity, place=place_of(identity.uri))


def judge_record(settings: Settings, judges: Sequence[JudgeSpec] | None = None) -> PanelRecord | JudgeRecord:
    """Return who judged, and how it was prompted.

    `judges` are those of the run as they were asked; by default as the settings describe them.
    """
    specs = [spec for spec in (judge_specs(settings) if judges is None else judges) if spec.compares]
    if not specs:
        return _one_judge(None, None, settings)
    if not settings.panel.judges:
        return _one_judge(judge_name(settings), specs[0], settings)
    profiles = [spec.profile for spec in specs if spec.profile is not None]
    return PanelRecord(
        name=judge_name(settings),
        is_baseline=False,
        base_urls=(),
        profile=tuple(profile.name for profile in profiles),
        profile_version=tuple(profile.version for profile in profiles),
        compat=settings.judge.compat,
        panel=tuple(_one_judge(spec.config.name, spec, settings, spec.config.weight) for spec in specs),
        quorum=settings.panel.quorum or len(specs),
        disagreement=settings.panel.disagreement,
    )


def _one_judge(
    name: str | None, spec: JudgeSpec | None, settings: Settings, weight: float | None = None
) -> JudgeRecord:
    profile = None if spec is None else spec.profile
    return JudgeRecord(
        name=name,
        is_baseline=spec is not None and spec.config.judge.judge is not None,
        base_urls=() if spec is None else tuple(spec.config.judge.base_url),
        profile=None if profile is None else profile.name,
        profile_version=None if profile is None else profile.version,
        profile_from=None if spec is None or profile is None else spec.source.value,
        compat=settings.judge.compat if spec is not None else None,
        weight=weight,
    )


def reward_record(settings: Settings) -> RewardRecord | None:
    """Return what rewards are made of besides verdicts, and the versions of what grades them; None for nothing."""
    rewards = compile_rewards(settings)
    if not rewards.is_composed:
        return None
    given = settings.rewards
    total = given.total
    return RewardRecord(
        components={name: rewards.sources[name] for name in rewards.names},
        versions={c.name: version for c in given.components if (version := find_kind(c.kind).version(c)) is not None},
        graders={
            grader.component: GraderRecord(
                model=grader.config.judge.model,
                base_urls=tuple(grader.config.judge.base_url),
                profile=grader.profile.name,
                profile_version=grader.profile.version,
            )
            for grader in graders_in(settings)
        },
        diversity=None if given.diversity is None else asdict(given.diversity) | {"judge": None},
        total=None if total is None else asdict(total) | {"weights": dict(total.weights), "gates": dict(total.gates)},
    )


def versions_record() -> dict[str, str]:
    """Return the versions of genrm and Python."""
    return {"genrm": __version__, "python": platform.python_version()}


def provenance_of(identity: InputIdentity, settings: Settings) -> dict[str, str]:
    """Return the metadata of every output object on S3, without what is unknown."""
    known = {
        "version": __version__,
        "settings-digest": digest_of(settings),
        "judge": judge_name(settings),
        "input-uri": identity.uri,
        "input-etag": identity.etag,
        "input-size-bytes": identity.size_bytes,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return {name: str(value) for name, value in known.items() if value is not None}
