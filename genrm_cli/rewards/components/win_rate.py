"""Verdicts of a group → the share of its comparisons that each rollout won."""

from collections.abc import Sequence

from genrm_cli.rewards.estimators import JudgedPair


def win_rates(n: int, verdicts: Sequence[JudgedPair]) -> list[float | None]:
    """Return wins divided by comparisons judged; a tie is a win for neither.

    With every pair judged once that is wins / (n - 1). Where some pairs were not judged, or failed, rollouts are
    measured against different opponents. Repeats and both orders of a pair count one by one.

    Args:
        n: rollouts in the group.
        verdicts: any number of them; comparisons that failed are left out.

    Returns:
        n rates from 0 to 1 in the group's order; None for a rollout without a verdict, and so for a group of one.
    """
    wins, counts = [0] * n, [0] * n
    for verdict in verdicts:
        lead = _lead_of(verdict)
        wins[verdict.i] += lead > 0
        wins[verdict.j] += lead < 0
        counts[verdict.i] += 1
        counts[verdict.j] += 1
    return [won / count if count else None for won, count in zip(wins, counts, strict=True)]


def _lead_of(verdict: JudgedPair) -> float:
    """Return by how much `i` is preferred: by the scores, on equal ones by the ranking; below 0 it is `j`."""
    return verdict.score_1 - verdict.score_2 or 3.5 - verdict.ranking
