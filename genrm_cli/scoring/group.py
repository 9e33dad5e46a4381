"""One group on its way from comparisons to rewards."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from genrm_cli.evaluation.agreement import PanelFigures
from genrm_cli.judging.verdict import Failure, FailureKind, Grades, Outcome, Shown, Verdict, verdict_after_swap
from genrm_cli.pairing import Comparison
from genrm_cli.rewards.components.win_rate import win_rates
from genrm_cli.rewards.compose import RolloutReward, compose_rewards, with_totals
from genrm_cli.rewards.estimators import Estimate, JudgedPair, JudgeFit, estimate, estimate_simple_tiebreaker
from genrm_cli.rewards.shaping import Adjustments, ShapingTerms
from genrm_cli.rewards.total import Total, compose_total
from genrm_cli.rollouts.grouping import UNGROUPED
from genrm_cli.rollouts.record import Rollout, SharedView, Turn, view_group
from genrm_cli.rollouts.redaction import redactor_of
from genrm_cli.scoring.components import (
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
    local_columns,
    made_of_verdicts,
    rank_columns,
    render_scenario,
    sources_of,
    terms_of,
)
from genrm_cli.scoring.graders import graders_in
from genrm_cli.scoring.gradings import GradingCase
from genrm_cli.scoring.pairs import Asked, PairCase, Verdicts, compares_pairs, grading_of
from genrm_cli.scoring.survey import GroupTexts
from genrm_cli.settings import Settings
from genrm_cli.settings.panel import seats_of
from genrm_cli.summary import Tally

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
TOO_NOISY = "the verdicts of its group say less than --min-reliability asks for"
NO_QUORUM = "none of its comparisons has verdicts from enough judges of the panel"
DISAGREEMENT = "the judges of the panel contradict each other on all of its comparisons"


@dataclass(slots=True)
class GroupCase:
    """A group of rollouts, what is asked about it and what became of that.

    Attributes:
        number: the group's place in the order of first appearance.
        rows: the rollouts' rows in the input, in the group's order.
        texts: its rollouts in the same order as rows.
        mixed_prompts: True when the prompts differ: nothing is compared.
        pairs: its comparisons.
        gradings: its graded components.
        columns: its components, as far as they are known.
        clusters: who shares a reward; None without `[diversity]`.
        estimate: what the verdicts say of the rollouts, once concluded.
        redactions: what was masked in the texts that the judge is shown, by name; each text counts once.
    """

    number: int
    rows: list[int]
    texts: GroupTexts
    mixed_prompts: bool
    settings: Settings
    pairs: PairCase = field(init=False)
    gradings: list[GradingCase] = field(init=False, default_factory=list)
    columns: dict[str, Column] = field(init=False, default_factory=dict)
    clusters: Clusters | None = field(init=False, default=None)
    estimate: Estimate = field(init=False, default=Estimate([], []))
    redactions: Counter[str] = field(init=False, default_factory=Counter)
    _outcomes: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        comparable = () if self.mixed_prompts else enumerate(self.rollouts)
        answered = [place for place, rollout in comparable if rollout.answer is not None]
        self.pairs = PairCase(self.key, answered, self.settings)
        graders = graders_in(self.settings)
        if graders and answered:
            responses = view_group([self.rollouts[place] for place in answered]).responses
            seats = len(seats_of(self.settings))
            self.gradings = [
                GradingCase(self.key, grader, seats + number, answered, responses)
                for number, grader in enumerate(graders)
            ]

    @property
    def key(self) -> str:
        """The group key."""
        return self.texts.key

    @property
    def rollouts(self) -> list[Rollout]:
        """The rollouts, in the group's order."""
        return self.texts.rollouts

    @property
    def planned(self) -> int:
        """How many questions there are about the group."""
        return self.pairs.planned + sum(grading.planned for grading in self.gradings)

    @property
    def is_comparable(self) -> bool:
        """Whether the rollouts answer one prompt, so that they can be compared."""
        return not self.mixed_prompts and not self._lacks_group()

    def compute_local(self) -> None:
        """Compute what needs no judge; may take its time, and call functions of the user's."""
        self.columns = local_columns(self.rollouts, self.texts.records, self.settings, comparable=self.is_comparable)

    def iter_questions(self) -> Iterator[tuple[Asked, Shown]]:
        """Yield what is to be asked, and what is to be shown; `Asked.seat` numbers judges, then graders."""
        if not self.planned:
            return
        view, principle, backgrounds = self._view_for_judge()
        yield from self.pairs.iter_questions(view, principle)
        for grading in self.gradings:
            yield from grading.iter_questions(view, principle, backgrounds)

    def _view_for_judge(self) -> tuple[SharedView, str | None, list[str | None]]:
        """Return what leaves this machine, masked if the settings ask for it; lengths are measured elsewhere."""
        answered = self.pairs.answered
        view = view_group([self.rollouts[place] for place in answered])
        principle = self.rollouts[0].principle or self.settings.principle
        backgrounds = [render_scenario(self.texts.records[place]) if self.gradings else None for place in answered]
        if not self.settings.redact_pattern:
            return view, principle, backgrounds
        redactor = redactor_of(self.settings.redact_pattern)
        self.redactions = counts = Counter[str]()  # afresh: a group may be planned twice, to look into the journal
        conversation = tuple(Turn(turn.role, redactor.redact(turn.text, counts)) for turn in view.conversation)
        responses = [redactor.redact(response, counts) for response in view.responses]
        principle = principle and redactor.redact(principle, counts)
        backgrounds = [background and redactor.redact(background, counts) for background in backgrounds]
        return SharedView(conversation, responses), principle, backgrounds

    def add_outcome(self, asked: Asked, outcome: Outcome) -> bool:
        """Take in what became of one question; say whether it was the last one."""
        seats = len(seats_of(self.settings))
        if asked.seat < seats:
            self.pairs.add_outcome(asked, outcome)
        else:
            self.gradings[asked.seat - seats].add_outcome(asked, outcome)
        self._outcomes += 1
        return self._outcomes == self.planned

    def verdicts(self) -> list[JudgedPair]:
        """Return the verdicts that count, in an order that does not depend on who answered first."""
        self.pairs.sort()
        return judged_pairs(self.pairs.verdicts_used())

    def state(self) -> tuple[Any, ...]:
        """Return all that is known of the group beside its texts, for `set_state`."""
        graded = [grading.outcomes for grading in self.gradings]
        return self.pairs.outcomes, self.pairs.neutralised, graded, self.columns, self.redactions

    def set_state(self, state: tuple[Any, ...]) -> None:
        """Take in what was known of the same group before."""
        self.pairs.outcomes, self.pairs.neutralised, graded, self.columns, self.redactions = state
        for grading, outcomes in zip(self.gradings, graded, strict=True):
            grading.outcomes = outcomes

    def conclude(self, tally: Tally, fit: JudgeFit) -> list[dict[str, Any]]:
        """Turn everything known into one `{reward, detail}` a rollout, in the group's order, and count it.

        Args:
            tally: where it is counted.
            fit: what the whole input says of the judge.
        """
        self.pairs.sort()
        for grading in self.gradings:
            grading.sort()
        used = self.pairs.verdicts_used()
        in_order = compares_pairs(self.settings)
        for verdict in used.values():
            tally.add_scores(verdict, in_order=in_order)
        if in_order:  # of two grades the other order says the same
            tally.swapped.add(_pairs_of_orders(used))
        tally.repeated.add(_pairs_of_repeats(used))
        tally.redactions.update(self.redactions)
        if self.settings.panel:
            self._count_panel(tally, used)
        self.estimate = estimate(self.settings.estimator, len(self.rollouts), judged_pairs(used), fit)
        rewards = self._rewards(self.estimate)
        totals = self._totals(rewards, used, tally) if has_components(self.settings) else None
        if totals is not None:
            rewards = with_totals(rewards, [total.value for total in totals])
        scores = [
            self._score_of(place, reward, used, None if totals is None else totals[place])
            for place, reward in enumerate(rewards)
        ]
        self._count(scores, tally)
        return scores

    def _totals(self, rewards: Sequence[RolloutReward], used: Verdicts, tally: Tally) -> list[Total]:
        """Complete the components, put them together, and count them."""
        columns = self.columns
        if asks_for_verdicts(self.settings):
            columns = {GENRM: Column([reward.reward for reward in rewards])} | columns
        for component in self.settings.components:
            if component.kind == WIN_RATE:
                values = win_rates(len(self.rollouts), judged_pairs(used))
                columns[component.name] = Column(values if self.is_comparable else [None] * len(values))
        for grading in self.gradings:
            columns |= graded_columns(grading, len(self.rollouts))
        for name in component_names(self.settings):
            columns.setdefault(name, Column([None] * len(self.rollouts)))
        rank_columns(columns, self.settings, comparable=self.is_comparable)
        self.columns = {name: columns[name] for name in component_names(self.settings)}
        clusters = self._clusters(tally)
        totals = [
            compose_total(
                {name: column.values[place] for name, column in self.columns.items()},
                terms_of(self.settings),
                None if clusters is None else dict.fromkeys(divided_by(self.settings), clusters.sizes[place]),
            )
            for place in range(len(self.rollouts))
        ]
        count_components(tally, self.columns, totals, self.settings)
        return totals

    def _clusters(self, tally: Tally) -> Clusters | None:
        """Return the clusters of `[diversity]`; None without it, or where rollouts cannot be compared."""
        if self.settings.diversity is None or not self.is_comparable:
            return None
        self.clusters = clusters_of(self.settings.diversity, self.pairs.answered, self.rollouts, self.gradings)
        if self.clusters.failed:
            tally.component_failures["diversity"] += 1
        return self.clusters

    def _count_panel(self, tally: Tally, used: Verdicts) -> None:
        seats = seats_of(self.settings)
        if tally.panel is None:
            comparing = [grading_of(seat) is None for seat in seats]
            tally.panel = PanelFigures([seat.name for seat in seats], [seat.weight for seat in seats], comparing)
        by_judge = self.pairs.verdicts_by_judge()
        for comparison, verdicts in by_judge.items():
            tally.panel.add_comparison(verdicts, counts=comparison in used)
        n = len(self.rollouts)
        alone = [
            {comparison: verdict for comparison, given in by_judge.items() if (verdict := given[seat]) is not None}
            for seat in range(len(seats))
        ]
        tally.panel.add_group([estimate_simple_tiebreaker(n, judged_pairs(verdicts)) for verdicts in alone])

    def comparison_records(self, keep_replies: bool) -> Iterator[dict[str, Any]]:
        """Yield the questions about the group as they stand in the comparisons file."""
        seats = seats_of(self.settings)
        for asked, outcome in self.pairs.outcomes:
            verdict = self.pairs.verdict_of(outcome) if len(asked.places) == 2 else None
            record = {
                "group": self.key,
                **_places_record(asked),
                "judge_idx": asked.judge_idx,
                **outcome_record(outcome, verdict),
                "judge": seats[asked.seat].name,
            }
            if changed := self.pairs.neutralised.get(asked):
                record["neutralised"] = changed
            yield record | {"reply": outcome.reply_text} if keep_replies else record
        for grading in self.gradings:
            for asked, outcome in grading.outcomes:
                graded = {
                    "group": self.key,
                    "component": grading.grader.component,
                    **_places_record(asked),
                    "judge_idx": asked.judge_idx,
                    **outcome_record(outcome, None),
                    "judge": grading.grader.seat.settings.model,
                }
                yield graded | {"reply": outcome.reply_text} if keep_replies else graded

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

    def _rewards(self, estimated: Estimate) -> list[RolloutReward]:
        if len(self.rollouts) == 1 and self.rollouts[0].answer is not None and not self._lacks_group():
            default = self.settings.default_score
            return [RolloutReward(default, Adjustments(), default, 1, 0.0)]
        is_noisy = self.is_noisy(estimated)
        return compose_rewards(
            [None if is_noisy else score for score in estimated.base_scores],
            [rollout.reasoning for rollout in self.rollouts],
            [rollout.answer or "" for rollout in self.rollouts],
            shaping_terms(self.settings),
        )

    def is_noisy(self, estimated: Estimate) -> bool:
        """Whether too little of the spread of the group's base scores is signal."""
        least, reliability = self.settings.min_reliability, estimated.reliability
        return least is not None and reliability is not None and reliability < least

    def _lacks_group(self) -> bool:
        return self.key.startswith(UNGROUPED)

    def _score_of(self, place: int, reward: RolloutReward, used: Verdicts, total: Total | None) -> dict[str, Any]:
        own = [verdict for comparison, verdict in used.items() if place in comparison[:2]]
        defaulted = sum(verdict.defaulted for verdict in own)
        failed = sum(
            place in asked.places and isinstance(outcome.result, Failure) for asked, outcome in self.pairs.outcomes
        )
        reason = None if reward.reward is not None else self._reason(place, total)
        status = "unscored" if reason else "single" if len(self.rollouts) == 1 else "scored"
        return {
            "reward": reward.reward,
            "detail": {
                "status": status,
                "reason": reason,
                "base_score": reward.base_score,
                "standard_error": None if reward.base_score is None else self.estimate.standard_errors[place],
                "reliability": self.estimate.reliability,
                "adjustments": reward.adjustments.as_dict(),
                "rank": reward.rank,
                "advantage": reward.advantage,
                "group": self.key,
                "group_size": len(self.rollouts),
                "place": place,
                "comparisons": len(own) - defaulted,
                "failed": failed,
                "defaulted": defaulted,
                "judge": " + ".join(seat.name for seat in seats_of(self.settings)),
                "stand_in": self.settings.judge is not None,
                **({} if total is None else self._made_of(place, total)),
            },
        }

    def _made_of(self, place: int, total: Total) -> dict[str, Any]:
        """Return what the reward of a rollout is made of, as it stands in the output."""
        notes = {name: note for name, column in self.columns.items() if (note := column.note(place))}
        made: dict[str, Any] = {
            "components": {name: column.values[place] for name, column in self.columns.items()},
            "component_notes": notes,
        }
        if self.settings.total is not None:
            made["total"] = {
                "weights": {name: weight.weight for name, weight in terms_of(self.settings).weights.items()},
                "terms": dict(total.terms),
                "gates": {gate.component: gate.least for gate in terms_of(self.settings).gates},
                "gated_by": list(total.gated_by),
                "missing": list(total.missing),
            }
        if self.clusters is not None:
            made["diversity"] = {"cluster": self.clusters.numbers[place], "size": self.clusters.sizes[place]}
            made["diversity"]["failed"] = self.clusters.failed
        return made

    def _reason(self, place: int, total: Total | None = None) -> str:
        missing = () if total is None else total.missing
        if negative := [name for name in missing if self.columns[name].values[place] is not None]:
            return f"the component {negative[0]} is below 0: divided among near copies it would reward them"
        if missing and not any(self._is_for_want_of_verdicts(place, name) for name in missing):
            return f"the component {missing[0]} has no value" + self._why_missing(missing[0])
        if self.rollouts[place].answer is None:
            return NO_RESPONSE
        if self.mixed_prompts:
            return MIXED_PROMPTS
        if self._lacks_group():
            return NO_GROUP
        if self.is_noisy(self.estimate) and self.estimate.base_scores[place] is not None:
            return TOO_NOISY
        if not self.pairs.is_compared(place):
            return NO_OPPONENT
        if self.pairs.failures_of(place) == {FailureKind.NOT_ASKED}:
            return NOT_ASKED
        if not self.settings.panel:
            return NO_BOTH_ORDERS if self.settings.swap and compares_pairs(self.settings) else NO_VERDICT
        if not self.pairs.has_quorum(place):
            return NO_QUORUM
        return DISAGREEMENT if self.settings.disagreement == "missing" else NO_BOTH_ORDERS

    def _is_for_want_of_verdicts(self, place: int, name: str) -> bool:
        """Whether a component is missing for a reason that keeps verdicts missing, too."""
        source = sources_of(self.settings)[name]
        if self.rollouts[place].answer is None and source in ("judge", "rules", "responses"):
            return True
        return name in made_of_verdicts(self.settings) or (self.mixed_prompts and source in ("judge", "responses"))

    def _why_missing(self, name: str) -> str:
        failure = self.columns[name].failure if name in self.columns else None
        return f": {failure}" if failure else ""

    def _count(self, scores: Sequence[dict[str, Any]], tally: Tally) -> None:
        if self.estimate.reliability is not None:
            tally.reliabilities.add(self.estimate.reliability)
            tally.groups_noisy += self.estimate.reliability < NOISY
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


