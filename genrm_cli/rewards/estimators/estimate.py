"""Every estimator by its name, for one group and for many."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from genrm_cli.rewards.estimators.averages import average_scores, average_wins
from genrm_cli.rewards.estimators.bradley_terry import fit_bradley_terry
from genrm_cli.rewards.estimators.combined import combine, combine_fitted
from genrm_cli.rewards.estimators.judge_fit import JudgeFit
from genrm_cli.rewards.estimators.verdict_batch import BatchEstimate, JudgedPair, VerdictBatch, batch_of

ESTIMATORS: Mapping[str, Callable[[VerdictBatch, JudgeFit], BatchEstimate]] = {
    "simple_tiebreaker": average_scores,
    "combined": combine,
    "combined_fitted": combine_fitted,
    "win_rate": average_wins,
    "bradley_terry": fit_bradley_terry,
}


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the verdicts of one group say of its rollouts.

    Attributes:
        base_scores: in the group's order; None for a rollout without a verdict.
        standard_errors: of the base scores against the mean of the group's, on their scale; None where they cannot be
            said: too little is known of the judge, or no other rollout has a base score.
        converged: whether the numbers are final; only an iterative estimator can fail to.
        reliability: share of the spread of the base scores that is signal, 0 to 1: the squared correlation to be
            expected, beyond that by chance, with what this judge would say in the limit of many verdicts. 0 where a
            run of enough verdicts shows no signal; None where too little is known of the judge, or fewer than two
            rollouts have a base score.
    """

    base_scores: list[float | None]
    standard_errors: list[float | None]
    converged: bool = True
    reliability: float | None = None


def estimate(name: str, n: int, verdicts: Sequence[JudgedPair], fit: JudgeFit) -> Estimate:
    """Turn the verdicts of a group of n rollouts into base scores; comparisons that failed are left out.

    Raises:
        KeyError: there is no estimator of this name.
    """
    made = ESTIMATORS[name](batch_of(n, verdicts), fit)
    scored = made.scored[0].tolist()
    several = sum(scored) > 1
    known = bool(made.known[0]) and several
    errors = [
        math.sqrt(variance) if of and known else None for variance, of in zip(made.variances[0], scored, strict=True)
    ]
    base_scores = [score if of else None for score, of in zip(made.base_scores[0].tolist(), scored, strict=True)]
    reliability = float(made.reliabilities[0]) if made.assessed[0] and several else None
    return Estimate(base_scores, errors, bool(made.converged[0]), reliability)
