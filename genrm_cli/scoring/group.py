"""One group on its way from comparisons to rewards."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from genrm_cli.judging.verdict import (
    MIDDLE_RANKING,
    Exhibit,
    Failure,
    FailureKind,
    Outcome,
    Verdict,
    verdict_after_swap,
)
from genrm_cli.pairing import Comparison, count_comparisons, plan_comparisons
from genrm_cli.rewards.compose import RolloutReward, compose_rewards
from genrm_cli.rewards.estimators import JudgedPair, estimate_simple_tiebreaker
from genrm_cli.rewards.shaping import Adjustments, ShapingTerms
from genrm_cli.rollouts.grouping import UNGROUPED
from genrm_cli.rollouts.record import Rollout, SharedView, Turn, view_group
from genrm_cli.rollouts.redaction import redactor_of
from genrm_cli.scoring.judges import profile_of
from genrm_cli.settings import Settings
from genrm_cli.summary import Tally

EXCERPT_CHARS = 120
MAX_SAMPLES = 8

NO_RESPONSE = "the line has no response"
NO_OPPONENT = "no other rollout of the group has a response"
MIXED_PROMPTS = "the prompts of the group differ, so its rollouts cannot be compared"
NO_GROUP = "it lacks the field that --group-by names"
NOT_ASKED = "none of its comparisons was asked"
NO_VERDICT = "every comparison of the rollout failed"
NO_BOTH_ORDERS = "none of its pairs has verdicts in both orders"


@dataclass(slots=True)
class GroupCase:
    """A group of rollouts, its planned comparisons and what became of them.

    Attributes:
        number: the group's place in the order of first appearance.
        rows: the rollouts' rows in the input, in the group's order.
        key: the group key.
        rollouts: in the same order as rows.
        mixed_prompts: True when the prompts differ: nothing is compared.
        planned: how many comparisons the group has.
        redactions: what was masked in the texts that the judge is shown, by name; each text counts once.
    """

    number: int
    rows: list[int]
    key: str
    rollouts: list[Rollout]
    mixed_prompts: bool
    settings: Settings
    outcomes: list[tuple[Comparison, Outcome]] = field(default_factory=list)
    planned: int = field(init=False)
    redactions: Counter[str] = field(init=False, default_factory=Counter)
    _answered: list[int] = field(init=False, default_factory=list)
    _neutralised: dict[Comparison, Mapping[str, int]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        if not self.mixed_prompts:
            self._answered = [place for place, rollout in enumerate(self.rollouts) if rollout.answer is not None]
        self.planned = count_comparisons(
            len(self._answered), self.settings.strategy, self.settings.judges, swap=self.settings.swap
        )

    def iter_comparisons(self) -> Iterator[tuple[Comparison, Exhibit]]:
        """Yield the planned comparisons with what the judge is to be shown of each.

        Those that share a first response follow each other: a server with prefix caching reads it once.
        """
        if not self.planned:
            return
        answered = self._answered
        view, principle = self._view_for_judge()
        planned = plan_comparisons(
            len(answered),
            self.settings.strategy,
            judges=self.settings.judges,
            order_balanced=self.settings.order_balanced,
            swap=self.settings.swap,
        )
        for i, j, judge_idx in sorted(planned, key=lambda comparison: comparison.i):
            exhibit = Exhibit(view.conversation, view.responses[i], view.responses[j], principle)
            comparison = Comparison(answered[i], answered[j], judge_idx)
            if self.settings.keep_replies and (changed := _count_neutralised(exhibit, self.settings)):
                self._neutralised[comparison] = changed
            yield comparison, exhibit

    def _view_for_judge(self) -> tuple[SharedView, str | None]:
        """Return what leaves this machine, masked if the settings ask for it; lengths are measured elsewhere."""
        view = view_group([self.rollouts[place] for place in self._answered])
        principle = self.rollouts[0].principle or self.settings.principle
        if not self.settings.redact_pattern:
            return view, principle
        redactor = redactor_of(self.settings.redact_pattern)
        self.redactions = counts = Counter[str]()  # afresh: a group may be planned twice, to look into the journal
        conversation = tuple(Turn(turn.role, redactor.redact(turn.text, counts)) for turn in view.conversation)
        responses = [redactor.redact(response, counts) for response in view.responses]
        return SharedView(conversation, responses), principle and redactor.redact(principle, counts)

    def add_outcome(self, comparison: Comparison, outcome: Outcome) -> bool:
        """Take in what became of one comparison; say whether it was the last one."""
        self.outcomes.append((comparison, outcome))
        return len(self.outcomes) == self.planned

    def conclude(self, tally: Tally) -> list[dict[str, Any]]:
        """Turn the verdicts into one `{reward, detail}` a rollout, in the group's order, and count them."""
        self.outcomes.sort(key=lambda entry: (entry[0].judge_idx, entry[0].i, entry[0].j))
        pairs = [
            JudgedPair(comparison.i, comparison.j, verdict.score_1, verdict.score_2, verdict.ranking)
            for comparison, verdict in self.verdicts_used()
        ]
        used = dict(self.verdicts_used())
        for verdict in used.values():
            tally.add_scores(verdict)
        tally.swapped.add(_pairs_of_orders(used))
        tally.repeated.add(_pairs_of_repeats(used))
        tally.redactions.update(self.redactions)
        rewards = self._rewards(pairs)
        counts = self._comparisons_by_rollout()
        scores = [self._score_of(place, reward, *counts[place]) for place, reward in enumerate(rewards)]
        self._count(scores, tally)
        return scores

    def comparison_records(self, keep_replies: bool) -> Iterator[dict[str, Any]]:
        """Yield the group's comparisons as they stand in the comparisons file."""
        for comparison, outcome in self.outcomes:
            verdict = self._verdict_used(outcome)
            record = {
                "group": self.key,
                "i": comparison.i,
                "j": comparison.j,
                "judge_idx": comparison.judge_idx,
                **outcome_record(outcome, verdict),
                "judge": self.settings.judge or self.settings.model,
            }
            if changed := self._neutralised.get(comparison):
                record["neutralised"] = changed
            yield record | {"reply": outcome.reply_text} if keep_replies else record

    def samples(self, scores: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the group for a person to look at, best rollout first, with the beginnings of the answers.

        They are masked as for the judge: they may end in a log.
        """
        shown = [rollout.answer or "" for rollout in self.rollouts]
        if self.settings.redact_pattern:
            redactor = redactor_of(self.settings.redact_pattern)
            shown = [redactor.redact(answer, Counter()) for answer in shown]
        rows = [
            {
                "group": self.key,
                "reward": score["reward"],
                "answer": " ".join(answer[:EXCERPT_CHARS].split()),
                **{name: score["detail"][name] for name in ("rank", "advantage", "reason")},
            }
            for score, answer in zip(scores, shown, strict=True)
        ]
        rows.sort(key=lambda row: (row["rank"] is None, row["rank"]))
        return rows[:MAX_SAMPLES]

    def _verdict_used(self, outcome: Outcome) -> Verdict | None:
        """Return the verdict, or what the user asked to put in its place; None for a failure."""
        if isinstance(outcome.result, Verdict):
            return outcome.result
        if self.settings.compat is None:
            return None
        default = self.settings.default_score
        return Verdict(default, default, MIDDLE_RANKING, defaulted=True)

    def verdicts_used(self) -> Iterator[tuple[Comparison, Verdict]]:
        """Yield the verdicts that the rewards rest on: repeat by repeat, by first and then by second response.

        With `swap` a verdict without the one on the other order is left out: half a pair would bring the preference
        for a place into the rewards that asking both orders is there to keep out.
        """
        verdicts = {comparison: self._verdict_used(outcome) for comparison, outcome in self.outcomes}
        for comparison, verdict in verdicts.items():
            other = verdicts.get(Comparison(comparison.j, comparison.i, comparison.judge_idx))
            if verdict is not None and (other is not None or not self.settings.swap):
                yield comparison, verdict

    def _rewards(self, pairs: Sequence[JudgedPair]) -> list[RolloutReward]:
        if len(self.rollouts) == 1 and self.rollouts[0].answer is not None and not self._lacks_group():
            default = self.settings.default_score
            return [RolloutReward(default, Adjustments(), default, 1, 0.0)]
        return compose_rewards(
            estimate_simple_tiebreaker(len(self.rollouts), pairs),
            [rollout.reasoning for rollout in self.rollouts],
            [rollout.answer or "" for rollout in self.rollouts],
            shaping_terms(self.settings),
        )

    def _lacks_group(self) -> bool:
        return self.key.startswith(UNGROUPED)

    def _comparisons_by_rollout(self) -> list[list[int]]:
        """Count for each rollout its verdicts, its failures, and those of both that rest on a default."""
        counts = [[0, 0, 0] for _ in self.rollouts]
        used = dict(self.verdicts_used())
        for comparison, outcome in self.outcomes:
            verdict, failed = used.get(comparison), isinstance(outcome.result, Failure)
            for place in (comparison.i, comparison.j):
                counts[place][0] += verdict is not None and not failed
                counts[place][1] += failed
                counts[place][2] += verdict is not None and verdict.defaulted
        return counts

    def _score_of(self, place: int, reward: RolloutReward, made: int, failed: int, defaulted: int) -> dict[str, Any]:
        reason = None if reward.reward is not None else self._reason(place)
        status = "unscored" if reason else "single" if len(self.rollouts) == 1 else "scored"
        return {
            "reward": reward.reward,
            "detail": {
                "status": status,
                "reason": reason,
                "base_score": reward.base_score,
                "adjustments": reward.adjustments.as_dict(),
                "rank": reward.rank,
                "advantage": reward.advantage,
                "group": self.key,
                "group_size": len(self.rollouts),
                "place": place,
                "comparisons": made,
                "failed": failed,
                "defaulted": defaulted,
                "judge": self.settings.judge or self.settings.model,
                "stand_in": self.settings.judge is not None,
            },
        }

    def _reason(self, place: int) -> str:
        if self.rollouts[place].answer is None:
            return NO_RESPONSE
        if self.mixed_prompts:
            return MIXED_PROMPTS
        if self._lacks_group():
            return NO_GROUP
        kinds = {
            outcome.result.kind
            for comparison, outcome in self.outcomes
            if place in (comparison.i, comparison.j) and isinstance(outcome.result, Failure)
        }
        if not kinds:
            return NO_OPPONENT
        if kinds == {FailureKind.NOT_ASKED}:
            return NOT_ASKED
        return NO_BOTH_ORDERS if self.settings.swap else NO_VERDICT

    def _count(self, scores: Sequence[dict[str, Any]], tally: Tally) -> None:
        tally.groups_done += 1
        rewards = [score["reward"] for score in scores if score["reward"] is not None]
        tally.groups_single += len(scores) == 1
        tally.groups_without_spread += len(rewards) > 1 and not any(score["detail"]["advantage"] for score in scores)
        for reward in rewards:
            tally.rewards.add(reward)
        for score in scores:
            detail = score["detail"]
            tally.statuses[detail["status"]] += 1
            tally.rewards_on_defaults += detail["defaulted"] > 0
            if detail["reason"]:
                tally.reasons[detail["reason"]] += 1
                tally.unscored_in_groups += len(scores) > 1 or self._lacks_group()


def _count_neutralised(exhibit: Exhibit, settings: Settings) -> Mapping[str, int]:
    """Count what the messages show otherwise than it is; the embedded judge reads the texts themselves."""
    return profile_of(settings).count_neutralised(exhibit) if settings.judge is None else {}


def outcome_record(outcome: Outcome, verdict: Verdict | None) -> dict[str, Any]:
    """Return what became of one question as it stands in files; the verdict is the one that counts for it."""
    failure = outcome.result if isinstance(outcome.result, Failure) else None
    return {
        "score_1": verdict and verdict.score_1,
        "score_2": verdict and verdict.score_2,
        "ranking": verdict and verdict.ranking,
        "failure": failure and {"kind": failure.kind, "detail": failure.detail},
        "attempts": outcome.attempts,
        "latency_s": round(outcome.latency_s, 4),
        "prompt_tokens": outcome.prompt_tokens,
        "completion_tokens": outcome.completion_tokens,
    }


def _pairs_of_orders(verdicts: dict[Comparison, Verdict]) -> Iterator[tuple[Verdict, Verdict]]:
    """Yield each pair of verdicts on the two orders of one pair, both as opinions on the same order."""
    for (i, j, judge_idx), verdict in verdicts.items():
        other = verdicts.get(Comparison(j, i, judge_idx))
        if i < j and other is not None:
            yield verdict, verdict_after_swap(other)


def _pairs_of_repeats(verdicts: dict[Comparison, Verdict]) -> Iterator[tuple[Verdict, Verdict]]:
    """Yield each pair of verdicts on one comparison that was asked again."""
    for (i, j, judge_idx), verdict in verdicts.items():
        for earlier in range(judge_idx):
            if (other := verdicts.get(Comparison(i, j, earlier))) is not None:
                yield other, verdict


def shaping_terms(settings: Settings) -> ShapingTerms:
    """Return the length and style terms that the settings ask for."""
    return ShapingTerms(
        reasoning_bonus=settings.reasoning_bonus,
        answer_bonus=settings.answer_bonus,
        top_percentile=settings.top_percentile,
        group_reasoning_length_penalty_coeff=settings.group_reasoning_length_penalty_coeff,
        group_answer_length_penalty_coeff=settings.group_answer_length_penalty_coeff,
        group_style_penalty_coeff=settings.group_style_penalty_coeff,
    )
