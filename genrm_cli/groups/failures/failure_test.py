"""Test which texts make a judge fail, with a stated error.

A response that makes the judge fail where it would lose hides its losses. Each failure alone may be
chance; their pattern is not. For each rollout the test compares two explanations of its requests:
that they fail as those of innocent texts do (`FailureRates`), or that its text makes a share of
them fail besides, in one of the two positions or in both. The likelihood ratio, averaged over the
shares, the positions and the two kinds of failure, is its evidence. Its mean is 1 for an innocent
text, whatever is asked next and whenever one stops, so it exceeds 10,000 in at most one of 10,000
cases (Ville's inequality). No verdict enters it: good texts are not accused more often than bad
ones. In a small group there are too few requests to convict, so a suspect loses in part.

Source: sequential testing by mixtures of likelihood ratios; H. Robbins, Ann. Math. Stat. 41 (1970)
1397.
"""

import math
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from genrm_cli.groups.group import JudgedGroup
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.judging.requests import RequestId
from genrm_cli.metrics.figures import rounded
from genrm_cli.rewards.estimators.failure_rates import (
    NO_FAILURES,
    FailingGroup,
    FailureCounts,
    FailureRates,
    evidence,
    fit_failures,
    sum_counts,
)
from genrm_cli.verdicts import Failure, FailureKind, Grades, Outcome

# Convict above this evidence: one innocent text of 10,000 reaches it by chance.
CONVICTING = math.log(1e4)
_WITHOUT_ANY = math.log(30)
# A text that is not convicted, but has this evidence, loses in proportion to the probability that
# it causes failures, if one text of fifty does. Below it, most suspects are opponents of one that
# does, or innocent.
_SUSPICIOUS = math.log(30)
_PRIOR = 0.02
# Requests of groups with failures that are remembered, the latest ones: 5 MB. Their rates are known
# to 15 % if one in a hundred fails.
_REMEMBERED = 20_000
# Fitted again when the history has grown by this share: rates move as their number of requests
# does.
_REFIT_SHARE = 0.1
_SERVER_FAILURES = frozenset(
    {
        FailureKind.CONNECTION,
        FailureKind.TIMEOUT,
        FailureKind.HTTP,
        FailureKind.BAD_BODY,
    }
)


Causes = Mapping[RequestId, tuple[int, ...]]
"""The rollouts whose texts made a request fail, by request; requests that failed for other reasons
are absent.
"""


class Trial(NamedTuple):
    """One request about a pair or a list to one judge, with its replies."""

    request: RequestId
    counts: FailureCounts

    @property
    def shown(self) -> tuple[int, ...]:
        """The rollout shown first, and the others."""
        return self.request.shown

    def of_outage(self) -> "Trial":
        """Return the request as one that shows nobody, so that it counts for the rates alone."""
        return self._replace(request=self.request._replace(shown=()))

    @property
    def has_failed(self) -> bool:
        """Whether a reply is missing or holds no verdict."""
        counts = self.counts
        return counts.silent + counts.broken + counts.silent_repeats > 0


def trials_of(judged: JudgedGroup, plan: GroupPlan) -> list[Trial]:
    """Return the requests of a group that tell who causes failures.

    These are comparisons that were answered or failed for a reason that texts may have. A judge
    that answers nothing says nothing about texts, and failures of its server only where it is seen
    to answer others: else it is down, and they count for the rates of the run alone. A reply that
    the text of a response makes ambiguous is left out, since its cause is known."""
    by_judge: dict[int, list[Trial]] = defaultdict(list)
    for request, outcome in judged.results:
        if len(request.shown) > 1 and request.judge < len(plan.judges):
            is_repeat = plan.compares_pairs and request.repeat >= plan.pairing.repeats
            counts = _counts_of(outcome, is_repeat=is_repeat)
            if counts is not None:
                by_judge[request.judge].append(Trial(request, counts))
    trials = []
    for asked in by_judge.values():
        # A group has few lists, so that one text may silence all of them.
        if plan.is_listwise or not all(trial.has_failed for trial in asked):
            is_up = _is_up(asked)
            trials += [
                trial if is_up or not trial.counts.broken else trial.of_outage() for trial in asked
            ]
    # Results come in the order of the answers, which must not decide what is asked next.
    trials.sort(key=attrgetter("request"))
    return trials


def broken_requests(judged: JudgedGroup, plan: GroupPlan) -> list[tuple[int, ...]]:
    """Return what the requests to judges show to which their servers sent no readable reply."""
    shown = []
    for request, outcome in judged.results:
        counts = _counts_of(outcome, is_repeat=False)
        if request.judge < len(plan.judges) and counts is not None and counts.broken:
            shown.append(request.shown)
    return shown


