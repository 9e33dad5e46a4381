"""Fixed answers to some prompts: the share of comparisons that responses win against them is
comparable over the steps of a training.
"""

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from msgspec import Struct, field
from msgspec.structs import replace

from genrm_cli.errors import InputError
from genrm_cli.groups.comparisons import verdicts_of
from genrm_cli.groups.group import Group, JudgedGroup
from genrm_cli.groups.plan import GroupPlan, RewardPlan
from genrm_cli.groups.results import GroupRewards
from genrm_cli.groups.reward_group import reward_verdicts
from genrm_cli.metrics.running_stats import (
    Mergeable,
    RunningStats,
    clustered_interval,
    wilson_interval,
)
from genrm_cli.pairing.pairs import AGAINST_FIRST, PairingPlan
from genrm_cli.products.serve.served_scorer import ServedScorer
from genrm_cli.rewards.shaping import Adjustments
from genrm_cli.rollouts.group_keys import digest_of_prompt
from genrm_cli.rollouts.rollout import Item, Rollout, UnreadableRecordError
from genrm_cli.scored.parse_lines import parse_line
from genrm_cli.settings import Settings
from genrm_cli.storage.encoding.records import BadLineError
from genrm_cli.storage.source import open_source
from genrm_cli.storage.store import Store
from genrm_cli.verdicts import Outcome, preferred


class WinRate(Struct, frozen=True):
    """How often responses beat fixed answers to their prompts.

    Attributes:
        win_percent: mean over groups of the share of comparisons won, ties half, 0 to 100; its 95 %
            interval is from `low_percent` to `high_percent`.
        comparisons: number of comparisons with a verdict.
        failed: number of comparisons without one, which count neither as won nor as lost.
    """

    win_percent: float
    low_percent: float
    high_percent: float
    comparisons: int
    failed: int


class WinCounts(Mergeable):
    """The share of comparisons won in each group, and what `WinRate` counts."""

    shares: RunningStats = field(default_factory=RunningStats)
    comparisons: int = 0
    failed: int = 0

    def add(self, wins: Sequence[float], failed: int) -> None:
        """Add a group: 1 for each comparison won, 0.5 for a tie, 0 for a loss, and the number of
        failed ones.
        """
        self.comparisons += len(wins)
        self.failed += failed
        if wins:
            self.shares.add(sum(wins) / len(wins))

    def rate(self) -> WinRate | None:
        """Return the win rate; None without a verdict. Comparisons of one group depend on each
        other, so groups are the clusters of the interval.
        """
        mean = self.shares.mean
        if mean is None:
            return None
        groups = self.shares.count
        if groups == 1:
            low, high = wilson_interval(mean, self.comparisons)
        else:
            error = (self.shares.squares / groups / (groups - 1)) ** 0.5
            low, high = clustered_interval(mean, error, groups, self.comparisons)
        return WinRate(100 * mean, 100 * low, 100 * high, self.comparisons, self.failed)


class ReferenceComparisons(Struct, frozen=True):
    """The comparisons of a group with the answer to its prompt. A blank response loses without
    one.
    """

    wins: WinCounts
    outcomes: Sequence[Outcome]


