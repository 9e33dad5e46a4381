"""Rubrics: the qualities that a judge grades, and the scores it may give."""

import re
from dataclasses import dataclass

ScoreMap = tuple[tuple[float, str], ...]

YES_OR_NO: ScoreMap = ((0.0, "no"), (1.0, "yes"))


@dataclass(frozen=True, slots=True)
class Rubric:
    """One quality of a response.

    Attributes:
        title: a few words; they name the component.
        description: instructions to the judge.
        positive: False if the rubric describes a flaw, so that a high score is bad.
        score_map: at least two different scores, each with its meaning, which may be empty.
    """

    title: str
    description: str
    positive: bool = True
    score_map: ScoreMap = YES_OR_NO

    @property
    def component_name(self) -> str:
        """`rubric_` and the title in lower case, with `_` for each run of characters other than a to z and 0 to 9."""
        return "rubric_" + re.sub("[^a-z0-9]+", "_", self.title.lower())

    def value_of(self, raw: float) -> float | None:
        """Scale a score to 0 to 1, 1 the best; None if the map lacks it.

        Source: (raw - least) / (greatest - least), and 1 minus that for a flaw.
        """
        scores = [score for score, _ in self.score_map]
        if raw not in scores:
            return None
        share = (raw - min(scores)) / (max(scores) - min(scores))
        return share if self.positive else 1.0 - share


@dataclass(frozen=True, slots=True)
class RubricSet:
    """Rubrics graded in one call, no two with the same component name.

    The version changes with the rubrics, so that old grades are not mistaken for new ones.
    """

    name: str
    version: int
    about: str
    rubrics: tuple[Rubric, ...]

    @property
    def component_names(self) -> list[str]:
        """The component names of the rubrics, in order."""
        return [rubric.component_name for rubric in self.rubrics]
