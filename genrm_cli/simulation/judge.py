"""The model of a judge, as numbers."""

import math
from dataclasses import Field, dataclass, field, fields
from typing import Any

from genrm_cli.errors import UsageError


def _number(default: float, meaning: str, low: float = 0.0, high: float = math.inf) -> Any:
    return field(default=default, metadata={"meaning": meaning, "low": low, "high": high})


@dataclass(frozen=True, slots=True)
class JudgeModel:
    """A judge whose scores and ranking are the true quality, seen through errors.

    True qualities are normal with a standard deviation of 1: the unit of all that is not in points, steps or shares.
    What is seen of a pair is q_1 - q_2 + e: q is the truth with the judge's `misjudgement` of the rollout; e adds up
    its position bias, its error about this pair (`intransitivity`) and `noise`. Score 1 follows q_1 + e/2,
    score 2 q_2 - e/2, the ranking q_1 - q_2 + e, each with noise of its own; then all are rounded to the steps that a
    judge may write and cut at the ends of their scales. Everything is normal and linear, which no real judge is.

    A judge of labels writes a label for q_1 - q_2 + e instead: a tie below `tie_width`, much better from `much_lead`.

    The defaults reproduce four published statistics of generative judges (a single call is right on 77.5 % of pairs,
    position 1 is chosen in 58 %, swapping flips 29 %, scores tie in 27 %) to within 0.5 points; the rest
    was chosen so that circular and ring plans of 16 rollouts come out as in the project's earlier simulation of them.

    Raises:
        UsageError: a number is not finite or outside its bounds.
    """

    position_bias: float = _number(0.38, "Mean preference for position 1; negative: for position 2.", -math.inf)
    position_bias_spread: float = _number(0.1, "Variation of the position bias between groups (std).")
    misjudgement: float = _number(0.35, "Error about a rollout, the same in all its comparisons (std).")
    intransitivity: float = _number(0.3, "Error about a pair, the same in both orders and all repeats (std).")
    noise: float = _number(0.65, "Error of one call that scores and ranking share (std).")
    score_noise: float = _number(0.83, "Further error of each score (std).")
    ranking_noise: float = _number(0.4, "Further error of the ranking (std).")
    repeating: float = _number(
        0.56, "Share of the variance of the three noises that recurs when a comparison is repeated.", high=1.0
    )
    leniency_spread: float = _number(0.8, "Variation of the mean score between groups (points, std).")
    mean_score: float = _number(3.3, "Score of an average rollout, 1 to 5.", 1.0, 5.0)
    score_spread: float = _number(0.8, "Points of score per unit of quality.")
    ranking_spread: float = _number(0.56, "Steps of ranking per unit of quality.")
    score_step: float = _number(1.0, "Scores are written in steps of this from 1; 0: any number.", high=4.0)
    ranking_step: float = _number(1.0, "Rankings are written in steps of this from 1; 0: any number.", high=5.0)
    tie_width: float = _number(0.0, "Scores closer than this become equal (points; units of quality with labels).")
    ties_broken: float = _number(0.66, "Share of equal scores that the judge moves one step apart.", high=1.0)
    contradictions: float = _number(
        0.0, "Share of the rankings against the scores that the judge writes; it softens the others.", high=1.0
    )
    failure_share: float = _number(0.0, "Share of the calls that fail.", high=1.0)
    labels: float = _number(0.0, "Labels of a judge that writes no scores: 3, or 5 with much better and worse.")
    much_lead: float = _number(2.0, "Lead in quality that 5 labels call much better.")

    def __post_init__(self) -> None:
        for each in fields(self):
            value, low, high = getattr(self, each.name), each.metadata["low"], each.metadata["high"]
            if not (math.isfinite(value) and low <= value <= high):
                raise UsageError(f"{each.name.replace('_', '-')} is {value:g}; expected {_bounds_text(low, high)}.")
        if self.labels not in (0, 3, 5):
            raise UsageError(f"labels is {self.labels:g}; expected 3, 5, or 0 for scores.")


def _bounds_text(low: float, high: float) -> str:
    if math.isfinite(high):
        return f"a number from {low:g} to {high:g}"
    return "a finite number" if math.isinf(low) else f"a finite number, {low:g} or more"


def judge_fields() -> tuple["Field[Any]", ...]:
    """Return the fields of the model, each with its `meaning`, `low` and `high` as metadata."""
    return fields(JudgeModel)
