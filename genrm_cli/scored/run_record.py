"""The metrics file: the inputs, judges, settings and results of a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from genrm_cli.json_types import JsonObject, Record
from genrm_cli.metrics.run_summary import RunSummary
from genrm_cli.scored.json_form import json_schema
from genrm_cli.scored.lines import ComparisonRecord, ScoredLine
from genrm_cli.verdicts import ProbeResult

FORMAT: Literal[1] = 1
"""Version of the metrics file; increased when a key changes its meaning or is removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputVersion:
    """The version of an input that was read.

    Attributes:
        place: absolute path or URI, so that the same input is recognised from another working
            directory.
    """

    uri: str
    place: str | None
    size_bytes: int | None
    etag: str | None
    mtime_ns: int | None
    ctime_ns: int | None
    inode: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputMark:
    """Identity of a written output; see `storage.location.Mark`."""

    size_bytes: int
    upload: str | None
    mtime_ns: int | None
    sha256: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """The scored lines of one file of an input, by name in the folder of the set, and their
    source.
    """

    input: InputVersion | None
    output: str
    output_mark: OutputMark | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeRecord:
    """One judge and its profile.

    Attributes:
        name: its `judge_id`, or else its model.
        is_baseline: whether it is the built-in lexical baseline.
        profile_from: source of the choice of the profile.
        probe: the result of the test before it was asked; None for the baseline, and if it was not
            asked.
        compat: the setting `compat`, which replaces missing verdicts by defaults.
        score_probabilities: whether its verdicts are expected values over score tokens, where it
            sends them.
        weight: in a panel.
    """

    name: str | None
    model: str | None
    is_baseline: bool
    base_urls: tuple[str, ...]
    profile: str | None
    profile_version: int | None
    profile_from: str | None
    probe: ProbeResult | None
    compat: str | None
    score_probabilities: bool | None = None
    weight: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelRecord(JudgeRecord):
    """The judge of a run, or its panel, which only has a name. Without comparisons the name is
    None.
    """

    panel: tuple[JudgeRecord, ...] | None = None
    quorum: int | None = None

    @property
    def judges(self) -> tuple[JudgeRecord, ...]:
        """The judges of the panel, or the judge itself."""
        return self.panel or (self,)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraderRecord:
    """The judge that grades a component."""

    model: str | None
    base_urls: tuple[str, ...]
    profile: str
    profile_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardRecord:
    """The parts of rewards besides verdicts.

    Attributes:
        components: source of each component.
        versions: of what computes a component, such as a phrase list or a function, by component.
        diversity: its settings, as are those of `total`.
    """

    components: Mapping[str, str]
    versions: Mapping[str, str | int]
    graders: Mapping[str, GraderRecord]
    diversity: JsonObject | None
    total: JsonObject | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedRun:
    """What a watch of the judges says after a run; it adds members that it alone reads.

    Attributes:
        state: `fine`, `blind`, `look` or `stop`.
        reasons: why it is not fine, as sentences.
    """

    state: str = "blind"
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTotals(RunSummary):
    """Judges and parts of rewards, with the counts and statistics of one input or of many.

    Attributes:
        limit: number of groups of a trial; None for a full run.
        reward_made_of: None if rewards come from verdicts alone.
    """

    limit: int | None
    judge: PanelRecord
    reward_made_of: RewardRecord | None
    min_reliability: float | None
    goal: str
    strategy: str
    ring_k: float | None
    estimator: str
    repeats: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord(RunTotals):
    """The metrics file of one input.

    Attributes:
        input: the version that was scored; of a set of files, its name; None for served groups.
        output: the scored lines; of a set of files, the name that their companion files share.
        output_mark: identity of the scored lines; None for a stream and for a set.
        files: of a set of files.
        partial: whether the run was stopped before its end.
        settings_digest: of every setting that changes rewards.
        journal: path of the journal; None without one.
        damaged_verdicts: verdicts of the journal that cannot be read.
        watch: what watching the judges found; None if they were not watched.
    """

    format: Literal[1] = FORMAT
    input: InputVersion | None
    output: str
    output_mark: OutputMark | None
    files: tuple[FileRecord, ...] | None = None
    time: str
    reading_version: int
    partial: bool
    settings_digest: str
    versions: Mapping[str, str]
    journal: str | None
    damaged_verdicts: int | None = None
    watch: WatchedRun | None = None

    @property
    def parts(self) -> dict[str, FileRecord]:
        """The files of a set by the names of their scored lines; empty for a single file."""
        return {file.output: file for file in self.files or ()}


def output_schema() -> Record:
    """Return the schemas: `ScoredLine` of a rollout's `genrm` object, `ComparisonRecord` and
    `RunRecord` of files.
    """
    line = json_schema(ScoredLine)
    # The reward is a field of the line itself, whose name depends on the format.
    del line["properties"]["reward"]
    line["required"].remove("reward")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {
            "ScoredLine": line,
            "ComparisonRecord": json_schema(ComparisonRecord),
            "RunRecord": json_schema(RunRecord),
        },
    }
