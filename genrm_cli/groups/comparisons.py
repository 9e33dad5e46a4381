"""The comparisons of one group: what its judges are asked, and the verdicts that count."""

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from genrm_cli.errors import UsageError
from genrm_cli.groups.find_profile import profile_of
from genrm_cli.groups.graders import count_gradings
from genrm_cli.judging.profiles.profile import GradingProfile, Profile, count_turns
from genrm_cli.judging.profiles.scales import verdict_of_grades
from genrm_cli.judging.requests import ListwisePrompt, Outcome, PairwisePrompt, Prompt
from genrm_cli.pairing import RING_STRATEGIES, Comparison, count_comparisons, plan_comparisons, ring_k_for_budget
from genrm_cli.rollouts.views import SharedView
from genrm_cli.settings import Settings
from genrm_cli.settings.components import needs_verdicts
from genrm_cli.settings.panel import JudgeConfig, judges_of
from genrm_cli.verdicts import MIDDLE_RANKING, Failure, FailureKind, Grades, Verdict, preference

Verdicts = Mapping[Comparison, Verdict]


class Asked(NamedTuple):
    """A question about a group.

    Attributes:
        places: the rollouts shown, in the order shown: two of a pair, one alone, or all that have a response.
        judge_idx: numbers the repeat from 0.
        seat: numbers the judge from 0.
    """

    places: tuple[int, ...]
    judge_idx: int
    seat: int


def grading_of(seat: JudgeConfig) -> GradingProfile | None:
    """Return how a judge grades; None for one that compares pairs."""
    if seat.settings.judge is not None:
        return None
    profile = profile_of(seat.settings)
    return profile if isinstance(profile, GradingProfile) else None


class Effort(NamedTuple):
    """What one judge is asked about a group.

    Attributes:
        questions: how many.
        responses: that each of them shows.
        turns: calls that each takes.
    """

    questions: int
    responses: int
    turns: int


def plan_efforts(n: int, settings: Settings) -> list[Effort]:
    """Return what each judge is asked about n rollouts with a response.

    Nothing when n < 2, or when no reward is made of verdicts.
    """
    if n < 2 or not needs_verdicts(settings.components, settings.total):
        return []
    return [_effort_of(seat, n, settings) for seat in judges_of(settings)]


def _effort_of(seat: JudgeConfig, n: int, settings: Settings) -> Effort:
    grading = grading_of(seat)
    if grading is None:
        return Effort(count_pairs(n, settings), 2, _turns_of(seat))
    return Effort(settings.judges, n, 1) if grading.whole_group else Effort(n * settings.judges, 1, 1)


def compares_pairs(settings: Settings) -> bool:
    """Whether any judge is shown two responses, one first and one second."""
    return any(grading_of(seat) is None for seat in judges_of(settings))


def count_pairs(n: int, settings: Settings) -> int:
    """Count the comparisons of n rollouts for one judge."""
    return count_comparisons(n, settings.strategy, settings.judges, swap=settings.swap, ring_k=settings.ring_k)


def within_budget(sizes: Mapping[int, int], settings: Settings) -> Settings:
    """Return the settings with the largest ring whose calls stay within the budget, if there is one.

    Args:
        sizes: number of groups for each number of rollouts with a response.
        settings: as they were given.

    Raises:
        UsageError: not one comparison is within the budget.
    """
    if settings.budget is None:
        return settings
    strategy = settings.strategy if settings.strategy in RING_STRATEGIES else "ring"
    none = replace(settings, budget=None, strategy=strategy, ring_k=0.0)
    fixed = sum(
        groups * (sum(effort.questions for effort in plan_efforts(n, none)) + count_gradings(n, none))
        for n, groups in sizes.items()
    )
    if fixed > settings.budget:
        raise UsageError(f"--budget {settings.budget} is too small: what is graded takes {fixed} calls by itself.")
    pairs_only = [seat for seat in judges_of(settings) if grading_of(seat) is None]
    a_comparison = sum(_turns_of(seat) for seat in pairs_only)
    calls = max(0, settings.budget - fixed) // max(1, a_comparison)
    ring_k = ring_k_for_budget(sizes, calls, strategy, judges=settings.judges, swap=settings.swap)
    planned = replace(none, ring_k=ring_k)
    if pairs_only and not any(count_pairs(n, planned) for n in sizes) and any(n > 1 for n in sizes):
        raise UsageError(f"--budget {settings.budget} is too small: not one comparison a group is within it.")
    return planned


def _turns_of(seat: JudgeConfig) -> int:
    return 1 if seat.settings.judge is not None else count_turns(profile_of(seat.settings))


