"""One graded component of a group: what its judge is asked, and what the grades become."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from genrm_cli.groups.comparisons import Asked
from genrm_cli.groups.graders import Grader
from genrm_cli.judging.requests import ListwisePrompt, Outcome, Prompt
from genrm_cli.judging.rubrics.grading import grades_of_empty
from genrm_cli.judging.rubrics.ranking import grades_of_sole
from genrm_cli.rollouts.views import SharedView
from genrm_cli.verdicts import Failure, FailureKind, Grades


@dataclass(slots=True)
class GradingCase:
    """The questions of one grader about a group, and what became of them.

    A response without text costs no call: it is worth 0 to every rubric and shares a cluster with its like.

    Attributes:
        key: the group key; decides the order in which a whole group is shown.
        grader: who is asked, and how.
        seat: the grader's number among all judges of the run.
        answered: the places of the rollouts that have a response.
        responses: what is shown of them, in the same order.
        outcomes: what became of each question, in the order of the rollouts once `sort` was called.
    """

    key: str
    grader: Grader
    seat: int
    answered: Sequence[int]
    responses: Sequence[str]
    outcomes: list[tuple[Asked, Outcome]] = field(default_factory=list)
    _spoken: list[int] = field(init=False)  # the places of the rollouts whose response has text

    def __post_init__(self) -> None:
        shown = zip(self.answered, self.responses, strict=True)
        self._spoken = [place for place, response in shown if response.strip()]

    @property
    def planned(self) -> int:
        """How many questions there are."""
        spoken = len(self._spoken)
        return spoken if self.grader.kind == "rubric" else int(spoken > 1)

    def iter_questions(
        self, view: SharedView, principle: str | None, backgrounds: Sequence[str | None]
    ) -> Iterator[tuple[Asked, Prompt]]:
        """Yield what is to be asked, and what is to be shown.

        Args:
            view: the conversation and the responses of the rollouts that have one, in their order, as a judge may see
                them.
            principle: what to judge by beside the rubrics.
            backgrounds: what else the judge should know of each rollout's task, in the order of the responses.
        """
        if not self.planned:
            return
        response_of = dict(zip(self.answered, view.responses, strict=True))
        background_of = dict(zip(self.answered, backgrounds, strict=True))
        places = list(self._spoken)
        if self.grader.kind == "rubric":
            for place in places:
                lineup = ListwisePrompt(view.conversation, (response_of[place],), principle, background_of[place])
                yield Asked((place,), 0, self.seat), lineup
            return
        # A place in the row is worth something: the order is the group's own, the same in every run.
        random.Random(f"{self.key} {self.grader.component}").shuffle(places)
        shown = tuple(response_of[place] for place in places)
        yield (
            Asked(tuple(places), 0, self.seat),
            ListwisePrompt(view.conversation, shown, principle, background_of[places[0]]),
        )

    def add_outcome(self, asked: Asked, outcome: Outcome) -> None:
        """Take in what became of one question."""
        self.outcomes.append((asked, outcome))

    def sort(self) -> None:
        """Bring the outcomes into an order that does not depend on who answered first."""
        self.outcomes.sort(key=lambda entry: entry[0])

    def grades_of(self, place: int) -> tuple[float, ...] | None:
        """Return the grades of a rollout, one for each of the grader's components; None where there are none."""
        if place not in self.answered:
            return None
        if place not in self._spoken:
            blank = self.grader.rubric_set and grades_of_empty(self.grader.rubric_set).values
            return blank[: len(self.grader.names)] if blank else None
        if self.grader.kind == "rubric_rank" and not self.planned:
            return grades_of_sole().values
        graded = self._graded(place)
        if graded is None:
            return None
        asked, grades = graded
        return grades.values if self.grader.kind == "rubric" else (grades.values[asked.places.index(place)],)

    def notes_of(self, place: int) -> tuple[str, ...]:
        """Return the judge's quotations about a rollout, one for each of the grader's components, or none."""
        graded = self._graded(place)
        if graded is None or self.grader.kind != "rubric":
            return ()
        return graded[1].notes

    def clusters(self) -> list[int] | None:
        """Return the cluster of each answered rollout, in their order; those without text share one.

        None: the judge gave none.
        """
        spoken = self._spoken
        number_of: dict[int, int] = {}
        if len(spoken) == 1:
            number_of[spoken[0]] = 0
        elif spoken:
            if not self.outcomes or not isinstance(grades := self.outcomes[0][1].result, Grades):
                return None
            number_of = dict(zip(self.outcomes[0][0].places, map(int, grades.values), strict=True))
        return [number_of.get(place, -1) for place in self.answered]

    @property
    def failure(self) -> str | None:
        """How many of its questions gave no grades, in words; None if all did."""
        kinds = [outcome.result.kind for _, outcome in self.outcomes if isinstance(outcome.result, Failure)]
        if not kinds:
            return None
        what = "were not asked" if set(kinds) == {FailureKind.NOT_ASKED} else "failed"
        return f"{len(kinds)} of its {self.planned} questions {what}"

    def _graded(self, place: int) -> tuple[Asked, Grades] | None:
        for asked, outcome in self.outcomes:
            if place in asked.places and isinstance(outcome.result, Grades):
                return asked, outcome.result
        return None
