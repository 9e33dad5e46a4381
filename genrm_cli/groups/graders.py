"""Components graded by a judge: the judges that grade, the requests to one about a group, and its
grades.
"""

import json
import random
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from statistics import fmean
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.judging.lookup import find_rubric_set
from genrm_cli.judging.profiles.profile import GradingProfile
from genrm_cli.judging.requests import ListwisePrompt, Prompt, RequestId
from genrm_cli.judging.rubrics.criteria import CONSTRAINTS, CRITERIA
from genrm_cli.judging.rubrics.grading import (
    CLUSTERS,
    grading_profile,
    ranking_profile,
)
from genrm_cli.judging.rubrics.session_rubrics import (
    SESSION_SET,
    session_names,
    session_profile,
)
from genrm_cli.rewards.component import Column
from genrm_cli.rollouts.views import SharedView
from genrm_cli.settings import Settings
from genrm_cli.settings.components import Component
from genrm_cli.settings.panel import JudgeConfig, graders_of
from genrm_cli.verdicts import Failure, FailureKind, Grades, Outcome

DIVERSITY: Final = "diversity"
ROW_SET = "row"
CONSTRAINT_SET = "constraints"
_LISTS = {ROW_SET: CRITERIA, CONSTRAINT_SET: CONSTRAINTS}
"""Names that stand for a list of each line instead of a rubric set: its criteria, or its scenario's
constraints.
"""
_JSON_NOTES = (CONSTRAINT_SET, SESSION_SET)
GraderKind = Literal["rubric", "rubric_rank", "diversity"]


class Grader(Struct, frozen=True):
    """One judge that grades a component.

    Attributes:
        component: the name of its table; `diversity` for the grader that finds clusters.
        names: names of the components for its grades, in order; empty for `diversity`.
        list_name: the list of each line that it grades by: a name in `_LISTS` instead of a rubric
            set, or `SESSION_SET` beside one; empty for none.
        repeats: how often it grades each response; the mean of the grades counts.
    """

    component: str
    kind: GraderKind
    names: tuple[str, ...]
    config: JudgeConfig
    profile: GradingProfile
    list_name: str = ""
    repeats: int = 1

    @property
    def name(self) -> str:
        """Its name in outputs."""
        return self.config.judge.model or ""


@lru_cache(maxsize=64)
def graders_in(settings: Settings) -> tuple[Grader, ...]:
    """Return the graders of a run, in the order of their tables; the grader that finds clusters
    comes last.

    Raises:
        UsageError: a rubric set is unknown or cannot be read.
    """
    judged = [component for component in settings.rewards.components if component.is_judged]
    configs = graders_of(settings)
    graders = list(map(_grader, judged, configs))
    diversity = settings.rewards.diversity
    if diversity is not None and diversity.method == "llm":
        profile = CLUSTERS if diversity.json_schema else _without_schema(CLUSTERS)
        graders.append(Grader(DIVERSITY, DIVERSITY, (), configs[-1], profile))
    return tuple(graders)


def _grader(component: Component, config: JudgeConfig) -> Grader:
    set_name = component.option("set") or ""
    kind: GraderKind = "rubric"
    names: tuple[str, ...] = (f"rubric_{set_name}",)
    list_name = ""
    if component.kind == "rubric_rank":
        kind = "rubric_rank"
        names = (component.name,)
        profile = ranking_profile(find_rubric_set(set_name))
    elif set_name in _LISTS:
        list_name = set_name
        profile = _LISTS[set_name]
    elif set_name == SESSION_SET:
        list_name = set_name
        names = session_names(find_rubric_set(set_name))
        profile = session_profile(find_rubric_set(set_name))
    else:
        names = tuple(find_rubric_set(set_name).component_names)
        profile = grading_profile(find_rubric_set(set_name))
    if dict(component.options).get("json_schema") is False:
        profile = _without_schema(profile)
    repeats = int(component.option("repeats") or 1)
    return Grader(component.name, kind, names, config, profile, list_name, repeats)


def _without_schema(profile: GradingProfile) -> GradingProfile:
    """Drop the JSON schema, which some servers do not support."""
    fields = {
        name: value for name, value in profile.request_fields.items() if name != "response_format"
    }
    return replace(profile, request_fields=fields)


def count_gradings(grader: Grader, answered: int) -> int:
    """Count the requests of a grader about a group, by its number of rollouts that can be
    compared.
    """
    return answered * grader.repeats if grader.kind == "rubric" else int(answered > 1)