@dataclass(slots=True)
class PairCase:
    """The planned comparisons of a group, and what became of the questions about them.

    A judge that grades responses instead of comparing them is asked less: its verdict on a pair is made of the two
    grades.

    Attributes:
        key: the group key; decides the order in which a whole group is shown.
        answered: the places of the rollouts that have a response.
        settings: strategy, repeats and judges.
        outcomes: what became of each question, in the order of asking once `sort` was called.
        neutralised: in how many places a judge was shown texts otherwise than they are; kept with `keep_replies`.
    """

    key: str
    answered: Sequence[int]
    settings: Settings
    outcomes: list[tuple[Asked, Outcome]] = field(default_factory=list)
    planned: int = field(init=False)
    neutralised: dict[Asked, Mapping[str, int]] = field(init=False, default_factory=dict)
    _by_judge: dict[Comparison, list[Verdict | None]] | None = field(init=False, default=None)
    _used: Verdicts | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.planned = sum(effort.questions for effort in plan_efforts(len(self.answered), self.settings))

    def comparisons(self) -> list[Comparison]:
        """Return the planned comparisons, those that share a first response one after the other.

        A server with prefix caching then reads it once.
        """
        if not self.planned:
            return []
        planned = plan_comparisons(
            len(self.answered),
            # Grades are paid for already, and make a verdict on every pair.
            self.settings.strategy if compares_pairs(self.settings) else "all_pairs",
            judges=self.settings.judges,
            order_balanced=self.settings.order_balanced,
            swap=self.settings.swap,
            ring_k=self.settings.ring_k,
            key=self.key,
            seed=self.settings.seed,
        )
        ordered = sorted(planned, key=lambda comparison: comparison.i)
        return [Comparison(self.answered[i], self.answered[j], judge_idx) for i, j, judge_idx in ordered]

    def iter_questions(self, view: SharedView, principle: str | None) -> Iterator[tuple[Asked, Prompt]]:
        """Yield what is to be asked, and what is to be shown.

        Args:
            view: the conversation and the responses of the rollouts that have one, in their order.
            principle: what to judge by.
        """
        if not self.planned:
            return
        response_of = dict(zip(self.answered, view.responses, strict=True))
        seats = [grading_of(seat) for seat in judges_of(self.settings)]
        for i, j, judge_idx in self.comparisons() if None in seats else ():
            exhibit = PairwisePrompt(view.conversation, response_of[i], response_of[j], principle)
            for seat, grading in enumerate(seats):
                if grading is None:
                    asked = Asked((i, j), judge_idx, seat)
                    self._note_neutralised(asked, exhibit)
                    yield asked, exhibit
        for seat, grading in enumerate(seats):
            for asked in () if grading is None else self._lineups(seat, grading):
                responses = tuple(response_of[place] for place in asked.places)
                yield asked, ListwisePrompt(view.conversation, responses, principle)

    def _note_neutralised(self, asked: Asked, exhibit: PairwisePrompt) -> None:
        settings = judges_of(self.settings)[asked.seat].settings
        if not settings.keep_replies or settings.judge is not None:
            return
        profile = profile_of(settings)
        if isinstance(profile, Profile) and (changed := profile.count_neutralised(exhibit)):
            self.neutralised[asked] = changed

    def _lineups(self, seat: int, grading: GradingProfile) -> Iterator[Asked]:
        for judge_idx in range(self.settings.judges):
            if grading.whole_group:
                # A place in the row is worth something: each repeat shows another row, the same in every run.
                order = list(self.answered)
                random.Random(f"{self.key} {judge_idx}").shuffle(order)
                yield Asked(tuple(order), judge_idx, seat)
            else:
                yield from (Asked((place,), judge_idx, seat) for place in self.answered)

    def add_outcome(self, asked: Asked, outcome: Outcome) -> bool:
        """Take in what became of one question; say whether it was the last one."""
        self.outcomes.append((asked, outcome))
        return len(self.outcomes) == self.planned

    def sort(self) -> None:
        """Bring the outcomes into an order that does not depend on who answered first."""
        self.outcomes.sort(key=lambda entry: (entry[0].seat, entry[0].judge_idx, entry[0].places))
        self._by_judge = self._used = None

    def verdicts_by_judge(self) -> dict[Comparison, list[Verdict | None]]:
        """Return what each judge says of each comparison, by repeat, first and second response; None for a failure."""
        if self._by_judge is None:
            self._by_judge = self._collect_verdicts()
        return self._by_judge

    def _collect_verdicts(self) -> dict[Comparison, list[Verdict | None]]:
        by_pair: dict[tuple[Comparison, int], Verdict | None] = {}
        grades: dict[tuple[int, int, int], float] = {}
        for (places, judge_idx, seat), outcome in self.outcomes:
            if isinstance(outcome.result, Grades):
                grades |= {
                    (place, judge_idx, seat): value for place, value in zip(places, outcome.result.values, strict=True)
                }
            elif len(places) == 2:
                by_pair[Comparison(*places, judge_idx), seat] = self.verdict_of(outcome)
        seats = [grading_of(seat) for seat in judges_of(self.settings)]

        def verdict_of(comparison: Comparison, seat: int) -> Verdict | None:
            if seats[seat] is None:
                return by_pair.get((comparison, seat))
            first, second = (grades.get((place, comparison.judge_idx, seat)) for place in comparison[:2])
            return None if first is None or second is None else verdict_of_grades(first, second)

        ordered = sorted(self.comparisons(), key=lambda comparison: (comparison.judge_idx, comparison.i, comparison.j))
        return {comparison: [verdict_of(comparison, seat) for seat in range(len(seats))] for comparison in ordered}

    def verdict_of(self, outcome: Outcome) -> Verdict | None:
        """Return the verdict on a pair, or what the user asked to put in its place; None for a failure."""
        if isinstance(outcome.result, Verdict):
            return outcome.result
        if self.settings.compat is None:
            return None
        default = self.settings.default_score
        return Verdict(default, default, MIDDLE_RANKING, defaulted=True)

    def verdicts_used(self) -> Verdicts:
        """Return the verdicts that the rewards rest on: repeat by repeat, by first and then by second response.

        A panel's is the weighted mean of its judges'. With `swap` a verdict without the one on the other order is left
        out: half a pair would bring the preference for a place into the rewards that asking both orders is there to
        keep out.
        """
        if self._used is None:
            join = _joiner_of(self.settings)
            joined = {comparison: join(verdicts) for comparison, verdicts in self.verdicts_by_judge().items()}
            self._used = {
                comparison: verdict
                for comparison, verdict in joined.items()
                if verdict is not None and (not self.settings.swap or joined.get(_turned(comparison)) is not None)
            }
        return self._used

    def failures_of(self, place: int) -> set[FailureKind]:
        """Return the kinds of the failures that took verdicts on a rollout away.

        Those of questions that showed it, and of grades of what it is compared with.
        """
        mates = {place}.union(*(comparison[:2] for comparison in self.verdicts_by_judge() if place in comparison[:2]))
        return {
            outcome.result.kind
            for asked, outcome in self.outcomes
            if isinstance(outcome.result, Failure)
            and (place in asked.places or (len(asked.places) == 1 and asked.places[0] in mates))
        }

    def is_compared(self, place: int) -> bool:
        """Whether any comparison of a rollout was planned."""
        return any(place in comparison[:2] for comparison in self.verdicts_by_judge())

    def has_quorum(self, place: int) -> bool:
        """Whether enough judges gave a verdict on one of a rollout's comparisons, whether or not it counts."""
        quorum = _quorum_of(self.settings)
        return any(
            place in comparison[:2] and sum(verdict is not None for verdict in verdicts) >= quorum
            for comparison, verdicts in self.verdicts_by_judge().items()
        )


