"""What a judge grades a response by: rubrics, each with the scores that it may give and what they mean."""

import re
from dataclasses import dataclass

ScoreMap = tuple[tuple[float, str], ...]

YES_OR_NO: ScoreMap = ((0.0, "no"), (1.0, "yes"))

_OTHER_CHARACTERS = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Rubric:
    """One thing that is looked for in a response.

    Attributes:
        title: a few words; the component is named after it.
        description: what the judge is to look for.
        positive: False if a high score is bad, because the rubric describes a flaw.
        score_map: the scores that the judge may give, each with its meaning, which may be empty; two different
            scores at least.
    """

    title: str
    description: str
    positive: bool = True
    score_map: ScoreMap = YES_OR_NO

    @property
    def component_name(self) -> str:
        """`rubric_` and the title in lower case, runs of other characters than a to z and 0 to 9 as `_`."""
        return "rubric_" + _OTHER_CHARACTERS.sub("_", self.title.lower())

    def value_of(self, raw: float) -> float | None:
        """Return what a score is worth, from 0 to 1 with 1 the best; None if the map does not hold it.

        Source: (raw - least) / (greatest - least), and 1 minus that for a rubric that is not positive.
        """
        scores = [score for score, _ in self.score_map]
        if raw not in scores:
            return None
        share = (raw - min(scores)) / (max(scores) - min(scores))
        return share if self.positive else 1.0 - share


@dataclass(frozen=True, slots=True)
class RubricSet:
    """Rubrics that a judge grades in one call.

    Attributes:
        name: what a component calls the set.
        version: changes whenever the rubrics do, so that old grades are not taken for new ones.
        about: one line for a person.
        rubrics: one or more, no two with the same component name.
    """

    name: str
    version: int
    about: str
    rubrics: tuple[Rubric, ...]
