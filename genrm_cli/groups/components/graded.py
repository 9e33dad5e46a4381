"""Components graded by a judge: the requests to one grader about a group, and the values of its grades."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from genrm_cli.groups.components.columns import Column
from genrm_cli.groups.components.graders import Grader
from genrm_cli.judging.requests import ListwisePrompt, Prompt, RequestId
from genrm_cli.judging.rubrics.grading import grades_of_empty
from genrm_cli.judging.rubrics.ranking import grades_of_single
from genrm_cli.rollouts.views import SharedView
from genrm_cli.verdicts import Failure, FailureKind, Grades, Outcome


def count_gradings(grader: Grader, answered: Sequence[int]) -> int:
    """Count the requests of a grader."""
    return len(answered) if grader.kind == "rubric" else int(len(answered) > 1)


def iter_gradings(
    key: str | None,
    grader: Grader,
    number: int,
    answered: Sequence[int],
    view: Mapping[int, str],
    shared: SharedView,
    principle: str | None,
    backgrounds: Mapping[int, str | None],
) -> Iterator[tuple[RequestId, Prompt]]:
    """Yield the requests to a grader about a group.

    Args:
        key: key of the group; it determines the order in which a whole group is shown.
        grader: the grader to ask.
        number: number of the grader among all judges of the run.
        answered: indices of the rollouts that can be compared.
        view: the response of each rollout, as shown to judges.
        shared: the conversation.
        principle: the criterion to judge by besides the rubrics.
        backgrounds: what else the judge should know about each rollout's task.
    """
    if not count_gradings(grader, answered):
        return
    if grader.kind == "rubric":
        for index in answered:
            prompt = ListwisePrompt(shared.conversation, (view[index],), principle, backgrounds[index])
            yield RequestId(number, 0, (index,)), prompt
        return
    # The position matters to a judge: the order depends on the group, and is the same in every run.
    order = list(answered)
    random.Random(f"{key} {grader.component}").shuffle(order)
    shown = tuple(view[index] for index in order)
    yield (
        RequestId(number, 0, tuple(order)),
        ListwisePrompt(shared.conversation, shown, principle, backgrounds[order[0]]),
    )


@dataclass(slots=True)
class GradedGroup:
    """The grades of one grader for a group.

    Attributes:
        grader: the grader.
        answered: indices of the rollouts that can be compared.
        losing: indices of blank responses that count as the worst instead of staying unscored.
        results: results of the grader's requests.
    """

    grader: Grader
    answered: Sequence[int]
    losing: Sequence[int]
    results: Sequence[tuple[RequestId, Outcome]]
    _graded: dict[int, tuple[RequestId, Grades]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for request, outcome in self.results:
            if isinstance(outcome.result, Grades):
                self._graded |= dict.fromkeys(request.shown, (request, outcome.result))

    def grades_of(self, index: int) -> tuple[float, ...] | None:
        """Return the grades of a rollout, one per component of the grader; None without any."""
        if index in self.losing:
            blank = self.grader.rubric_set and grades_of_empty(self.grader.rubric_set).values
            return blank[: len(self.grader.names)] if blank else None
        if index not in self.answered:
            return None
        if self.grader.kind == "rubric_rank" and not count_gradings(self.grader, self.answered):
            return grades_of_single().values
        if index not in self._graded:
            return None
        request, grades = self._graded[index]
        return grades.values if self.grader.kind == "rubric" else (grades.values[request.shown.index(index)],)

    def notes_of(self, index: int) -> tuple[str, ...]:
        """Return the judge's quotations about a rollout, one per component of the grader, or none."""
        if index not in self._graded or self.grader.kind != "rubric":
            return ()
        return self._graded[index][1].notes

    def clusters(self) -> list[int] | None:
        """Return the cluster of each of `answered`; None if the judge gave none."""
        if len(self.answered) < 2:
            return [0] * len(self.answered)
        if not self._graded:
            return None
        request, grades = self._graded[self.answered[0]]
        number_of = dict(zip(request.shown, map(int, grades.values), strict=True))
        return [number_of[index] for index in self.answered]

    def columns(self, size: int) -> dict[str, Column]:
        """Return the grades as components of a group of this size."""
        rows = [self.grades_of(index) for index in range(size)]
        notes = [self.notes_of(index) for index in range(size)]
        return {
            name: Column(
                [None if row is None else row[number] for row in rows],
                [{"evidence": note[number]} if number < len(note) and note[number] else None for note in notes],
                self._failure(),
            )
            for number, name in enumerate(self.grader.names)
        }

    def _failure(self) -> str | None:
        """Describe how many requests got no grades; None if all did."""
        kinds = [outcome.result.kind for _, outcome in self.results if isinstance(outcome.result, Failure)]
        if not kinds:
            return None
        reason = "were not asked" if set(kinds) == {FailureKind.NOT_ASKED} else "failed"
        return f"{len(kinds)} of its {count_gradings(self.grader, self.answered)} requests {reason}"