def _is_up(asked: Sequence[Trial]) -> bool:
    """Whether the server answers most requests, or as many without one text as fail with it."""
    broken = [trial for trial in asked if trial.counts.broken]
    if 2 * len(broken) <= len(asked):
        return True
    shown = set(broken[0].shown).intersection(*(trial.shown for trial in broken))
    return any(
        len(broken) <= sum(index not in trial.shown and not trial.has_failed for trial in asked)
        for index in shown
    )


def _counts_of(outcome: Outcome, *, is_repeat: bool) -> FailureCounts | None:
    """Count the replies to a request; a repeat of a failed one counts as a repeated reply.

    None if they say nothing about texts."""
    failure = outcome.result if isinstance(outcome.result, Failure) else None
    # Each ask after a reply without a verdict is a repeat; all but the last were silent. A list of
    # which some responses have no score counts as failed for all: any may be the cause.
    is_partial = isinstance(outcome.result, Grades) and bool(outcome.result.places)
    silent = outcome.reasks > 0 or is_partial
    repeats = outcome.reasks
    silent_repeats = max(0, outcome.reasks - 1)
    if failure is not None:
        if failure.caused_by:
            return None
        if failure.kind.depends_on_texts:
            silent = True
            silent_repeats = outcome.reasks
        elif silent:  # the last of its calls failed for another reason
            repeats -= 1
        elif failure.kind in _SERVER_FAILURES and outcome.attempts and not is_repeat:
            return FailureCounts(requests=1, broken=1)
        else:
            return None
    if is_repeat:
        return FailureCounts(repeats=repeats + 1, silent_repeats=silent_repeats + silent)
    return FailureCounts(1, silent, repeats=repeats, silent_repeats=silent_repeats)


def evidence_of(index: int, trials: Iterable[Trial], rates: FailureRates) -> float:
    """Return the logarithm of the evidence that a text causes failures, from the requests about it;
    rounded, as it decides.
    """
    by_place: tuple[list[FailureCounts], list[FailureCounts]] = ([], [])
    for trial in trials:
        by_place[trial.shown[0] != index].append(trial.counts)
    return evidence(sum_counts(by_place[0]), sum_counts(by_place[1]), rates)


def by_rollout(trials: Iterable[Trial], without: Collection[int] = ()) -> dict[int, list[Trial]]:
    """Return the requests about each rollout with a failure, without those that show others."""
    found: dict[int, list[Trial]] = defaultdict(list)
    failing = set[int]()
    for trial in trials:
        if without and not set(without).isdisjoint(trial.shown):
            continue
        for index in trial.shown:
            found[index].append(trial)
        if trial.has_failed:
            failing.update(trial.shown)
    return {index: found[index] for index in sorted(failing)}


def find_culprits(trials: Sequence[Trial], rates: FailureRates) -> set[int]:
    """Return the rollouts whose texts cause failures: one innocent text of 10,000 is among them.

    A text that causes failures does so with several opponents: without those with any one of them,
    it keeps evidence of 30. Else an opponent could cause them. Lists show most rollouts together,
    so there it has 30 times the evidence of any other."""
    culprits = set[int]()
    while True:
        # The requests that show a culprit say nothing about others.
        own = by_rollout(trials, culprits)
        known = {index: evidence_of(index, about, rates) for index, about in own.items()}
        order = sorted(own, key=lambda index: -known[index])
        found = next(
            (
                index
                for index in order
                if known[index] >= CONVICTING and _is_sole_cause(index, own[index], known, rates)
            ),
            None,
        )
        if found is None:
            return culprits
        culprits.add(found)


def find_suspects(
    trials: Sequence[Trial], culprits: Collection[int], rates: FailureRates
) -> dict[int, float]:
    """Return the probability that a text causes failures, of those that are not convicted."""
    suspects = {}
    for index, own in by_rollout(trials, culprits).items():
        evidence = evidence_of(index, own, rates)
        if evidence >= _SUSPICIOUS:
            odds = math.exp(evidence) * _PRIOR / (1 - _PRIOR)
            suspects[index] = rounded(odds / (1 + odds))
    return suspects


def failures_of(trials: Iterable[Trial], rollouts: Collection[int]) -> Causes:
    """Return the failed requests that show some rollouts, each with those that it shows."""
    causes = {}
    for trial in trials:
        caused_by = tuple(index for index in trial.shown if index in rollouts)
        if trial.has_failed and caused_by:
            causes[trial.request] = caused_by
    return causes


def _is_sole_cause(
    index: int, own: Sequence[Trial], known: Mapping[int, float], rates: FailureRates
) -> bool:
    failed = [trial for trial in own if trial.has_failed]
    opponents = {other for trial in failed for other in trial.shown} - {index}
    if any(len(trial.shown) > 2 for trial in own):
        return all(known[index] - known[other] >= _WITHOUT_ANY for other in opponents)
    return all(
        evidence_of(index, [trial for trial in own if other not in trial.shown], rates)
        >= _WITHOUT_ANY
        for other in opponents
    )


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
