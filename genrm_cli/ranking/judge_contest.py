"""Plan the comparisons of a contest, ask the judges, and collect the outcomes.

Without a budget, all pairs are compared on all prompts. With one, pairs whose answers are known are
taken first, since they are free; then those that were compared least. Among many policies a third
of the budget is a pilot, and the rest goes to policies that are close to each other by its
verdicts: far ones are told apart by few comparisons.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean

from genrm_cli.errors import UsageError, naming
from genrm_cli.groups.group import Group, JudgedGroup
from genrm_cli.groups.judge_group import known_results
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.groups.reward_group import verdicts_of
from genrm_cli.jobs.judging_session import JudgingSession
from genrm_cli.judging.engine import JudgeSet
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.ranking.contest import Contest
from genrm_cli.ranking.leaderboard import most_different
from genrm_cli.ranking.outcomes import Outcomes, OutcomeTable
from genrm_cli.ranking.pair_plan import (
    Forecast,
    Pair,
    PairPlan,
    all_pairs,
    assumed_deviation,
    forecast,
    near_pairs,
)
from genrm_cli.ranking.strengths import fit_strengths
from genrm_cli.verdicts import Failure, FailureKind, Verdict

_PILOT_SHARE = 1 / 3  # of the budget: enough to rank, with most left for close pairs
_WIDE_FIELD = (
    6  # policies from which a pilot chooses the pairs; of fewer, most are at most two ranks apart
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A prompt on which two policies differ: its last turn, a response of each, and the share that
    `a` won.
    """

    prompt: str
    a: str
    b: str
    response_a: str
    response_b: str
    share: float


