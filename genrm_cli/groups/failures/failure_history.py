"""The rates at which a judge fails on texts that do not cause it, from the groups of a run."""

from collections import deque
from collections.abc import Sequence

from genrm_cli.groups.failures.failure_test import Trial, count_failures, find_suspects
from genrm_cli.rewards.estimators.failure_rates import (
    NO_FAILURES,
    FailureCounts,
    FailureRates,
    sum_counts,
)

# Requests of groups with failures that are remembered, the latest ones: 5 MB. Their rates are known
# to 15 % if one in a hundred fails.
_REMEMBERED = 20_000
# Fitted again when the history has grown by this share: rates move as their number of requests
# does.
_REFIT_SHARE = 0.1
# Each round leaves out the texts that are suspicious at the rates of the one before: texts of a
# policy that has learned to cause failures may be in every group, and rates that count them would
# convict none. Innocent texts with failures are left out, too, most in the first round; so rates
# begin low and rise to those of innocent texts. Only repeats begin high: if all of them fail, as at
# temperature 0, each failure looks like four.
_ROUNDS = 6
_FIRST_RATES = FailureRates(silent=0.05, broken=0.05, repeat=0.9)


class FailureHistory:
    """The latest requests of a run that tell how often innocent texts fail."""

    def __init__(self) -> None:
        self._groups: deque[Sequence[Trial]] = deque()
        self._remembered = 0
        self._clean = 0.0
        self._grown = 0
        self._fitted = NO_FAILURES

    def add_group(self, trials: Sequence[Trial]) -> None:
        """Add the requests of a group."""
        self._grown += len(trials)
        if not any(trial.has_failed for trial in trials):
            self._clean += len(trials)
            return
        self._groups.append(trials)
        self._remembered += len(trials)
        while self._remembered > _REMEMBERED and len(self._groups) > 1:
            # Groups without failures are forgotten at the same rate.
            forgotten = len(self._groups.popleft())
            self._clean *= 1 - forgotten / self._remembered
            self._remembered -= forgotten

    def fit(self) -> FailureCounts:
        """Return the requests about texts that cause no failures, and how many of them failed."""
        if self._grown > _REFIT_SHARE * self._fitted.requests:
            self._grown = 0
            self._fitted = self._fit()
        return self._fitted

    def _fit(self) -> FailureCounts:
        fitted = NO_FAILURES
        rates = _FIRST_RATES
        for _ in range(_ROUNDS):
            found = (
                count_failures(trials, find_suspects(trials, rates)) for trials in self._groups
            )
            counted = sum_counts([FailureCounts(requests=self._clean), *found])
            if counted == fitted:
                break
            fitted = counted
            rates = fitted.rates()
        return fitted
