"""The metrics file: the inputs, judges, settings and results of a run."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from genrm_cli.groups.line_records import ComparisonRecord, ScoredLine
from genrm_cli.json_types import JsonObject, Record
from genrm_cli.metrics.component_metrics import ComponentSummary
from genrm_cli.metrics.half_plans import HalfPlanSummary
from genrm_cli.metrics.panel_metrics import PanelSummary
from genrm_cli.metrics.plan_reliability import RingsNeeded
from genrm_cli.metrics.running_stats import LatencySummary, Statistics
from genrm_cli.metrics.session_metrics import SessionSummary
from genrm_cli.metrics.verdict_counts import CountOf, FailingText
from genrm_cli.scored.json_form import json_schemas
from genrm_cli.storage.contract import InputIdentity, Mark
from genrm_cli.verdicts import ProbeResult, StoppedBy

FORMAT: Literal[1] = 1
"""Version of the metrics file; increased when a key changes its meaning or is removed."""


TrainOnIt = Literal["yes", "with care", "no", "unknown"]


class InputVersion(InputIdentity, frozen=True, kw_only=True):
    """The version of an input that was read.

    Attributes:
        place: absolute path or URI, so that the same input is recognised from another working
            directory.
    """

    place: str | None


class FileRecord(Struct, frozen=True, kw_only=True):
    """The scored lines of one file of an input, by name in the folder of the set, and their
    source.
    """

    input: InputVersion | None
    output: str
    output_mark: Mark | None


class JudgeRecord(Struct, frozen=True, kw_only=True):
    """One judge and its profile.

    Attributes:
        name: its `judge_id`, or else its model.
        is_baseline: whether it is the built-in lexical baseline.
        profile_from: source of the choice of the profile.
        probe: the result of the test before it was asked; None for the baseline, and if it was not
            asked.
        compat: the setting `compat`, which replaces missing verdicts by defaults.
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


class PanelRecord(JudgeRecord, frozen=True, kw_only=True):
    """The judge of a run, or its panel, which only has a name. Without comparisons the name is
    None.
    """

    panel: tuple[JudgeRecord, ...] | None = None

    @property
    def judges(self) -> tuple[JudgeRecord, ...]:
        """The judges of the panel, or the judge itself."""
        return self.panel or (self,)


class GraderRecord(Struct, frozen=True, kw_only=True):
    """The judge that grades a component."""

    model: str | None
    base_urls: tuple[str, ...]
    profile: str
    profile_version: int


class RewardRecord(Struct, frozen=True, kw_only=True):
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


