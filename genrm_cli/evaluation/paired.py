"""The direction of the verdicts on a pair."""

from genrm_cli.evaluation.accuracy import PairRecord
from genrm_cli.verdicts import MIDDLE_RANKING, Verdict


def leads_of(pair: PairRecord) -> list[float]:
    """Return how strongly each verdict on a pair prefers the chosen response."""
    first, second = (order.verdict for order in pair.orders)
    leads = [_lead_of(first)] if first is not None else []
    return leads + ([-_lead_of(second)] if second is not None else [])


def _lead_of(verdict: Verdict) -> float:
    """Return how strongly a verdict prefers the response shown first."""
    return verdict.score_1 - verdict.score_2 + MIDDLE_RANKING - verdict.ranking
