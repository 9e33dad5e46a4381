"""The result of a group: rewards, and what each rests on."""

from collections.abc import Mapping
from dataclasses import dataclass

from genrm_cli.groups.comparisons import JudgeVerdicts
from genrm_cli.groups.components.columns import Clusters, Column
from genrm_cli.rewards.compose import RolloutReward
from genrm_cli.rewards.estimators import Verdicts
from genrm_cli.rewards.total import Total


@dataclass(frozen=True, slots=True)
class RolloutScore:
    """The result of one rollout.

    Attributes:
        index: of the rollout in its group.
        numbers: base score, adjustments, reward, rank and advantage; None where there is no reward.
        status: `scored`, `single` or `unscored`.
        reason: why there is no reward; None if there is one.
        standard_error: of the base score against the group's mean; None where unknown.
        comparisons: verdicts of a judge that count for it.
        failed: requests about it that failed.
        defaulted: comparisons that count with a default (`--compat`).
        total: how components became the reward; None where verdicts alone did.
    """

    index: int
    numbers: RolloutReward
    status: str
    reason: str | None
    standard_error: float | None
    comparisons: int
    failed: int
    defaulted: int
    total: Total | None = None

    @property
    def reward(self) -> float | None:
        """The number that a trainer reads; None for an unscored rollout."""
        return self.numbers.reward


@dataclass(frozen=True, slots=True)
class GroupRewards:
    """The rewards of a group.

    Attributes:
        key: of the group.
        scores: one for each rollout, in the group's order.
        verdicts: those that the rewards rest on.
        by_judge: all verdicts, with None for failures.
        reliability: share of the spread of the base scores that is signal, 0 to 1; None where unknown.
        converged: whether the estimator converged.
        columns: all components by name; empty where rewards are made of verdicts alone.
        clusters: near-duplicates; None where they are not looked for.
    """

    key: str
    scores: list[RolloutScore]
    verdicts: Verdicts
    by_judge: JudgeVerdicts
    reliability: float | None
    converged: bool
    columns: Mapping[str, Column]
    clusters: Clusters | None = None