def outcome_record(outcome: Outcome, verdict: Verdict | None) -> dict[str, Any]:
    """Return what became of one question as it stands in files; the verdict is the one that counts for it."""
    failure = outcome.result if isinstance(outcome.result, Failure) else None
    grades = {"grades": list(outcome.result.values)} if isinstance(outcome.result, Grades) else {}
    return {
        **grades,
        "score_1": verdict and verdict.score_1,
        "score_2": verdict and verdict.score_2,
        "ranking": verdict and verdict.ranking,
        "failure": failure and {"kind": failure.kind, "detail": failure.detail},
        "attempts": outcome.attempts,
        "latency_s": round(outcome.latency_s, 4),
        "prompt_tokens": outcome.prompt_tokens,
        "completion_tokens": outcome.completion_tokens,
    }


def judged_pairs(verdicts: Verdicts) -> list[JudgedPair]:
    """Return verdicts as an estimator takes them."""
    return [
        JudgedPair(comparison.i, comparison.j, verdict.score_1, verdict.score_2, verdict.ranking)
        for comparison, verdict in verdicts.items()
    ]


def _places_record(asked: Asked) -> dict[str, Any]:
    """Return which rollouts were shown: `i` first and `j` second, `i` alone, or all in the order shown."""
    if len(asked.places) > 2:
        return {"i": None, "j": None, "shown": list(asked.places)}
    return {"i": asked.places[0], "j": asked.places[1] if len(asked.places) == 2 else None}


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