def iter_gradings(
    key: str | None,
    grader: Grader,
    number: int,
    answered: Sequence[int],
    view: SharedView,
) -> Iterator[tuple[RequestId, Prompt]]:
    """Yield the requests to a grader about a group.

    Args:
        key: key of the group; it determines the order in which a whole group is shown.
        grader: the grader to ask.
        number: number of the grader among all judges of the run.
        answered: indices of the rollouts that can be compared.
        view: the responses of `answered` in their order, and what else is shown; its principle is a
            further criterion besides the rubrics.
    """
    if not count_gradings(grader, len(answered)):
        return
    response_of = dict(zip(answered, view.responses, strict=True))
    if grader.kind == "rubric":
        for index in answered:
            prompt = _prompt(view, (response_of[index],), index)
            if grader.list_name:  # criteria are the principle of judges that compare
                listed = view.criteria if grader.list_name == ROW_SET else view.constraints
                prompt = replace(prompt, principle=None, criteria=listed[index])
            if grader.list_name in _LISTS and not any(points > 0 for _, points in prompt.criteria):
                continue
            for repeat in range(grader.repeats):
                yield RequestId(number, repeat, (index,)), prompt
        return
    # The position matters to a judge: the order depends on the group, and is the same in every run.
    order = list(answered)
    random.Random(f"{key} {grader.component}").shuffle(order)
    shown = tuple(response_of[index] for index in order)
    prompt = _prompt(view, shown, order[0])
    if grader.kind == DIVERSITY:  # what responses have in common does not depend on it
        prompt = replace(prompt, reference=None)
    yield RequestId(number, 0, tuple(order)), prompt


def _prompt(view: SharedView, shown: tuple[str, ...], index: int) -> ListwisePrompt:
    background = view.backgrounds.get(index)
    return ListwisePrompt(
        view.conversation, shown, view.principle, background, view.reference, images=view.images
    )


class GradedGroup:
    """The grades of one grader for a group."""

    def __init__(
        self,
        grader: Grader,
        answered: Sequence[int],
        losing: Collection[int],
        results: Sequence[tuple[RequestId, Outcome]],
    ) -> None:
        """Take the results of its requests.

        Args:
            grader: what graded.
            answered: indices of the rollouts that can be compared.
            losing: indices of responses that have the worst grade.
            results: of all requests to the grader about the group.
        """
        self.grader = grader
        self._answered = answered
        self._losing = losing
        self._asked = set[int]()
        self._failures = set[FailureKind]()
        self._failed = 0
        self._requests = len(results)
        self._notes: dict[int, tuple[str, ...]] = {}
        readings = defaultdict[int, list[tuple[float, ...]]](list)
        for request, outcome in results:
            self._asked.update(request.shown)
            result = outcome.result
            if isinstance(result, Failure):
                self._failed += 1
                self._failures.add(result.kind)
            elif isinstance(result, Grades) and grader.kind == "rubric":
                readings[request.shown[0]].append(result.values)
                self._notes.setdefault(request.shown[0], result.notes)
            elif isinstance(result, Grades):
                for index, value in zip(request.shown, result.values, strict=True):
                    readings[index].append((value,))
        self._grades = {
            index: tuple(map(fmean, zip(*repeated, strict=True)))
            for index, repeated in readings.items()
        }

    def grades_of(self, index: int) -> tuple[float, ...] | None:
        """Return the grades of a rollout, one per component of the grader; None without any."""
        grader = self.grader
        if index in self._losing:
            # Even for flaws, so that silence does not pay.
            return (0.0,) * len(grader.names) or None
        is_alone = grader.kind == "rubric_rank" and len(self._answered) < 2
        has_none = grader.list_name == CONSTRAINT_SET and index not in self._asked
        perfect = (1.0,) if index in self._answered and (is_alone or has_none) else None
        return self._grades.get(index, perfect)

    def clusters(self) -> list[int] | None:
        """Return the cluster of each of the answered; None if the judge gave none."""
        if len(self._answered) < 2:
            return [0] * len(self._answered)
        if not self._grades:
            return None
        return [int(self._grades[index][0]) for index in self._answered]

    def columns(self, size: int) -> dict[str, Column]:
        """Return the grades as components of a group of this size."""
        failure = None
        # A failed request may have been replaced.
        if self._failed and any(self.grades_of(index) is None for index in self._asked):
            reason = "were not asked" if self._failures == {FailureKind.NOT_ASKED} else "failed"
            failure = f"{self._failed} of its {self._requests} requests {reason}"
        rows = [self.grades_of(index) for index in range(size)]
        return {
            name: Column(
                [None if row is None else row[number] for row in rows],
                [self._note(index, number) for index in range(size)],
                failure,
            )
            for number, name in enumerate(self.grader.names)
        }

    def _note(self, index: int, number: int) -> object:
        """Return the evidence for a grade: a quotation, or the verdict on each constraint."""
        notes = self._notes.get(index, ())
        note = notes[number] if number < len(notes) else ""
        if not note:
            return None
        return json.loads(note) if self.grader.list_name in _JSON_NOTES else {"evidence": note}
