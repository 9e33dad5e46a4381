"""The rates at which a judge fails on texts that do not cause it, from the groups of a run.

A policy that has learned to cause failures does so in every group, and rates that count its texts
would convict none. So the rates are those of a mixture: in a share of the groups one rollout causes
failures, and all other failures are chance. Two steps take turns: the probability that each rollout
is the one, and the rates of the requests that do not show it. They begin at low and at high rates.
Of the two results, the one under which the failures are likelier counts: failures that gather at
one rollout of each group speak for low rates, failures of all rollouts for high ones.

Source: expectation maximisation; A. Dempster, N. Laird, D. Rubin, J. R. Stat. Soc. B 39 (1977) 1.
"""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from genrm_cli.metrics.figures import rounded, rounded_all

_Floats = npt.NDArray[np.float64]
# The shares of its requests that a text may make fail. Replies to the same texts fail together, so
# for repeats the share is at least _LEAST_REPEATED.
_SHARES = (0.25, 0.5, 0.9)
_LEAST_REPEATED = 0.6
# Ways in which a text may cause failures: shares; silent at each reply, silent at the first one, or
# broken; in either position or both. A judge that is silent once and then answers hides a loss as
# well, since its further replies do not count.
_WAYS = 9 * len(_SHARES)
# Weights of the ways for each share. That of silence at the first reply is small: most honest
# failures look like it, and every suspicion costs calls.
_ONCE = 0.03
_LOG_WEIGHTS = np.log(
    np.tile(np.repeat([(1 - _ONCE) / 2, _ONCE, (1 - _ONCE) / 2], 3), len(_SHARES)) * 3 / _WAYS
)
# In simulations, the rates of the last rounds differ by less than their error.
_ROUNDS = 20
# Beyond it a rollout is certain to cause failures, and exponentials overflow.
_GREATEST_RATIO = 300.0
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


# Rates of failure, and the share of groups with a rollout that causes failures, to begin with.
_STARTS = (
    (FailureRates(silent=0.03, broken=0.03, repeat=0.5), 0.5),
    (FailureRates(silent=0.3, broken=0.1, repeat=0.8), 0.01),
)


class FailingGroup(NamedTuple):
    """The requests of a group with failures.

    Attributes:
        request: of each response shown, the number of its request.
        rollout: its number, from 0 without gaps.
        is_later: 0 if it is shown first, else 1.
        counts: [requests, fields of `FailureCounts`].
        size: the number of rollouts.
    """

    request: npt.NDArray[np.intp]
    rollout: npt.NDArray[np.intp]
    is_later: npt.NDArray[np.intp]
    counts: _Floats
    size: int

    @classmethod
    def of(
        cls, shown: Sequence[tuple[int, ...]], counts: Sequence[FailureCounts]
    ) -> "FailingGroup":
        """Make it from the indices that each request shows, and its counts."""
        lengths = [len(each) for each in shown]
        rollouts, numbers = np.unique(np.concatenate(shown), return_inverse=True)
        is_later = np.concatenate([np.arange(length) > 0 for length in lengths]).astype(np.intp)
        request = np.repeat(np.arange(len(shown)), lengths)
        return cls(request, numbers.ravel(), is_later, np.array(counts, float), len(rollouts))


# Most rollouts of a run share their few counts, and a server fits rates between two replies.
@lru_cache(maxsize=65_536)
def evidence(first: FailureCounts, second: FailureCounts, rates: FailureRates) -> float:
    """Return the logarithm of the evidence that a text causes failures, from the counts of the
    requests that show it first, and second; rounded, as it decides.
    """
    ratios = log_ratios(np.array([[first, second]], float), rates)
    return rounded(float(np.logaddexp.reduce(ratios[:, 0] + _LOG_WEIGHTS)))


