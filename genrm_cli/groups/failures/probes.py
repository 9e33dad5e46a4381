"""Plan the comparisons that replace failed ones, and that show which text causes failures.

They come after the planned comparisons, a few at a time. The first stage asks each failed pair in
the other order. The next ones show rollouts whose failures may not be chance to further opponents,
the strongest first, in the position in which they failed more often, and then in the other. Where
no opponent is left, a failed request is asked again, and its verdict does not count. In small
groups one text may break most requests, as an outage does: there, as many requests are made without
it, which tell the two apart. Each stage depends on the results of the group alone, so shards,
servers and resumed runs plan the same. The test that convicts (`failure_test.py`) uses the rates of
the run and is valid whatever was asked.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import permutations
from math import floor, log

from genrm_cli.groups.comparisons import scores_alone
from genrm_cli.groups.failures.failure_test import (
    broken_requests,
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
    stage = _Stage(judged, plan, left)
    stage.replace_failed()
    if stage.chosen:
        left -= len(stage.chosen)
        yield stage.chosen
    # Of two rollouts, both look the same.
    if len(judged.answered) < 3:
        return
    probes = Counter[int]()
    for step in _STAGES:
        stage = _Stage(judged, plan, left)
        for index in stage.suspects(probes):
            probes[index] += stage.probe(index, step)
        if not stage.chosen:
            return
        left -= len(stage.chosen)
        yield stage.chosen


class _Stage:
    """The comparisons of one stage, at most `left`."""

    def __init__(self, judged: JudgedGroup, plan: GroupPlan, left: int) -> None:
        self.chosen: list[Comparison] = []
        self._left = left
        self._repeats = plan.pairing.repeats
        trials = trials_of(judged, plan)
        culprits = find_culprits(trials, CAUTIOUS_RATES)
        self._trials = [trial for trial in trials if culprits.isdisjoint(trial.shown)]
        self._own = by_rollout(trials, culprits)
        self._common: set[int] = set()
        if any(trial.counts.broken for trial in self._trials):
            # Also if the server looks down: then only requests without them tell.
            self._common = set.intersection(*map(set, broken_requests(judged, plan)))
        self._asked = Counter(request.shown for request, _ in judged.results)
        scores = scores_alone(judged, plan)
        opponents = [index for index in judged.answered if index not in culprits]
        self._opponents = sorted(opponents, key=lambda index: (-scores[index], index))

    def replace_failed(self) -> None:
        """Ask failed pairs in the other order."""
        for trial in self._trials:
            swapped = trial.shown[::-1]
            if trial.has_failed and swapped and not self._asked[swapped]:
                self._ask(*swapped)
        if self._common:
            self._ask_without(self._common)

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

    def probe(self, index: int, count: int) -> int:
        """Choose up to `count` probes of a rollout, and return how many there are."""
        before = len(self.chosen)
        failed = [trial for trial in self._own[index] if trial.has_failed]
        silent = [trial.shown for trial in failed if not trial.counts.broken]
        firsts = sum(trial.shown[0] == index for trial in failed)
        is_first = 2 * firsts >= len(failed)
        for _ in range(count):
            pair = self._new_pair(index, is_first=is_first) or self._new_pair(
                index, is_first=not is_first
            )
            if pair:
                self._ask(*pair)
            elif silent:
                # A server that fails again says nothing new. Of the others, the one asked least.
                self._ask(*min(silent, key=self._asked.__getitem__))
        chosen = len(self.chosen) - before
        self._ask_without({index})
        return chosen

    def _new_pair(self, index: int, *, is_first: bool) -> tuple[int, int] | None:
        """Return the pair with the strongest opponent that the rollout has not met in a
        position.
        """
        for other in self._opponents:
            pair = (index, other) if is_first else (other, index)
            if other != index and not self._asked[pair]:
                return pair
        return None

    def _ask_without(self, suspects: set[int]) -> None:
        """Ask pairs without these texts, where these may break most requests of the group: as many
        as they break, so that the server is seen to answer others.
        """
        probes = sum(not suspects.isdisjoint(each[:2]) for each in self.chosen)
        broken = sum(trial.counts.broken > 0 for trial in self._trials)
        may_break = broken + probes if broken else 0
        if 2 * may_break <= len(self._trials) + len(self.chosen):
            return
        without = [trial for trial in self._trials if suspects.isdisjoint(trial.shown)]
        missing = may_break - sum(not trial.has_failed for trial in without)
        pairs = [
            pair
            for pair in permutations(self._opponents, 2)
            if suspects.isdisjoint(pair) and not self._asked[pair]
        ]
        for pair in pairs[: max(0, missing)]:
            self._ask(*pair)

    def _ask(self, first: int, second: int) -> None:
        """Choose a pair, as a repeat that no plan has if it was asked before."""
        if len(self.chosen) < self._left:
            times = self._asked[first, second]
            repeat = self._repeats + times if times else 0
            self.chosen.append(Comparison(first, second, repeat))
            self._asked[first, second] += 1
