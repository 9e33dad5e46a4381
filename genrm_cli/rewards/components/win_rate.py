"""The share of its comparisons that each rollout won."""

from genrm_cli.rewards.component import GroupKind
from genrm_cli.rewards.estimators.verdict_batch import Verdicts
from genrm_cli.verdicts import preference


def win_rates(n: int, verdicts: Verdicts) -> list[float | None]:
    """Return wins divided by comparisons judged; a tie counts as a win for neither, None is for no
    verdict.

    With every pair judged once, that is wins / (n - 1). If some pairs were not judged, or failed,
    rollouts are measured against different opponents. Repeats and both orders of a pair count
    separately."""
    wins = [0] * n
    counts = [0] * n
    for (i, j, _), verdict in verdicts.items():
        lead = preference(verdict)
        wins[i] += lead > 0
        wins[j] += lead < 0
        counts[i] += 1
        counts[j] += 1
    return [won / count if count else None for won, count in zip(wins, counts, strict=True)]


KIND = GroupKind(
    options={},
    source="judge",
    from_verdicts=True,
    compute=lambda _component, n, verdicts, _columns: win_rates(n, verdicts),
)
