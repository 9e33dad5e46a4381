"""Compare runs: changes over time, and the same rollouts in two runs, matched by content."""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from genrm_cli.metrics.group_measures import correlation
from genrm_cli.report.charts import Point, number_text
from genrm_cli.report.figures import Mean, RunFigures, Share, mean_of, share_of
from genrm_cli.rollouts.rollout import words_of
from genrm_cli.scored.lines import ScoredGroup


@dataclass(frozen=True, slots=True)
class _Scored:
    """A rollout with a reward, and the digest of its response."""

    response: bytes
    index: int
    reward: float
    rank: int | None


@dataclass(frozen=True, slots=True)
class GroupContents:
    """The digest of a prompt, and its scored rollouts, to match them with those of another run."""

    prompt: bytes
    scored: tuple[_Scored, ...]


@dataclass(frozen=True, slots=True)
class MatchedGroup:
    """Two groups that share at least two scored rollouts.

    Attributes:
        numbers: of the groups, on the page.
        correlation: Spearman's, of their rewards; None if one of them does not vary.
        rows: index and rank of each shared rollout here and there.
        same_best: whether the best of both is one rollout.
    """

    numbers: tuple[int, int]
    correlation: float | None
    rows: tuple[tuple[int, int, int | None, int | None], ...]
    same_best: bool


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Two runs on the same rollouts; the groups with the largest changes first."""

    groups: int
    rollouts: int
    correlation: Mean
    changed_best: Share
    matched: tuple[MatchedGroup, ...]


def contents_of(group: ScoredGroup) -> GroupContents:
    """Return the digests and ranks of a group."""
    first = group.members[0].rollout
    return GroupContents(
        _digest("\0".join(f"{turn.role}\0{turn.text}" for turn in first.prompt)),
        tuple(
            _Scored(
                _digest(words_of(each.rollout.response or ())),
                each.line.index,
                each.line.reward,
                each.line.rank,
            )
            for each in group.members
            if each.line.reward is not None
        ),
    )


def compare_runs(
    first: Mapping[int, GroupContents], second: Mapping[int, GroupContents]
) -> RunComparison:
    """Match the groups of two runs, which are given by their numbers on the page."""
    by_prompt: dict[bytes, list[int]] = {}
    for number, group in second.items():
        by_prompt.setdefault(group.prompt, []).append(number)
    matched = []
    for number, group in first.items():
        found = [
            _match(group, second[other], (number, other))
            for other in by_prompt.get(group.prompt, ())
        ]
        best = max(found, key=lambda each: len(each.rows), default=None)
        if best is not None and len(best.rows) > 1:
            matched.append(best)
    matched.sort(key=lambda each: (each.correlation is None, each.correlation or 0.0))
    correlations = [each.correlation for each in matched if each.correlation is not None]
    changed = sum(not each.same_best for each in matched)
    rollouts = sum(len(each.rows) for each in matched)
    return RunComparison(
        len(matched),
        rollouts,
        mean_of(correlations, 1.0),
        share_of(changed, len(matched)),
        tuple(matched),
    )


def _match(here: GroupContents, there: GroupContents, numbers: tuple[int, int]) -> MatchedGroup:
    waiting: dict[bytes, list[_Scored]] = {}
    for each in there.scored:
        waiting.setdefault(each.response, []).append(each)
    # Equal responses are matched in their order.
    pairs = [
        (each, waiting[each.response].pop(0)) for each in here.scored if waiting.get(each.response)
    ]
    mine = [a.reward for a, _ in pairs]
    theirs = [b.reward for _, b in pairs]
    rows = tuple((a.index, b.index, a.rank, b.rank) for a, b in pairs)
    same = bool(pairs) and mine.index(max(mine)) == theirs.index(max(theirs))
    return MatchedGroup(numbers, rank_correlation(mine, theirs), rows, same)


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Spearman's rank correlation, ties with their mean rank; None if one of the two is
    constant.
    """
    ranks: list[list[float]] = []
    for values in (first, second):
        _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
        ranks.append((np.cumsum(counts) - (counts - 1) / 2)[places].tolist())
    return correlation(ranks[0], ranks[1], least=2)


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).digest()


