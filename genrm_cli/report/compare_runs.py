"""The same rollouts in two runs, matched by what they say: whose ranks changed."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from genrm_cli.report.figures import Mean, Share, mean_of, share_of
from genrm_cli.report.measure_group import correlation
from genrm_cli.rollouts.rollout import words_of
from genrm_cli.scored.lines import ScoredGroup


@dataclass(frozen=True, slots=True)
class GroupContents:
    """What tells whether a group of another run holds the same rollouts.

    Attributes:
        prompt: digest of the prompt.
        responses: digests, by place.
        indices: of the rollouts, by place; rewards and ranks likewise.
    """

    prompt: bytes
    responses: tuple[bytes, ...]
    indices: tuple[int, ...]
    rewards: tuple[float | None, ...]
    ranks: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class MatchedGroup:
    """Two groups that share at least two scored rollouts.

    Attributes:
        numbers: of the groups, on the page.
        correlation: Spearman's, of their rewards; None where one of them does not vary.
        rows: index and rank of each shared rollout here and there.
        same_best: whether the best of both is one rollout.
    """

    numbers: tuple[int, int]
    correlation: float | None
    rows: tuple[tuple[int, int, int | None, int | None], ...]
    same_best: bool


@dataclass(frozen=True, slots=True)
class Comparison:
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
        tuple(_digest(words_of(each.rollout.response or ())) for each in group.members),
        tuple(each.line.index for each in group.members),
        tuple(each.line.reward for each in group.members),
        tuple(each.line.rank for each in group.members),
    )


def compare_runs(first: Mapping[int, GroupContents], second: Mapping[int, GroupContents]) -> Comparison:
    """Match the groups of two runs, which are given by their numbers on the page."""
    by_prompt: dict[bytes, list[int]] = {}
    for number, group in second.items():
        by_prompt.setdefault(group.prompt, []).append(number)
    matched = []
    for number, group in first.items():
        best: MatchedGroup | None = None
        for other in by_prompt.get(group.prompt, ()):
            found = _match(group, second[other], (number, other))
            if len(found.rows) > 1 and (best is None or len(found.rows) > len(best.rows)):
                best = found
        matched += [] if best is None else [best]
    matched.sort(key=lambda each: (each.correlation is None, each.correlation or 0.0))
    correlations = [each.correlation for each in matched if each.correlation is not None]
    changed = sum(not each.same_best for each in matched)
    rollouts = sum(len(each.rows) for each in matched)
    return Comparison(
        len(matched), rollouts, mean_of(correlations, 1.0), share_of(changed, len(matched)), tuple(matched)
    )


def _match(here: GroupContents, there: GroupContents, numbers: tuple[int, int]) -> MatchedGroup:
    places: dict[bytes, list[int]] = {}
    for place, digest in enumerate(there.responses):
        if there.rewards[place] is not None:
            places.setdefault(digest, []).append(place)
    pairs = []
    for place, digest in enumerate(here.responses):
        if here.rewards[place] is not None and places.get(digest):
            pairs.append((place, places[digest].pop(0)))  # equal responses are matched in their order
    mine = [reward for place, _ in pairs if (reward := here.rewards[place]) is not None]
    theirs = [reward for _, place in pairs if (reward := there.rewards[place]) is not None]
    rows = tuple((here.indices[a], there.indices[b], here.ranks[a], there.ranks[b]) for a, b in pairs)
    same = bool(pairs) and mine.index(max(mine)) == theirs.index(max(theirs))
    return MatchedGroup(numbers, rank_correlation(mine, theirs), rows, same)


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Spearman's rank correlation, ties with their mean rank; None where one of the two is constant."""
    return correlation(_ranks(first), _ranks(second), least=2)


def _ranks(values: Sequence[float]) -> list[float]:
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    means: list[float] = (np.cumsum(counts) - (counts - 1) / 2)[places].tolist()
    return means


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).digest()
