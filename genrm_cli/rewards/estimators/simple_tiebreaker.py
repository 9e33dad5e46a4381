"""The reference's estimator for one group, without arrays."""

from collections.abc import Sequence

from genrm_cli.rewards.estimators.verdict_batch import JudgedPair


def estimate_simple_tiebreaker(n: int, verdicts: Sequence[JudgedPair]) -> list[float | None]:
    """Average each rollout's scores; where the two scores of a verdict are equal, its ranking moves them apart.

    A tie adds 3.5 - ranking to the first and takes it from the second; otherwise the ranking is ignored. On the
    scale of the scores, but a tie can leave it: (3, 3, 1) counts as 5.5 and 0.5.

    Args:
        n: rollouts in the group.
        verdicts: any number of them, repeats included; comparisons that failed are left out.

    Returns:
        n base scores in the group's order; None for a rollout without a verdict.

    Source: NVIDIA NeMo Gym, `genrm_compare`, `aggregate_scores`, method `simple_tiebreaker`.
    """
    sums, counts = [0.0] * n, [0] * n
    for i, j, score_1, score_2, ranking in verdicts:
        shift = 3.5 - ranking if score_1 == score_2 else 0.0
        sums[i] += score_1 + shift
        sums[j] += score_2 - shift
        counts[i] += 1
        counts[j] += 1
    return [total / count if count else None for total, count in zip(sums, counts, strict=True)]
