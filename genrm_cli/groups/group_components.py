"""The components of a judged group, and the totals that they make."""

from collections.abc import Mapping
from functools import cached_property

from msgspec import Struct

from genrm_cli.groups.comparisons import JudgedVerdicts
from genrm_cli.groups.graders import DIVERSITY, GradedGroup
from genrm_cli.groups.group import JudgedGroup
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.judging.profiles.answer import MEANINGS
from genrm_cli.pairing.pairs import Comparison
from genrm_cli.rewards.component import Column, GroupKind, Values
from genrm_cli.rewards.compose import Total, compose_total
from genrm_cli.rewards.diversity import Clusters, clusters_of
from genrm_cli.settings.components import GENRM, find_kind, order_of
from genrm_cli.verdicts import MIN_SCORE


class GroupComponents(Struct, frozen=True, dict=True):
    """The components of a group.

    Attributes:
        blank_losers: indices of the blank responses that have the worst grade.
        is_equal: whether its responses are equal, so that there is nothing to compare.
    """

    group: JudgedVerdicts
    plan: GroupPlan
    blank_losers: tuple[int, ...]
    is_equal: bool

    @property
    def judged(self) -> JudgedGroup:
        """The group."""
        return self.group.judged

    @cached_property
    def _graded(self) -> list[GradedGroup]:
        """Return the grades of each grader."""
        judged = self.judged
        if not judged.answered:
            return []
        graded = []
        for number, grader in enumerate(self.plan.graders, len(self.plan.judges)):
            results = [result for result in judged.results if result[0].judge == number]
            graded.append(GradedGroup(grader, judged.answered, self.blank_losers, results))
        return graded

    def clusters(self) -> Clusters | None:
        """Return the near-duplicates of the group; None if diversity is not configured."""
        diversity = self.plan.rewards.settings.diversity
        judged = self.judged
        if diversity is None or not judged.is_comparable:
            return None
        found: list[int] | None = judged.clusters
        if diversity.method == "llm":
            found = next(
                (each.clusters() for each in self._graded if each.grader.kind == DIVERSITY), []
            )
        if found is not None:
            number_of = dict(zip(judged.answered, found, strict=True))
            copied = [number_of[original] for original in judged.copies.values()]
            found = [*found, *copied, *[-1] * len(judged.blank)]  # blank ones share one cluster
        answered = (*judged.answered, *judged.copies, *judged.blank)
        return clusters_of(
            found, answered, judged.size, uniform_fallback=diversity.fallback == "uniform"
        )

    def columns(self, verdict_rewards: Values) -> dict[str, Column]:
        """Return all components of the group, in the plan's order."""
        judged = self.judged
        rewards = self.plan.rewards
        columns = {name: Column([None] * judged.size) for name in rewards.names}
        columns |= judged.columns
        if self.plan.judges:
            columns[GENRM] = Column(verdict_rewards)
        for each in self._graded:
            for name, column in each.columns(judged.size).items():
                columns[name] = column.with_copies(judged.copies)
        used = self.group.used
        if self.is_equal:
            used = {Comparison(judged.answered[0], judged.answered[0], 0): MEANINGS["tie"]}
        for component in order_of(rewards.settings.components):
            kind = find_kind(component.kind)
            if isinstance(kind, GroupKind) and judged.is_comparable:
                values = kind.compute(component, judged.size, used, columns)
                if kind.from_verdicts:
                    values = self._of_complete(values)
                columns[component.name] = Column(values).with_copies(judged.copies)
        return columns

    def _of_complete(self, values: Values) -> Values:
        """Return values without those of rollouts with too few verdicts, or with the lowest for
        them.
        """
        group = self.group
        complete = [
            None if index in group.incomplete else value for index, value in enumerate(values)
        ]
        known = [value for value in complete if value is not None]
        if known and self.plan.rewards.settings.unscored == "lowest":
            for index in group.silent:
                complete[index] = min(known)
        return complete

    def totals(self, columns: Mapping[str, Column], clusters: Clusters | None) -> list[Total]:
        """Combine the components of each rollout.

        An optional component that a rollout lacks is dropped for the whole group: otherwise it
        would favour the others. Rewards from verdicts, of which one is negative, are shifted so
        that the lowest is the least score of a judge: else a gated rollout, with 0, would not be
        the worst, and dividing among near-duplicates would reward copying; ranks and advantages
        stay the same."""
        judged = self.judged
        rewards = self.plan.rewards
        values = {name: column.values for name, column in columns.items()}
        known = [value for value in values.get(GENRM, ()) if value is not None]
        has_zero = rewards.settings.total is not None or clusters is not None or judged.gated
        if has_zero and known and min(known) < 0:
            lift = MIN_SCORE - min(known)
            values[GENRM] = [None if value is None else value + lift for value in values[GENRM]]
        rows = [index for index in judged.counted if judged.has_response[index]]
        complete = {
            name
            for name, given in values.items()
            if all(given[index] is not None for index in rows)
        }
        table = rewards.total
        dropped = set(table.optional) - complete
        totals = []
        for index in range(judged.size):
            own = {name: given[index] for name, given in values.items()}
            sizes = (
                {} if clusters is None else dict.fromkeys(rewards.divided, clusters.sizes[index])
            )
            totals.append(compose_total(own, table, sizes, judged.gated.get(index, ()), dropped))
        return totals
