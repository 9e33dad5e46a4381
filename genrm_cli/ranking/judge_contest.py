"""Plan the comparisons of a contest, ask the judges, and collect the outcomes.

Without a budget, all pairs are compared on all prompts. A budget is spread over all prompts and
pairs: more prompts say more than more pairs on each.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, combinations
from statistics import fmean

from genrm_cli.errors import UsageError, naming
from genrm_cli.groups.failures.caused_failures import verdicts_of
from genrm_cli.groups.group import Group, JudgedGroup
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.jobs.judging_session import JudgingSession
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.ranking.contest import Contest
from genrm_cli.ranking.outcomes import Outcomes, OutcomeTable
from genrm_cli.ranking.pair_plan import (
    Forecast,
    Pair,
    all_pairs,
    assumed_deviation,
    count_prompts,
    forecast,
    spread_pairs,
)
from genrm_cli.verdicts import Failure, FailureKind, Verdict


class ContestJudging:
    """The comparisons of a contest, and their outcomes.

    Attributes:
        chosen: the pairs of policies to compare, by prompt.
    """

    def __init__(self, contest: Contest, plan: GroupPlan, metrics: RunMetrics) -> None:
        """Choose the comparisons and count them; refuse a budget that cannot be kept."""
        self.contest = contest
        self.plan = plan
        self._metrics = metrics
        options = contest.options
        self.anchor = None if options.baseline is None else contest.policies.index(options.baseline)
        if options.over is not None and self.anchor is None:
            self.anchor = 0
        allowed = all_pairs(len(contest.policies), self.anchor, is_curve=options.over is not None)
        self.chosen: dict[int, list[Pair]] = {}
        for prompt in range(len(contest.rows)):
            present = sorted(contest.entrants(prompt).of_policy)
            pairs = [pair for pair in combinations(present, 2) if pair in allowed]
            if pairs:
                self.chosen[prompt] = pairs
        if options.budget is not None:
            self._keep_within(options.budget)
        self._count()
        # By the responses shown: the verdict, the share of the first if one made the request fail
        # and so lost, or None for other failures.
        self._results: dict[int, dict[tuple[int, ...], Verdict | float | None]] = {}

    def _keep_within(self, budget: int) -> None:
        if not self.plan.compares_pairs:
            raise UsageError(
                naming("$budget chooses pairs, but this judge grades each response once; omit it.")
            )
        calls_each = sum(judge.turns for judge in self.plan.judges)
        offers = {
            prompt: [
                (pair, calls_each * len(self.contest.comparisons(prompt, [pair]))) for pair in pairs
            ]
            for prompt, pairs in self.chosen.items()
        }
        calls = chain.from_iterable(offers.values())
        paid = [count for _, count in calls if count]
        if paid and budget < min(paid):
            raise UsageError(naming("$budget allows no comparison; raise it.", budget=budget))
        self.chosen = spread_pairs(
            offers, len(self.contest.policies), budget, self.plan.pairing.seed
        )

    def _count(self) -> None:
        """Count what is planned."""
        metrics = self._metrics
        table = self.contest.index.table
        metrics.groups = len(self.chosen)
        metrics.comparisons_planned = metrics.planned_calls = metrics.prompt_chars = 0
        for prompt, pairs in self.chosen.items():
            rows = self.contest.rows[prompt].tolist()
            asked = len(self.contest.comparisons(prompt, pairs))
            efforts = self.plan.efforts(table.count_answered(rows))
            for judge, effort in zip(self.plan.judges, efforts, strict=False):
                requests = asked if judge.grading is None else effort.requests
                calls = requests * effort.turns
                metrics.comparisons_planned += requests
                metrics.planned_calls += calls
                metrics.prompt_chars += round(calls * table.chars_shown(rows, effort.responses))

    def iter_groups(self) -> Iterator[tuple[int, Group]]:
        """Yield the prompts, each with its comparisons."""
        for prompt, pairs in sorted(self.chosen.items()):
            group = self.contest.index.read_group(self.contest.rows[prompt].tolist())
            yield prompt, replace(group, pairs=self.contest.comparisons(prompt, pairs))

    async def ask(self, session: JudgingSession) -> None:
        """Ask about all that was chosen."""
        await session.ask(self.iter_groups(), self._take)

    def _take(self, prompt: int, judged: JudgedGroup) -> None:
        found = verdicts_of(judged, self.plan)
        results = self._results.setdefault(prompt, {})
        ungraded = set[int]()
        for request, outcome in found.judged.results:
            failure = outcome.result
            if not isinstance(failure, Failure) or failure.kind is FailureKind.NOT_ASKED:
                continue
            if self.plan.judges[request.judge].grading is not None:
                ungraded.update(request.shown)
                continue
            causes = found.causes.get(request, ())
            results[request.shown] = (
                float(causes[0] != request.shown[0]) if len(causes) == 1 else None
            )
        if ungraded:
            asked = self.contest.comparisons(prompt, self.chosen[prompt])
            results.update({(i, j): None for i, j, _ in asked if ungraded & {i, j}})
        results.update({(i, j): verdict for (i, j, _), verdict in found.used.items()})
        self._metrics.redactions.update(judged.redactions)
        self._metrics.groups_done += 1

    def outcomes(self) -> Outcomes:
        """Return the outcomes so far."""
        table = OutcomeTable(self.contest.policies, self.contest.options.both_orders)
        for prompt, results in sorted(self._results.items()):
            entrants = self.contest.entrants(prompt)
            chars = entrants.chars
            table.begin_prompt(
                {a: fmean(chars[i] for i in found) for a, found in entrants.of_policy.items()}
            )
            for a, b in self.chosen[prompt]:
                for i, j in entrants.meetings((a, b)):
                    for pair, (first, second) in (((a, b), (i, j)), ((b, a), (j, i))):
                        longer = float(chars[first] - chars[second])
                        won = entrants.ruled(first, second)
                        if won is not None:
                            table.add(*pair, longer, won)
                        elif (shown := entrants.shown(first, second)) in results:
                            table.add(*pair, longer, results[shown])
        return table.outcomes()

    def prompt_texts(self) -> list[str]:
        """Return the last turn of each prompt of the outcomes."""
        groups = (
            self.contest.index.read_group(self.contest.rows[prompt].tolist())
            for prompt in sorted(self._results)
        )
        prompts = (group.rollouts[0].prompt for group in groups)
        return [turns[-1].text if turns else "" for turns in prompts]

    def forecast(self) -> Forecast | None:
        """Return what the chosen comparisons can show."""
        options = self.contest.options
        deviation = assumed_deviation(options.samples, both_orders=options.both_orders)
        return forecast(
            count_prompts(self.chosen, len(self.contest.policies)),
            deviation,
            self.anchor,
            prompts=len(self.chosen),
            one_look=options.one_look,
        )