class ContestJudging:
    """The comparisons of a contest, and their outcomes so far. `is_pilot`: those chosen decide
    which others follow.
    """

    def __init__(self, contest: Contest, plan: GroupPlan, metrics: RunMetrics) -> None:
        """Plan nothing yet; refuse a budget for judges that grade each response once."""
        self.contest = contest
        self.plan = plan
        self._metrics = metrics
        options = contest.options
        if options.budget is not None and not plan.compares_pairs:
            raise UsageError(
                naming("$budget chooses pairs, but this judge grades each response once; omit it.")
            )
        self.anchor = None if options.baseline is None else contest.policies.index(options.baseline)
        if options.over is not None and self.anchor is None:
            self.anchor = 0
        self.is_pilot = False
        self.pairs = PairPlan(len(contest.policies), plan.pairing.seed)
        self._allowed = all_pairs(
            len(contest.policies), self.anchor, is_curve=options.over is not None
        )
        # By the responses shown: the verdict, the share of the first if one made the request fail
        # and so lost, or None for other failures.
        self._results: dict[int, dict[tuple[int, ...], Verdict | float | None]] = {}
        self._asked: dict[int, set[Pair]] = {}
        self._offers: dict[int, list[tuple[Pair, int]]] = {}

    def choose(self, judges: JudgeSet | None) -> None:
        """Choose the comparisons, within the budget those first whose answers the judges recall."""
        budget = self.contest.options.budget
        whole = 0
        for prompt in range(len(self.contest.rows)):
            present = sorted(self.contest.entrants(prompt).of_policy)
            pairs = [pair for pair in combinations(present, 2) if pair in self._allowed]
            if budget is None:
                for pair in pairs:
                    self.pairs.take(prompt, pair, 0)
            else:
                self._offers[prompt] = self._offer(prompt, pairs, judges)
                whole += sum(calls for _, calls in self._offers[prompt])
        if budget is not None:
            self.is_pilot = (
                len(self.contest.policies) >= _WIDE_FIELD and self.anchor is None and whole > budget
            )
            self.pairs.spend(self._offers, int(budget * _PILOT_SHARE) if self.is_pilot else budget)
            if not self.pairs.calls and whole:
                raise UsageError(naming("$budget allows no comparison; raise it.", budget=budget))
        self._count()

    def _offer(
        self, prompt: int, pairs: list[Pair], judges: JudgeSet | None
    ) -> list[tuple[Pair, int]]:
        """Return the calls that each pair needs on a prompt, and choose those pairs whose answers
        are known.
        """
        calls_each = sum(judge.turns for judge in self.plan.judges)
        needed = {pair: self.contest.comparisons(prompt, [pair]) for pair in pairs}
        offers = [(pair, len(asked) * calls_each) for pair, asked in needed.items()]
        if judges is not None:
            found = [
                id_.shown for id_, _ in known_results(self._group(prompt, pairs), self.plan, judges)
            ]
            for pair, calls in offers:
                if calls and all(
                    found.count((i, j)) == len(self.plan.judges) for i, j, _ in needed[pair]
                ):
                    self.pairs.take(prompt, pair, calls)
        return offers

    def choose_rest(self) -> None:
        """Spend the rest of the budget on policies that are at most two ranks apart by the verdicts
        so far.
        """
        fit = fit_strengths(self.outcomes())
        near = self._allowed if fit is None else near_pairs(fit.theta.tolist())
        offers = {
            prompt: [each for each in found if each[0] in near]
            for prompt, found in self._offers.items()
        }
        self.pairs.spend(offers, self.contest.options.budget or 0)
        self._count()

    def _count(self) -> None:
        """Count what is planned."""
        metrics = self._metrics
        table = self.contest.index.table
        metrics.groups = len(self.pairs.chosen)
        metrics.comparisons_planned = metrics.planned_calls = metrics.prompt_chars = 0
        for prompt, pairs in self.pairs.chosen.items():
            rows = self.contest.rows[prompt].tolist()
            asked = len(self.contest.comparisons(prompt, pairs))
            for judge, effort in zip(
                self.plan.judges, self.plan.efforts(table.count_answered(rows)), strict=False
            ):
                requests = asked if judge.grading is None else effort.requests
                metrics.comparisons_planned += requests
                metrics.planned_calls += requests * effort.turns
                metrics.prompt_chars += round(
                    requests * effort.turns * table.chars_shown(rows, effort.responses)
                )

    def _group(self, prompt: int, pairs: list[Pair]) -> Group:
        group = self.contest.index.read_group(self.contest.rows[prompt].tolist())
        return replace(group, pairs=self.contest.comparisons(prompt, pairs))

    def iter_groups(self) -> Iterator[tuple[int, Group]]:
        """Yield the prompts with the comparisons that have not been asked."""
        for prompt, pairs in sorted(self.pairs.chosen.items()):
            if new := [pair for pair in pairs if pair not in self._asked.get(prompt, ())]:
                yield prompt, self._group(prompt, new)

    async def ask(self, session: JudgingSession) -> None:
        """Ask about all that was chosen and not asked before."""
        await session.ask(self.iter_groups(), self._take)
        self._asked = {prompt: set(pairs) for prompt, pairs in self.pairs.chosen.items()}

    def _take(self, prompt: int, judged: JudgedGroup) -> None:
        found = verdicts_of(judged, self.plan)
        results = self._results.setdefault(prompt, {})
        ungraded = set[int]()
        for request, outcome in found.judged.results:
            if (
                not isinstance(outcome.result, Failure)
                or outcome.result.kind is FailureKind.NOT_ASKED
            ):
                continue
            if self.plan.judges[request.judge].grading is not None:
                ungraded.update(request.shown)
                continue
            causes = found.causes.get(request, ())
            results[request.shown] = (
                float(causes[0] != request.shown[0]) if len(causes) == 1 else None
            )
        if ungraded:
            asked = self.contest.comparisons(prompt, self.pairs.chosen[prompt])
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
            meetings = [
                (pair, met) for pair in self.pairs.chosen[prompt] for met in entrants.meetings(pair)
            ]
            for (a, b), (i, j) in (
                order for pair, met in meetings for order in ((pair, met), (pair[::-1], met[::-1]))
            ):
                longer = float(chars[i] - chars[j])
                if (won := entrants.ruled(i, j)) is not None:
                    table.add(a, b, longer, won)
                elif (shown := entrants.shown(i, j)) in results:
                    table.add(a, b, longer, results[shown])
        return table.outcomes()

    def examples(self, outcomes: Outcomes, count: int) -> Iterator[Example]:
        """Yield the prompts on which two policies differ most, with the first response of each."""
        prompts = sorted(self._results)
        for number, a, b, share in most_different(outcomes, count):
            rollouts = self.contest.index.read_group(
                self.contest.rows[prompts[number]].tolist()
            ).rollouts
            first, second = (
                rollouts[i] for i in self.contest.entrants(prompts[number]).meetings((a, b))[0]
            )
            yield Example(
                prompt=first.prompt[-1].text if first.prompt else "",
                a=self.contest.policies[a],
                b=self.contest.policies[b],
                response_a=first.answer or "",
                response_b=second.answer or "",
                share=share,
            )

    def forecast(self) -> Forecast | None:
        """Return what the chosen comparisons can show, or all of the budget if they are a pilot."""
        options = self.contest.options
        scale = (options.budget or 0) / max(1, self.pairs.calls) if self.is_pilot else 1.0
        deviation = assumed_deviation(options.samples, both_orders=options.both_orders)
        counts = self.pairs.counts() * max(1.0, scale)
        prompts = len(self.contest.rows if self.is_pilot else self.pairs.chosen)
        return forecast(counts, deviation, self.anchor, prompts=prompts, one_look=options.one_look)
