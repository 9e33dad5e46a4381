"""The requests of a run that tell how often a judge fails on texts that do not cause it."""

from collections import deque
from collections.abc import Sequence

from genrm_cli.groups.failures.failure_test import Trial
from genrm_cli.rewards.estimators.failure_rates import (
    NO_FAILURES,
    FailingGroup,
    FailureCounts,
    fit_failures,
)

# Requests of groups with failures that are remembered, the latest ones: 5 MB. Their rates are known
# to 15 % if one in a hundred fails.
_REMEMBERED = 20_000
# Fitted again when the history has grown by this share: rates move as their number of requests
# does.
_REFIT_SHARE = 0.1


class FailureHistory:
    """The latest requests of a run that tell how often innocent texts fail."""

    def __init__(self) -> None:
        self._groups: deque[FailingGroup] = deque()
        self._remembered = 0
        self._clean_requests = 0.0
        self._clean_groups = 0.0
        self._grown = 0
        self._fitted = NO_FAILURES

    def add_group(self, trials: Sequence[Trial]) -> None:
        """Add the requests of a group."""
        self._grown += len(trials)
        if not any(trial.has_failed for trial in trials):
            self._clean_requests += len(trials)
            self._clean_groups += bool(trials)
            return
        shown = [trial.shown for trial in trials]
        self._groups.append(FailingGroup.of(shown, [trial.counts for trial in trials]))
        self._remembered += len(trials)
        while self._remembered > _REMEMBERED and len(self._groups) > 1:
            # Groups without failures are forgotten at the same rate.
            forgotten = len(self._groups.popleft().counts)
            self._clean_requests *= 1 - forgotten / self._remembered
            self._clean_groups *= 1 - forgotten / self._remembered
            self._remembered -= forgotten

    def fit(self) -> FailureCounts:
        """Return the requests about texts that cause no failures, and how many of them failed."""
        if self._grown > _REFIT_SHARE * self._fitted.requests:
            self._grown = 0
            self._fitted = fit_failures(self._groups, self._clean_requests, self._clean_groups)
        return self._fitted
