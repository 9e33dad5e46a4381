"""Plan the comparisons that replace failed ones, and that show which text causes failures.

They come after the planned comparisons, a few at a time. The first stage asks each failed pair in
the other order. The next ones show rollouts whose failures may not be chance to further opponents,
the strongest first, in the position in which they failed more often, and then in the other. Where
no opponent is left, a failed request is asked again, and its verdict does not count. Each stage
depends on the results of the group alone, so shards, servers and resumed runs plan the same. The
test that convicts (`failure_test.py`) uses the rates of the run and is valid whatever was asked.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import floor, log

from genrm_cli.groups.comparisons import scores_alone
from genrm_cli.groups.failures.failure_test import (
    Trial,
    by_rollout,
    evidence_of,
    find_culprits,
    trials_of,
)
from genrm_cli.groups.group import JudgedGroup
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.pairing.pairs import Comparison
from genrm_cli.rewards.estimators.failure_rates import CAUTIOUS_RATES, FailureRates, sum_counts

# Suspicion begins at low rates, since most judges fail rarely. It ends with a conviction at
# cautious ones, which holds in nearly every run.
_SUSPECTING = FailureRates(silent=0.03, broken=0.05, repeat=0.7)
# Where the other rollouts of a group fail as well, its judge often fails, and one more failure is
# no reason to ask: at 30 % of failures, groups of 16 then take 1.9 times the planned calls and not
# 3.7. This many requests speak for the low rate.
_PRIOR_REQUESTS = 8
# The evidence above which a rollout is shown to further opponents, at first and later.
_PROBED = log(3)
_STILL_PROBED = 0.0
# Probes of a rollout in each stage: 12 in all, few at first, since most failures are chance, and
# then more, since each stage takes as long as the judge's slowest reply.
_STAGES = (1, 2, 4, 5)


def iter_probes(judged: JudgedGroup, plan: GroupPlan) -> Iterator[list[Comparison]]:
    """Yield the further comparisons by stages; the results of each must be there for the next."""
    pairing = plan.pairing
    left = floor(pairing.max_extra * pairing.count(len(judged.answered)))
    if not (left and plan.compares_pairs and plan.tests_failures):
        return
    trials = trials_of(judged, plan)
    asked = {request.shown for request, _ in judged.results}
    swapped = dict.fromkeys(
        Comparison(trial.shown[1], trial.shown[0], 0) for trial in trials if trial.has_failed
    )
    others = [each for each in swapped if (each.i, each.j) not in asked][:left]
    if others:
        left -= len(others)
        yield others
    # Of two rollouts, both look the same.
    if len(judged.answered) < 3:
        return
    probes = Counter[int]()
    for step in _STAGES:
        planner = _Stage(judged, plan)
        for index in planner.suspects(probes):
            chosen = planner.choose(index, min(step, left))
            left -= len(chosen)
            probes[index] += len(chosen)
        if not planner.chosen:
            return
        yield planner.chosen


class _Stage:
    """The probes of one stage."""

    def __init__(self, judged: JudgedGroup, plan: GroupPlan) -> None:
        self.chosen: list[Comparison] = []
        self._repeats = plan.pairing.repeats
        trials = trials_of(judged, plan)
        self._culprits = find_culprits(trials, CAUTIOUS_RATES)
        self._trials = [trial for trial in trials if self._culprits.isdisjoint(trial.shown)]
        self._own = by_rollout(trials, self._culprits)
        self._asked = Counter(request.shown for request, _ in judged.results)
        scores = scores_alone(judged, plan)
        opponents = [index for index in judged.answered if index not in self._culprits]
        self._opponents = sorted(opponents, key=lambda index: (-scores[index], index))

    def suspects(self, probes: Counter[int]) -> list[int]:
        """Return the rollouts to probe, those with most evidence first."""
        evidence = {
            index: evidence_of(index, own, self._rates_without(index))
            for index, own in self._own.items()
        }
        suspects = [
            index
            for index, value in evidence.items()
            if value > (_STILL_PROBED if probes[index] else _PROBED)
        ]
        return sorted(suspects, key=lambda index: -evidence[index])

    def _rates_without(self, index: int) -> FailureRates:
        """Return the rates of failure of the requests that do not show a rollout."""
        others = sum_counts(trial.counts for trial in self._trials if index not in trial.shown)
        silent = (others.silent + _PRIOR_REQUESTS * _SUSPECTING.silent) / (
            others.requests + _PRIOR_REQUESTS
        )
        return _SUSPECTING._replace(silent=max(_SUSPECTING.silent, silent))

    def choose(self, index: int, count: int) -> list[Comparison]:
        """Choose up to `count` probes of a rollout."""
        chosen = []
        failed = [trial for trial in self._own[index] if trial.has_failed]
        firsts = sum(trial.shown[0] == index for trial in failed)
        is_first = 2 * firsts >= len(failed)
        for _ in range(count):
            probe = (
                self._new_pair(index, is_first=is_first)
                or self._new_pair(index, is_first=not is_first)
                or self._repeat(failed)
            )
            self._asked[probe.i, probe.j] += 1
            chosen.append(probe)
        self.chosen += chosen
        return chosen

    def _new_pair(self, index: int, *, is_first: bool) -> Comparison | None:
        """Return the pair with the strongest opponent that the rollout has not met in a
        position.
        """
        for other in self._opponents:
            pair = (index, other) if is_first else (other, index)
            if other != index and not self._asked[pair]:
                return Comparison(*pair, 0)
        return None

    def _repeat(self, failed: Sequence[Trial]) -> Comparison:
        """Return the failed pair that was asked least, as another repeat of it: one that no plan
        has.
        """
        first, second = min((trial.shown for trial in failed), key=self._asked.__getitem__)
        return Comparison(first, second, self._repeats + self._asked[first, second])
