"""Verdicts as rows of numbers, which tests can write, sort and shuffle."""

from collections.abc import Iterable
from typing import NamedTuple

from genrm_cli.pairing.pairs import Comparison
from genrm_cli.rewards.estimators.verdict_batch import Verdicts
from genrm_cli.verdicts import Verdict


class Row(NamedTuple):
    """A verdict on rollouts `i` (shown first) and `j` (shown second) of a group."""

    i: int
    j: int
    score_1: float
    score_2: float
    ranking: float


def verdicts_of(rows: Iterable[Iterable[float]]) -> Verdicts:
    """Return rows as the verdicts of one group, in their order; repeats of a pair are numbered."""
    numbered = ((Row(*row), number) for number, row in enumerate(rows))
    return {Comparison(row.i, row.j, number): Verdict(*row[2:]) for row, number in numbered}