def _turned(comparison: Comparison) -> Comparison:
    return Comparison(comparison.j, comparison.i, comparison.judge_idx)


def _quorum_of(settings: Settings) -> int:
    return settings.quorum or len(judges_of(settings))


def _joiner_of(settings: Settings) -> Callable[[Sequence[Verdict | None]], Verdict | None]:
    """Return what makes one verdict of those of all judges, None where too few agree to give one."""
    seats = judges_of(settings)
    quorum = _quorum_of(settings)

    def join(verdicts: Sequence[Verdict | None]) -> Verdict | None:
        given = [(seat.weight, verdict) for seat, verdict in zip(seats, verdicts, strict=True) if verdict is not None]
        if len(given) < quorum:
            return None
        leads = [preference(verdict) for _, verdict in given]
        if settings.disagreement == "missing" and min(leads) < 0 < max(leads):
            return None
        return given[0][1] if len(given) == 1 else _weighted_mean(given)

    return join


def _weighted_mean(given: Sequence[tuple[float, Verdict]]) -> Verdict:
    total = math.fsum(weight for weight, _ in given)

    def mean(numbers: Iterator[float]) -> float:
        return math.fsum(numbers) / total

    return Verdict(
        mean(weight * verdict.score_1 for weight, verdict in given),
        mean(weight * verdict.score_2 for weight, verdict in given),
        mean(weight * verdict.ranking for weight, verdict in given),
        defaulted=any(verdict.defaulted for _, verdict in given),
    )
