"""Map a judge's winner, number or scores on its own scale to a verdict."""

import re

from genrm_cli.judging.profiles.parsing.answer import make_failure
from genrm_cli.verdicts import MAX_SCORE, MIDDLE_RANKING, MIN_SCORE, Failure, FailureKind, Verdict

MUCH_BETTER = Verdict(5.0, 1.0, 1.0)
BETTER = Verdict(4.0, 2.0, 2.0)
SLIGHTLY_BETTER = Verdict(3.5, 2.5, 3.0)
TIE = Verdict(3.0, 3.0, MIDDLE_RANKING)
SLIGHTLY_WORSE = Verdict(2.5, 3.5, 4.0)
WORSE = Verdict(2.0, 4.0, 5.0)
MUCH_WORSE = Verdict(1.0, 5.0, 6.0)

_DECIMAL = re.compile(r"[+-]?[0-9]{1,9}(?:\.[0-9]{1,9})?")
# The distance of two scores as a share of their scale, and the rankings if the first or the second leads.
_RANKINGS = ((0.75, 1.0, 6.0), (0.375, 2.0, 5.0), (0.0, 3.0, 4.0))


def verdict_of_scores(first: float, second: float, low: float, high: float) -> Verdict | Failure:
    """Map two scores, higher is better, linearly from `low`..`high` to 1..5, and their distance to the ranking.

    The ranking of equal scores is 3.5. It is 3 for a lead below 3/8 of the scale (1.5 points of 1..5), 2 below 3/4
    (3 points), otherwise 1; 4, 5 and 6 if the second leads.

    Returns:
        `out_of_range` for a score outside the scale.
    """
    for score in (first, second):
        if not low <= score <= high:  # also true for NaN
            return make_failure(FailureKind.OUT_OF_RANGE, f"a score is {score:g}, expected {low:g} to {high:g}")
    return Verdict(_rescale(first, low, high), _rescale(second, low, high), _ranking((first - second) / (high - low)))


def verdict_of_grades(first: float, second: float) -> Verdict:
    """Return the verdict for two grades from 1 to 5. Their distance determines the ranking."""
    return Verdict(first, second, _ranking((first - second) / (MAX_SCORE - MIN_SCORE)))


def parse_decimal(text: str) -> float | None:
    """Return the decimal number in a text, ignoring spaces around it; None for anything else (`4/5`, `nan`)."""
    stripped = text.strip()
    return float(stripped) if _DECIMAL.fullmatch(stripped) else None


def _rescale(score: float, low: float, high: float) -> float:
    return MIN_SCORE + (MAX_SCORE - MIN_SCORE) * ((score - low) / (high - low))


def _ranking(lead: float) -> float:
    if lead == 0:
        return MIDDLE_RANKING
    return next(ahead if lead > 0 else behind for least, ahead, behind in _RANKINGS if abs(lead) >= least)