class RunTotals(Struct, frozen=True, kw_only=True):
    """The settings of a run over one input or over many, its counts and statistics.

    Rates are None if nothing was counted; `RunMetrics` describes those that it computes.

    Attributes:
        limit: number of groups of a trial; None for a full run.
        reward_made_of: None if rewards come from verdicts alone.
        unscored_reasons: rollouts without a reward by the code of the reason; `unscored_examples`:
            details of one.
        extra_comparisons: requests beyond the plan, which replace failed ones.
        comparisons_planned: `verdicts` + `journal_hits` + `failures`.
        neutralised: rollouts with text in the form of a verdict, a marker or a control token,
            broken up for the judge.
        copies: rollouts that look identical to an earlier one of their group for the judges; they
            share its comparisons.
        redactions: masked texts of the judged groups, each counted once, by pattern.
        shortened_rollouts: rollouts whose prompt or response was cut so that it fits into the
            judges' context.
        panel: agreement of a panel; None for a single judge.
        reliability: share of a group's spread that is signal, over the groups where it is known;
            with the 95 % interval of its mean, as far as that depends on what is known of the
            judge's noise; `rings_needed` says with which `ring_k` it would be high.
        half_plans: the reliability by the agreement of two halves of the verdicts; None where that
            is unknown.
        length_effect: correlation of reward and length within groups of three or more, with the 95
            % interval of its mean.
        failed_requests: requests about groups without a verdict, of all; a panel's judges each
            count.
        failing_texts: the ten rollouts with most failed requests, by group and index.
        groups_noisy: groups whose reliability is below `NOISY_BELOW`.
        not_numbers: NaN, infinities and numbers beyond a double, read and written back as null; the
            first is named.
        contradicting_ids: task ids of a set of files that name several prompts.
        groups_over_steps: groups that compare rollouts of several training steps.
        sessions: rewards of sessions by what was played; None without sessions.
        failed_figures: why figures are null that a bug kept from being computed, by name; None if
            there are none.
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
    lines: int
    rejected_lines: int
    dropped_lines: int
    formats: Mapping[str, int]
    rollouts: int
    duplicate_rollouts: int
    blank_responses: int
    truncated_responses: int
    rollouts_with_media: int
    missing_fields: Mapping[str, int]
    stripped_tokens: int
    not_numbers: int
    not_numbers_first: str | None
    views: Mapping[str, int]
    groups: int
    group_sizes: Mapping[str, int]
    groups_left_out: int
    groups_with_mixed_prompts: int
    groups_without_spread: int
    contradicting_ids: int
    groups_over_steps: int
    scored: int
    single: int
    unscored: int
    unscored_share: float
    unscored_reasons: Mapping[str, int]
    unscored_examples: Mapping[str, str]
    rewards_on_defaults: int
    extra_comparisons: int
    neutralised: int
    copies: int
    comparisons_planned: int
    stopped_by: StoppedBy | None
    redactions: Mapping[str, int]
    shortened_rollouts: int
    verdicts: int
    journal_hits: int
    failures: int
    failures_by_kind: Mapping[str, int]
    failure_examples: Mapping[str, str]
    failed_requests: CountOf
    failing_texts: Mapping[str, FailingText]
    calls: int
    retries: int
    prompt_tokens: int
    completion_tokens: int
    estimated_replies: int
    mean_individual_score: float | None
    std_individual_score: float | None
    tiebreak_usage_rate: float | None
    first_place_win_rate: float | None
    pairs_in_both_orders: int
    flip_rate: float | None
    contradiction_rate: float | None
    tie_rate: float | None
    pairs_of_repeats: int
    repeat_agreement: float | None
    panel: PanelSummary | None
    reliability: Statistics
    reliability_interval: tuple[float, ...] | None
    rings_needed: RingsNeeded | None
    half_plans: HalfPlanSummary | None
    groups_noisy: int
    groups_of_unknown_reliability: int
    components: Mapping[str, ComponentSummary]
    component_failures: Mapping[str, int]
    gated: int
    reward_sources: Mapping[str, float]
    sessions: SessionSummary | None
    length_effect: Statistics
    length_effect_interval: tuple[float, ...] | None
    reward: Statistics
    latency: LatencySummary
    wall_time_s: float
    failed_figures: Mapping[str, str] | None = None


# Settings are declared before counts, the first of which is `lines`.
_NAMES = RunTotals.__struct_fields__
FIGURES = _NAMES[_NAMES.index("lines") :]
"""The counts and statistics of a run: all of its totals but the settings before them."""


class RunRecord(RunTotals, frozen=True, kw_only=True):
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
        train, because: whether to train on the rewards, and why not simply yes; see `RunAccount`.
    """

    format: Literal[1]
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
    train: TrainOnIt
    because: tuple[str, ...]

    @property
    def parts(self) -> dict[str, FileRecord]:
        """The files of a set by the names of their scored lines; empty for a single file."""
        return {file.output: file for file in self.files or ()}


def output_schema() -> Record:
    """Return the schemas: `ScoredLine` of a rollout's `genrm` object, `ComparisonRecord` and
    `RunRecord` of files.
    """
    schemas = json_schemas((ScoredLine, ComparisonRecord, RunRecord))
    # The reward is a field of the line itself, whose name depends on the format.
    line = schemas["ScoredLine"]
    del line["properties"]["reward"]
    line["required"].remove("reward")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": schemas}