class ReferenceAnswers:
    """The answers of a file, one for each of its prompts. No reward, and no calibration, depends on
    them.
    """

    def __init__(self, settings: Settings, scorer: ServedScorer) -> None:
        """Read the file, if the settings name one; raise `InputError` for a line without one prompt
        and one answer.
        """
        self._scorer = scorer
        # With nothing but these comparisons: no component, and no verdict made up for a failure.
        self._plan = replace(
            scorer.plan,
            pairing=PairingPlan(AGAINST_FIRST, seed=scorer.plan.pairing.seed),
            graders=(),
            rewards=RewardPlan(),
            default=None,
        )
        self._answers: dict[int, tuple[Item, ...]] = {}
        uri = settings.serve.reference
        if uri is None:
            return
        with open_source(uri, Store(settings.storage), settings.input) as source:
            for line in source.iter_lines():
                try:
                    self._add(parse_line(line, settings.input)[2])
                except (BadLineError, UnreadableRecordError) as error:
                    where = f"{uri}: {source.unit} {line.number}: "
                    raise InputError(where, error.message, ".") from error

    def _add(self, rollouts: Sequence[Rollout]) -> None:
        if len(rollouts) != 1:
            raise UnreadableRecordError(f"{len(rollouts)} answers, expected one")
        (rollout,) = rollouts
        why = self._plan.why_not_compared(rollout)
        if why is not None:
            raise UnreadableRecordError(f"no answer to compare with: {why.text}")
        prompt = digest_of_prompt(rollout.prompt)
        if prompt in self._answers:
            raise UnreadableRecordError("a second answer to the same prompt; keep one")
        self._answers[prompt] = rollout.response or ()

    def count_requests(self, group: Group) -> int:
        """Return the maximum number of requests that `compare` makes about a group."""
        has_answer = digest_of_prompt(group.rollouts[0].prompt) in self._answers
        return self._plan.count_requests(len(group.rollouts) + 1) if has_answer else 0

    async def compare(self, group: Group, timeout_s: float | None) -> ReferenceComparisons | None:
        """Compare each response of a group once with the answer to its prompt; None if there is
        none.

        Equal responses share a comparison, and count each. The answer is shown first for one half
        of the responses, second for the others. A panel gives its joint verdict. Comparisons
        without one after `timeout_s` have failed."""
        judged = await self._judge(group, self._plan, timeout_s)
        if judged is None:
            return None
        won = _won(judged, self._plan)
        indices = range(1, judged.size)
        failed = sum(won[index] is None for index in indices)
        wins = [share for index in indices if (share := won[index]) is not None]
        counts = WinCounts()
        counts.add(wins, failed)
        return ReferenceComparisons(counts, [outcome for _, outcome in judged.results])

    async def evaluate(self, group: Group, timeout_s: float | None) -> GroupRewards | None:
        """Return as rewards which share of its comparisons with the answer, in both orders, each
        response wins, 0 to 1; None if there is no answer.
        """
        plan = replace(self._plan, pairing=replace(self._plan.pairing, both_orders=True))
        judged = await self._judge(group, plan, timeout_s)
        if judged is None:
            return None
        won = _won(judged, plan)
        calibration = self._scorer.running.fitted
        (rewards,) = reward_verdicts([verdicts_of(judged, plan)], plan, calibration)
        scores = [
            replace(
                score,
                index=index,
                group_size=judged.size - 1,
                reliability=None,
                adjustments=Adjustments(),
                reward=won[index + 1],
                status="unscored" if won[index + 1] is None else "scored",
                reason=score.reason if won[index + 1] is None else None,
                reason_text=score.reason_text if won[index + 1] is None else None,
                base_score=None,
                rank=None,
                advantage=None,
                components=None,
                component_notes=None,
                component_failures=None,
                equal_to=None,
            )
            for index, score in enumerate(rewards.scores[1:])
        ]
        return replace(rewards, scores=scores, columns={}, reliability=None, chance=None)

    async def _judge(
        self, group: Group, plan: GroupPlan, timeout_s: float | None
    ) -> JudgedGroup | None:
        first = group.rollouts[0]
        answer = self._answers.get(digest_of_prompt(first.prompt))
        if answer is None:
            return None
        rollouts = [replace(first, response=answer, excluded=None), *group.rollouts]
        arriving = self._scorer.arriving(group.key or "", len(rollouts), plan)
        return await arriving.judge(Group(group.key, rollouts), timeout_s)


def _won(judged: JudgedGroup, plan: GroupPlan) -> dict[int, float | None]:
    """Return by index which share of its comparisons with the answer, which is the first, each
    response wins, ties half; None without a verdict. A blank one loses without any.
    """
    won = defaultdict[int, list[float]](list)
    won[0] = [0.5]  # those that are equal to it tie
    for (i, j, _), verdict in verdicts_of(judged, plan).used.items():
        preference = preferred(verdict)  # for the response shown first, -1 to 1
        if j == 0:
            won[i].append((1 + preference) / 2)
        elif i == 0:
            won[j].append((1 - preference) / 2)
    shares: dict[int, float | None] = dict.fromkeys(range(judged.size))
    shares |= {index: fmean(each) for index, each in won.items()}
    shares |= {copy: shares[index] for copy, index in judged.copies.items()}
    return shares | dict.fromkeys(judged.blank, 0.0)
