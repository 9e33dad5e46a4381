"""Replies to group requests, and the counters of a server."""

from collections.abc import Mapping, Sequence
from typing import Literal, Self

from msgspec import Struct, field

from genrm_cli.errors import counted
from genrm_cli.groups.line_records import ScoredLine
from genrm_cli.groups.results import GroupRewards
from genrm_cli.metrics.running_stats import RunningStats
from genrm_cli.products.serve.reference_answers import WinRate

# More likely than not to be more than chance. A stricter level drops most groups that differ a
# little: at .2, a policy that had yet to find what the judge prefers lost 81 % of the groups that
# could have taught it, and learned nothing in 90 steps.
_LIKELY_CHANCE = 0.5


class GroupCounts(Struct, frozen=True):
    """Members, comparisons and calls of one group, as shown in its reply and the log.

    Attributes:
        came: members judged together.
        earlier: of these, how many a late member was compared with; None of members in time.
        reliability: of the rewards, 0 to 1; None if unknown, as for `chance`.
        chance: probability that responses of equal quality get rewards that differ as much.
        worth_training: whether the rewards differ by more than chance; None if unknown, as in the
            first groups of a server.
        reward_mean: over the members with a reward; None without any, as for the other figures of
            rewards.
        reward_mean_before: of all rewards that the server gave before. Without any, and for a group
            without any, it is the middle of the judge's scale.
        reward_spread: highest minus lowest reward.
        unanswered: comparisons that failed because of the judge, whatever the texts.
        component_means: mean of each component over the members that have a value, None without
            any; empty if rewards come from verdicts alone.
        reference: how often the members beat the reference answer to their prompt; None if there is
            none.
    """

    size: int
    came: int
    scored: int
    comparisons: int
    failed: int
    from_journal: int
    calls: int
    reliability: float | None
    chance: float | None
    worth_training: bool | None
    reward_mean: float | None
    reward_mean_before: float | None
    reward_min: float | None
    reward_spread: float | None
    unanswered: int
    earlier: int | None = None
    component_means: Mapping[str, float | None] = {}
    reference: WinRate | None = None

    @classmethod
    def of(
        cls,
        rewards: GroupRewards,
        size: int,
        reward_mean_before: float | None = None,
        reference: WinRate | None = None,
        earlier: int | None = None,
    ) -> Self:
        """Count a group of this expected size."""
        known = [reward for reward in rewards.rewards if reward is not None]
        failures = rewards.failures
        return cls(
            size=size,
            came=len(rewards.scores),
            scored=len(known),
            comparisons=len(rewards.comparisons),
            failed=len(failures),
            from_journal=rewards.recalled,
            calls=rewards.calls,
            reliability=rewards.reliability,
            chance=rewards.chance,
            worth_training=None if rewards.chance is None else rewards.chance < _LIKELY_CHANCE,
            reward_mean=_mean(known),
            reward_mean_before=reward_mean_before,
            reward_min=min(known, default=None),
            reward_spread=max(known) - min(known) if known else None,
            unanswered=sum(
                each.failure is not None and not each.failure.kind.depends_on_texts
                for each in failures
            ),
            earlier=earlier,
            component_means={name: _mean(each.values) for name, each in rewards.columns.items()},
            reference=reference,
        )

    @property
    def status(self) -> Literal["scored", "partial", "late", "failed"]:
        """`partial` if a member or a reward is missing, `late` for a member that was compared with
        a group judged before, `failed` if no member has a reward.
        """
        if not self.scored:
            return "failed"
        if self.earlier:
            return "late"
        return "scored" if self.scored == self.size else "partial"

    @property
    def shortfall(self) -> str | None:
        """How many members were compared, if some have not come or were judged before."""
        if self.earlier:
            return f"late: compared with {counted(self.earlier, 'earlier member')}"
        return None if self.came >= self.size else f"only {self.came} of {self.size} members came"


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


class GroupAnswer(Struct, frozen=True):
    """The rewards of a group, and the ids of the members judged together, in order."""

    name: str
    ids: Sequence[str]
    rewards: GroupRewards
    counts: GroupCounts
    _indices: dict[str, int] = {}

    def __post_init__(self) -> None:
        self._indices.update((id_, index) for index, id_ in enumerate(self.ids))

    def score_of(self, id_: str) -> ScoredLine:
        """Return the result of a member."""
        return self.rewards.scores[self._indices[id_]]


class ServiceCounts(Struct):
    """Counters of a server since its start. `prometheus` says what each counts."""

    groups: dict[str, int] = field(default_factory=lambda: {"scored": 0, "partial": 0, "failed": 0})
    deadlines: int = 0
    missing_members: int = 0
    absent_members: int = 0
    repeated_requests: int = 0
    late_members: int = 0
    disagreements: int = 0
    refused_requests: int = 0
    default_rewards: int = 0
    spreads: RunningStats = field(default_factory=RunningStats)

    def add(self, group: GroupCounts) -> None:
        """Count an answered group."""
        self.groups[group.status] += 1
        if group.reward_spread is not None:
            self.spreads.add(group.reward_spread)
