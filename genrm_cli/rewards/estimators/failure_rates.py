"""Estimate how often a judge fails on texts that do not cause it, from the counts of a run."""

import math
from collections.abc import Iterable
from typing import NamedTuple

# A rate is its upper end: as if of 10 more requests one had failed, plus two standard errors. One
# that is too high makes the test slower; one that is too low convicts innocent texts (.02 for .05:
# 2 of 10,000). Without any request it is 30 %, the least that is safe for a judge nobody knows.
_PRIOR_FAILURES = 1.0
_PRIOR_REQUESTS = 10.0
# Replies to the same texts fail together, always at temperature 0, so that repeats say nothing
# until enough of them were answered.
_PRIOR_REPEATS = 5.0
_PRIOR_REPEATS_FAILED = 4.0
_HIGHEST = 0.95
# Outages hit neighbouring requests together: below this rate, one of a minute would look like a
# text that breaks the server.
_LEAST_BROKEN = 0.05


class FailureCounts(NamedTuple):
    """Requests about pairs by their first reply, and further replies to the same texts.

    Attributes:
        silent: without a verdict.
        broken: without a reply: the server failed, or did not send one that can be read.
        repeats: replies to texts for which an earlier one held no verdict.
        silent_repeats: of these, those without a verdict.
    """

    requests: float = 0.0
    silent: float = 0.0
    broken: float = 0.0
    repeats: float = 0.0
    silent_repeats: float = 0.0

    def rates(self, judges: int = 1) -> "FailureRates":
        """Return the rates of each of several judges: at most as if all failures were its own."""
        requests = self.requests / judges
        repeats = self.repeats / judges
        broken = _upper_rate(self.broken, requests, _PRIOR_FAILURES, _PRIOR_REQUESTS)
        return FailureRates(
            _upper_rate(self.silent, requests, _PRIOR_FAILURES, _PRIOR_REQUESTS),
            max(_LEAST_BROKEN, broken),
            _upper_rate(self.silent_repeats, repeats, _PRIOR_REPEATS_FAILED, _PRIOR_REPEATS),
        )


def sum_counts(counts: Iterable[FailureCounts]) -> FailureCounts:
    """Return the sums of all counts."""
    return FailureCounts(*(sum(column) for column in zip(NO_FAILURES, *counts, strict=True)))


NO_FAILURES = FailureCounts()


class FailureRates(NamedTuple):
    """The probabilities with which requests about innocent texts fail, at most.

    Attributes:
        silent: that the first reply has no verdict.
        broken: that there is no reply.
        repeat: that a reply has no verdict after one without.
    """

    silent: float
    broken: float
    repeat: float


CAUTIOUS_RATES = FailureRates(silent=0.1, broken=0.1, repeat=0.5)
"""Of a judge that fails often, to begin with."""


def _upper_rate(failed: float, total: float, prior_failed: float, prior_total: float) -> float:
    failed += prior_failed
    return min(_HIGHEST, (failed + 2 * math.sqrt(failed)) / (total + prior_total))
