"""What is known of a group → the reward of each of its rollouts, how it came about, and why there is none."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from genrm_cli.groups.comparisons import Verdicts, compares_pairs, grading_of
from genrm_cli.groups.components import (
    GENRM,
    WIN_RATE,
    Clusters,
    Column,
    asks_for_verdicts,
    clusters_of,
    component_names,
    count_components,
    divided_by,
    graded_columns,
    has_components,
    made_of_verdicts,
    rank_columns,
    sources_of,
    terms_of,
)
from genrm_cli.groups.group_case import GroupCase
from genrm_cli.metrics.agreement import PanelMetrics
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.pairing import Comparison
from genrm_cli.rewards.components.win_rate import win_rates
from genrm_cli.rewards.compose import RolloutReward, compose_rewards, with_totals
from genrm_cli.rewards.estimators import Calibration, Estimate, estimate, estimate_simple_tiebreaker
from genrm_cli.rewards.shaping import Adjustments, ShapingTerms
from genrm_cli.rewards.total import Total, compose_total
from genrm_cli.rollouts.redaction import redactor_of
from genrm_cli.settings import Settings
from genrm_cli.settings.panel import judges_of
from genrm_cli.verdicts import Failure, FailureKind, Verdict, verdict_after_swap

EXCERPT_CHARS = 120
MAX_SAMPLES = 8
NOISY = 0.5
"""Below this reliability the spread of a group's rewards is more noise than signal."""

NO_RESPONSE = "the line has no response"
NO_OPPONENT = "no other rollout of the group has a response"
MIXED_PROMPTS = "the prompts of the group differ, so its rollouts cannot be compared"
NO_GROUP = "it lacks the field that --group-by names"
NOT_ASKED = "none of its comparisons was asked"
NO_VERDICT = "every comparison of the rollout failed"
NO_BOTH_ORDERS = "none of its pairs has verdicts in both orders"
NO_COMPONENT = "every component of the total is optional, and missing somewhere in its group"
TOO_NOISY = "the verdicts of its group say less than --min-reliability asks for"
NO_QUORUM = "none of its comparisons has verdicts from enough judges of the panel"
DISAGREEMENT = "the judges of the panel contradict each other on all of its comparisons"


