"""One group on its way from comparisons to rewards."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from genrm_cli.groups.comparisons import Asked, PairCase, Verdicts
from genrm_cli.groups.components import (
    Column,
    local_columns,
    render_scenario,
)
from genrm_cli.groups.graded import GradingCase
from genrm_cli.groups.graders import graders_in
from genrm_cli.jobs.index import GroupTexts
from genrm_cli.judging.requests import Outcome, Prompt
from genrm_cli.rewards.estimators import JudgedPair
from genrm_cli.rollouts.grouping import UNGROUPED
from genrm_cli.rollouts.record import Rollout, Turn
from genrm_cli.rollouts.redaction import redactor_of
from genrm_cli.rollouts.views import SharedView, view_group
from genrm_cli.settings import Settings
from genrm_cli.settings.panel import judges_of
from genrm_cli.verdicts import Failure, Grades, Verdict


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
        columns: the components that need no judge, once computed.
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
    redactions: Counter[str] = field(init=False, default_factory=Counter)
    _outcomes: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        comparable = () if self.mixed_prompts else enumerate(self.rollouts)
        answered = [place for place, rollout in comparable if rollout.is_comparable]
        self.pairs = PairCase(self.key, answered, self.settings)
        graders = graders_in(self.settings)
        if graders and answered:
            responses = view_group([self.rollouts[place] for place in answered]).responses
            seats = len(judges_of(self.settings))
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
        return not self.mixed_prompts and not self.lacks_group

    def compute_local(self) -> None:
        """Compute what needs no judge; may take its time, and call functions of the user's."""
        self.columns = local_columns(self.rollouts, self.texts.records, self.settings, comparable=self.is_comparable)

    def iter_questions(self) -> Iterator[tuple[Asked, Prompt]]:
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
        if not self.settings.keep_replies and outcome.reply_text is not None:
            outcome = replace(outcome, reply_text=None)  # the journal has it; all replies of a run fill a disk
        seats = len(judges_of(self.settings))
        if asked.seat < seats:
            self.pairs.add_outcome(asked, outcome)
        else:
            self.gradings[asked.seat - seats].add_outcome(asked, outcome)
        self._outcomes += 1
        return self._outcomes == self.planned

    def sort(self) -> None:
        """Bring the outcomes into an order that does not depend on who answered first."""
        self.pairs.sort()
        for grading in self.gradings:
            grading.sort()

    def verdicts(self) -> list[JudgedPair]:
        """Return the verdicts that count."""
        self.sort()
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

    def comparison_records(self, keep_replies: bool) -> Iterator[dict[str, Any]]:
        """Yield the questions about the group as they stand in the comparisons file."""
        seats = judges_of(self.settings)
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

    @property
    def lacks_group(self) -> bool:
        """Whether the rollout lacks the field that --group-by names, so that it has no group."""
        return self.key.startswith(UNGROUPED)


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