def log_ratios(counts: _Floats, rates: FailureRates) -> _Floats:
    """Return the log likelihood ratios of each way in which a text may cause failures.

    Args:
        counts: of shape [rollouts, positions, fields of `FailureCounts`].
        rates: of innocent texts.

    Returns:
        Of shape [ways, rollouts].
    """
    requests, silent, broken, repeats, silent_repeats = np.moveaxis(counts, -1, 0)
    ratios = []
    for share in _SHARES:
        again = max(share, _LEAST_REPEATED)
        repeated = _log_ratio(silent_repeats, repeats, rates.repeat, again)
        for by_position in (
            _log_ratio(silent, requests, rates.silent, share) + repeated,
            _log_ratio(silent, requests, rates.silent, share),
            _log_ratio(broken, requests, rates.broken, share),
        ):
            ratios += [by_position[:, 0], by_position[:, 1], by_position.sum(axis=1)]
    return np.array(ratios)


def _log_ratio(failed: _Floats, total: _Floats, rate: float, share: float) -> _Floats:
    """Return the log likelihood ratios if a text makes this share of requests fail besides."""
    each = math.log((1 - (1 - rate) * (1 - share)) / rate)
    return failed * each + (total - failed) * math.log(1 - share)


def fit_failures(
    groups: Sequence[FailingGroup], clean_requests: float, clean_groups: float
) -> FailureCounts:
    """Return the requests about texts that cause no failures, and how many of them failed.

    Args:
        groups: those with failures.
        clean_requests: of groups without a failure.
        clean_groups: the number of these.
    """
    if not groups:
        return FailureCounts(requests=clean_requests)
    sizes = np.array([group.size for group in groups])
    offsets = np.cumsum(sizes) - sizes
    rollout = np.concatenate(
        [group.rollout + offset for group, offset in zip(groups, offsets, strict=True)]
    )
    requests = np.array([len(group.counts) for group in groups])
    firsts = np.cumsum(requests) - requests
    request = np.concatenate(
        [group.request + first for group, first in zip(groups, firsts, strict=True)]
    )
    counted = np.concatenate([group.counts for group in groups])
    by_rollout = np.zeros((sizes.sum(), 2, counted.shape[1]))
    is_later = np.concatenate([group.is_later for group in groups])
    np.add.at(by_rollout, (rollout, is_later), counted[request])
    everything = counted.sum(axis=0)
    everything[0] += clean_requests

    fits = []
    for rates, share in _STARTS:
        weights = np.full((_WAYS, 1), share / _WAYS)
        for _ in range(_ROUNDS):
            ratios = np.minimum(log_ratios(by_rollout, rates), _GREATEST_RATIO)
            chances = np.exp(ratios) * weights / np.repeat(sizes, sizes)
            likelihoods = 1 - weights.sum() + np.add.reduceat(chances.sum(axis=0), offsets)
            causing = chances / np.repeat(likelihoods, sizes)
            caused = np.bincount(request, causing.sum(axis=0)[rollout], len(counted))
            innocent = (1 - caused) @ counted
            innocent[0] += clean_requests
            log_likelihood = np.log(likelihoods).sum() + _log_likelihood(everything, rates)
            weights = causing.sum(axis=1, keepdims=True) / (len(sizes) + clean_groups)
            rates = _rates_of(innocent)
        fits.append(
            (rounded(float(log_likelihood)), FailureCounts(*rounded_all(innocent.tolist())))
        )
    return max(fits, key=lambda fit: fit[0])[1]


def _rates_of(counts: _Floats) -> FailureRates:
    """Return the likeliest rates; a failure is never impossible or certain."""
    requests, silent, broken, repeats, silent_repeats = counts.tolist()
    return FailureRates(
        silent=(silent + 0.5) / (requests + 1),
        broken=(broken + 0.5) / (requests + 1),
        repeat=(silent_repeats + 0.5) / (repeats + 1),
    )


def _log_likelihood(counts: _Floats, rates: FailureRates) -> float:
    """Return the logarithm of the likelihood of the failures if all were chance."""
    requests, silent, broken, repeats, silent_repeats = counts.tolist()
    failed = np.array([silent, broken, silent_repeats])
    answered = np.array([requests, requests, repeats]) - failed
    return float(failed @ np.log(rates) + answered @ np.log1p(-np.array(rates)))