_SIGNIFICANT = 0.01
_MEASURES: dict[str, Callable[[RunFigures], Mean | Share]] = {
    "mean reward": lambda run: run.rewards,
    "spread within groups": lambda run: run.spread,
    "characters a response": lambda run: run.length_chars,
    "length effect": lambda run: run.length_effect,
    "ties": lambda run: run.ties,
    "failures": lambda run: run.failed,
    "first place wins": lambda run: run.first_place,
    "reliability": lambda run: run.reliability,
}


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one measure between two dumps.

    Attributes:
        p_value: of a two-sided z-test of no change; None if one of the two is not measurable.
    """

    measure: str
    earlier: str
    later: str
    before: float | None
    after: float | None
    p_value: float | None

    @property
    def is_significant(self) -> bool:
        """Whether a change this large has a probability below 1 % by chance alone."""
        return self.p_value is not None and self.p_value < _SIGNIFICANT


def in_time(runs: Sequence[RunFigures]) -> list[int]:
    """Return the numbers of the runs by time; those without one last, in their order."""
    return sorted(
        range(len(runs)),
        key=lambda number: (runs[number].time is None, runs[number].time or "", number),
    )


def iter_changes(runs: Sequence[RunFigures]) -> Iterator[Change]:
    """Yield the change of every measure from each run to the next one in time."""
    ordered = [runs[number] for number in in_time(runs)]
    for earlier, later in pairwise(ordered):
        for name, measure in _MEASURES.items():
            before = measure(earlier)
            after = measure(later)
            p_value = _p_value(before, after)
            yield Change(name, earlier.uri, later.uri, before.value, after.value, p_value)


def cells_of(run: RunFigures) -> dict[str, str]:
    """Return the measures of a run as text with their intervals, by name."""
    return {name: _text(measure(run)) for name, measure in _MEASURES.items()}


def iter_series(runs: Sequence[RunFigures]) -> Iterator[tuple[str, list[Point]]]:
    """Yield each measure with its values over time."""
    ordered = [runs[number] for number in in_time(runs)]
    for name, measure in _MEASURES.items():
        found = [(run.uri, measure(run)) for run in ordered]
        yield (
            name,
            [
                Point(each.value, each.low, each.high, f"{uri}: {_text(each)}")
                for uri, each in found
            ],
        )


def _p_value(before: Mean | Share, after: Mean | Share) -> float | None:
    first = _with_variance(before)
    second = _with_variance(after)
    if first is None or second is None:
        return None
    variance = first[1] + second[1]
    gap = abs(first[0] - second[0])
    return math.erfc(gap / math.sqrt(2 * variance)) if variance > 0 else float(gap == 0)


def _with_variance(found: Mean | Share) -> tuple[float, float] | None:
    """Return a value and its squared standard error; a share is shrunk as by Agresti and Caffo.

    Source: A. Agresti and B. Caffo, The American Statistician 54 (2000) 280.
    """
    if isinstance(found, Share):
        share = (found.count + 1) / (found.of + 2)
        return None if found.value is None else (share, share * (1 - share) / (found.of + 2))
    if found.mean is None or found.deviation is None:
        return None
    return found.mean, found.deviation**2 / (found.count - 1)


def _text(found: Mean | Share) -> str:
    if found.value is None:
        return "not measurable"
    if found.low is None or found.high is None:
        return number_text(found.value)
    if isinstance(found, Share):
        return f"{100 * found.value:.1f} % ({100 * found.low:.1f} to {100 * found.high:.1f})"
    return f"{number_text(found.value)} ({number_text(found.low)} to {number_text(found.high)})"