class GroupResult:
    """The rewards of one group.

    Attributes:
        columns: all components, by name; none where the reward is made of verdicts alone.
        clusters: who shares a reward; None without `[diversity]`.
        scores: one `{reward, detail}` a rollout, in the group's order.
    """

    def __init__(self, case: GroupCase, fit: Calibration) -> None:
        """Turn everything known into rewards.

        Args:
            case: a group of which all outcomes are known.
            fit: what the whole input says of the judge.
        """
        self._case, self._settings, self._rollouts = case, case.settings, case.rollouts
        case.sort()
        self._used = case.pairs.verdicts_used()
        self._estimate = _estimate(len(self._rollouts), self._used, fit, self._settings)
        self.columns: dict[str, Column] = {}
        self.clusters: Clusters | None = self._clusters()
        rewards = self._rewards()
        self._composed = self._totals(rewards) if has_components(self._settings) else None
        if self._composed is not None:
            rewards = with_totals(rewards, [total.value for total in self._composed])
        totals: Sequence[Total | None] = self._composed or [None] * len(rewards)
        self.scores = [self._score_of(place, reward, totals[place]) for place, reward in enumerate(rewards)]

    def count(self, tally: RunMetrics) -> None:
        """Count the group: its verdicts, its judges, its components, its rewards."""
        in_order = compares_pairs(self._settings)
        for verdict in self._used.values():
            tally.add_scores(verdict, in_order=in_order)
        if in_order:  # of two grades the other order says the same
            tally.swapped.add(_pairs_of_orders(self._used))
        tally.repeated.add(_pairs_of_repeats(self._used))
        tally.redactions.update(self._case.redactions)
        if self._settings.panel:
            self._count_panel(tally)
        if self._composed is not None:
            count_components(tally, self.columns, self._composed, self._settings)
        if self.clusters is not None and self.clusters.failed:
            tally.component_failures["diversity"] += 1
        self._count_rewards(tally)

    def _count_rewards(self, tally: RunMetrics) -> None:
        scores = self.scores
        if self._estimate.reliability is not None:
            tally.reliabilities.add(self._estimate.reliability)
            tally.groups_noisy += self._estimate.reliability < NOISY
        elif len(self._used) > 0:
            tally.groups_unknown += 1
        tally.groups_not_converged += not self._estimate.converged
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
                tally.unscored_in_groups += len(scores) > 1 or self._case.lacks_group

    def samples(self) -> list[dict[str, Any]]:
        """Return the group for a person to look at, best rollout first, with the beginnings of the answers.

        They are masked as for the judge: they may end in a log.
        """
        shown = [rollout.answer or "" for rollout in self._rollouts]
        if self._settings.redact_pattern:
            redactor = redactor_of(self._settings.redact_pattern)
            shown = [redactor.redact(answer, Counter()) for answer in shown]
        rows = [
            {
                "group": self._case.key,
                "reward": score["reward"],
                "answer": " ".join(answer[:EXCERPT_CHARS].split()),
                **{name: score["detail"][name] for name in ("rank", "advantage", "reason")},
            }
            for score, answer in zip(self.scores, shown, strict=True)
        ]
        rows.sort(key=lambda row: (row["rank"] is None, row["rank"]))
        return rows[:MAX_SAMPLES]

    def _totals(self, rewards: Sequence[RolloutReward]) -> list[Total]:
        """Complete the components and put them together."""
        columns = dict(self._case.columns)
        if asks_for_verdicts(self._settings):
            columns = {GENRM: Column([reward.reward for reward in rewards])} | columns
        for component in self._settings.components:
            if component.kind == WIN_RATE:
                values = win_rates(len(self._rollouts), self._used)
                columns[component.name] = Column(values if self._case.is_comparable else [None] * len(values))
        for grading in self._case.gradings:
            columns |= graded_columns(grading, len(self._rollouts))
        for name in component_names(self._settings):
            columns.setdefault(name, Column([None] * len(self._rollouts)))
        rank_columns(columns, self._settings, comparable=self._case.is_comparable)
        self.columns = {name: columns[name] for name in component_names(self._settings)}
        sizes = None if self.clusters is None else self.clusters.sizes
        given, left_out = terms_of(self._settings), self._left_out()
        terms = replace(given, weights={name: each for name, each in given.weights.items() if name not in left_out})
        return [
            compose_total(
                {name: column.values[place] for name, column in self.columns.items()},
                terms,
                None if sizes is None else dict.fromkeys(divided_by(self._settings), sizes[place]),
            )
            for place in range(len(self._rollouts))
        ]

    def _left_out(self) -> set[str]:
        """Return the optional components that one of the rollouts with a response lacks: none of the group gets them.

        Those that have it would be ahead by what the others only lack.
        """
        optional = () if self._settings.total is None else self._settings.total.optional
        answered = [place for place, rollout in enumerate(self._rollouts) if rollout.answer is not None]
        return {name for name in optional if any(self.columns[name].values[place] is None for place in answered)}

    def _clusters(self) -> Clusters | None:
        """Return the clusters of `[diversity]`; None without it, or where rollouts cannot be compared."""
        if self._settings.diversity is None or not self._case.is_comparable:
            return None
        return clusters_of(self._settings.diversity, self._case.pairs.answered, self._rollouts, self._case.gradings)

    def _count_panel(self, tally: RunMetrics) -> None:
        seats = judges_of(self._settings)
        if tally.panel is None:
            comparing = [grading_of(seat) is None for seat in seats]
            tally.panel = PanelMetrics([seat.name for seat in seats], [seat.weight for seat in seats], comparing)
        by_judge = self._case.pairs.verdicts_by_judge()
        for comparison, verdicts in by_judge.items():
            tally.panel.add_comparison(verdicts, counts=comparison in self._used)
        n = len(self._rollouts)
        alone = [
            {comparison: verdict for comparison, given in by_judge.items() if (verdict := given[seat]) is not None}
            for seat in range(len(seats))
        ]
        tally.panel.add_group([estimate_simple_tiebreaker(n, verdicts) for verdicts in alone])

    def _rewards(self) -> list[RolloutReward]:
        if len(self._rollouts) == 1 and self._rollouts[0].answer is not None and not self._case.lacks_group:
            default = self._settings.default_score
            return [RolloutReward(default, Adjustments(), default, 1, 0.0)]
        return compose_rewards(
            [None if self._is_noisy() else score for score in self._estimate.base_scores],
            [rollout.reasoning for rollout in self._rollouts],
            [rollout.answer or "" for rollout in self._rollouts],
            shaping_terms(self._settings),
        )

    def _is_noisy(self) -> bool:
        """Whether too little of the spread of the group's base scores is signal."""
        least, reliability = self._settings.min_reliability, self._estimate.reliability
        return least is not None and reliability is not None and reliability < least

    def _score_of(self, place: int, reward: RolloutReward, total: Total | None) -> dict[str, Any]:
        own = [verdict for comparison, verdict in self._used.items() if place in comparison[:2]]
        defaulted = sum(verdict.defaulted for verdict in own)
        failed = sum(
            place in asked.places and isinstance(outcome.result, Failure)
            for asked, outcome in self._case.pairs.outcomes
        )
        reason = None if reward.reward is not None else self._reason(place, total)
        status = "unscored" if reason else "single" if len(self._rollouts) == 1 else "scored"
        return {
            "reward": reward.reward,
            "detail": {
                "status": status,
                "reason": reason,
                "base_score": reward.base_score,
                "standard_error": None if reward.base_score is None else self._estimate.standard_errors[place],
                "reliability": self._estimate.reliability,
                "adjustments": reward.adjustments.as_dict(),
                "rank": reward.rank,
                "advantage": reward.advantage,
                "group": self._case.key,
                "group_size": len(self._rollouts),
                "place": place,
                "comparisons": len(own) - defaulted,
                "failed": failed,
                "defaulted": defaulted,
                **self._judge_record(),
                **({} if total is None else self._made_of(place, total)),
            },
        }

    def _judge_record(self) -> dict[str, Any]:
        """Return who judged; nobody did where no reward is made of verdicts."""
        if not asks_for_verdicts(self._settings):
            return {"judge": None, "stand_in": False}
        name = " + ".join(seat.name for seat in judges_of(self._settings))
        return {"judge": name, "stand_in": self._settings.judge is not None}

    def _made_of(self, place: int, total: Total) -> dict[str, Any]:
        """Return what the reward of a rollout is made of, as it stands in the output."""
        notes = {name: note for name, column in self.columns.items() if (note := column.note(place))}
        made: dict[str, Any] = {
            "components": {name: column.values[place] for name, column in self.columns.items()},
            "component_notes": notes,
        }
        if failures := {name: column.failure for name, column in self.columns.items() if column.failure}:
            made["component_failures"] = failures
        if self._settings.total is not None:
            made["total"] = {
                "weights": {name: weight.weight for name, weight in terms_of(self._settings).weights.items()},
                "terms": dict(total.terms),
                "gates": {gate.component: gate.least for gate in terms_of(self._settings).gates},
                "gated_by": list(total.gated_by),
                "missing": list(total.missing),
            }
        if self.clusters is not None:
            made["diversity"] = {"cluster": self.clusters.numbers[place], "size": self.clusters.sizes[place]}
            made["diversity"]["failed"] = self.clusters.failed
        return made

    def _reason(self, place: int, total: Total | None = None) -> str:
        missing = () if total is None else total.missing
        if total is not None and not missing:
            return NO_COMPONENT
        if negative := [name for name in missing if self.columns[name].values[place] is not None]:
            return f"the component {negative[0]} is below 0: divided among near copies it would reward them"
        if missing and not any(self._is_for_want_of_verdicts(place, name) for name in missing):
            return f"the component {missing[0]} has no value" + self._why_missing(missing[0])
        if self._rollouts[place].answer is None:
            return NO_RESPONSE
        if self._case.mixed_prompts:
            return MIXED_PROMPTS
        if self._case.lacks_group:
            return NO_GROUP
        if self._is_noisy() and self._estimate.base_scores[place] is not None:
            return TOO_NOISY
        if not self._case.pairs.is_compared(place):
            return NO_OPPONENT
        if self._case.pairs.failures_of(place) == {FailureKind.NOT_ASKED}:
            return NOT_ASKED
        if not self._settings.panel:
            return NO_BOTH_ORDERS if self._settings.swap and compares_pairs(self._settings) else NO_VERDICT
        if not self._case.pairs.has_quorum(place):
            return NO_QUORUM
        return DISAGREEMENT if self._settings.disagreement == "missing" else NO_BOTH_ORDERS

    def _is_for_want_of_verdicts(self, place: int, name: str) -> bool:
        """Whether a component is missing for a reason that keeps verdicts missing, too."""
        source = sources_of(self._settings)[name]
        if self._rollouts[place].answer is None and source in ("judge", "rules", "responses"):
            return True
        return name in made_of_verdicts(self._settings) or (
            self._case.mixed_prompts and source in ("judge", "responses")
        )

    def _why_missing(self, name: str) -> str:
        failure = self.columns[name].failure if name in self.columns else None
        return f": {failure}" if failure else ""


def _estimate(n: int, used: Verdicts, fit: Calibration, settings: Settings) -> Estimate:
    """Turn verdicts into base scores; where they are made of grades, that is the mean of each rollout's own.

    Nothing is then learned from the pairs, neither of opponents nor of noise.
    """
    if not compares_pairs(settings):
        return estimate("simple_tiebreaker", n, used, Calibration())
    return estimate(settings.estimator, n, used, fit)


def _pairs_of_orders(verdicts: Verdicts) -> Iterator[tuple[Verdict, Verdict]]:
    """Yield each pair of verdicts on the two orders of one pair, both as opinions on the same order."""
    for (i, j, judge_idx), verdict in verdicts.items():
        other = verdicts.get(Comparison(j, i, judge_idx))
        if i < j and other is not None:
            yield verdict, verdict_after_swap(other)


def _pairs_of_repeats(verdicts: Verdicts) -> Iterator[tuple[Verdict, Verdict]]:
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
