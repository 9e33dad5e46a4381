"""Scores of a judge on labelled lines by the rules of the benchmarks that they come from.

A line with one better response and several others is best-of-N (RewardBench 2); lists of equal
length are styles (RM-Bench); lists of unequal length are right and wrong responses (PPE). Where a
judge grades single responses, its scores decide, as in the benchmarks; where it compares pairs, its
verdicts do, by a rule of ours. JudgeBench's rule needs no more than a pair: see `accuracy`."""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from genrm_cli.evaluation.accuracy import PairRecord, PairShare, pair_result, share_of_items
from genrm_cli.evaluation.benchmark_rules import (
    StyleAccuracy,
    TiesPrompt,
    best_of,
    best_of_k_curve,
    best_of_pairs,
    style_accuracy,
    ties_score,
)

# Ids of the Ties subset of RewardBench 2, whose prompts come in twos.
_TIES_ID = re.compile(r"(ref|tied):(\d+)")
_EVEN = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkScores:
    """Scores by benchmark; None where the file has no such lines, or the rule needs grades.

    Attributes:
        is_graded: whether the judge grades single responses, so that its scores decide.
        best_of: mean credit of lines with one right response among several, RewardBench 2's rule.
        best_of_chance: what a judge at random would get.
        best_of_by_category: the same by category.
        best_of_mean: unweighted mean over categories, which RewardBench 2 reports.
        ties: RewardBench 2's score of its Ties subset.
        styles: RM-Bench's accuracies, the mean over categories.
        best_of_k: PPE's curve, the expected correctness of the top-scored of k from k = 1 on.
        left_out: lines that count in no score, since one of their verdicts is missing.
    """

    is_graded: bool
    best_of: PairShare
    best_of_chance: float | None
    best_of_by_category: Mapping[str, PairShare]
    best_of_mean: float | None
    ties: float | None
    styles: StyleAccuracy | None
    best_of_k: tuple[float, ...] | None
    left_out: int


class _LabelledLine:
    """The pairs of one line, by the positions of both responses."""

    def __init__(self, records: Sequence[PairRecord]) -> None:
        self.pairs = {(each.chosen_index, each.rejected_index): each for each in records}
        self.right = 1 + max(each.chosen_index for each in records)
        self.wrong = 1 + max(each.rejected_index for each in records)
        self.id = records[0].id
        self.category = records[0].category or ""

    def scores(self) -> tuple[list[float], list[float]] | None:
        """Return the grades of right and wrong responses; None if one is missing."""
        right = [self.pairs[i, 0].chosen_first.score_1 for i in range(self.right)]
        wrong = [self.pairs[0, j].chosen_first.score_2 for j in range(self.wrong)]
        known = [score for score in right if score is not None]
        others = [score for score in wrong if score is not None]
        is_whole = len(known) == self.right and len(others) == self.wrong
        return (known, others) if is_whole else None

    def credit(self, *, is_graded: bool) -> float | None:
        """Return the credit for choosing the right response; None if a verdict is missing."""
        if is_graded:
            scores = self.scores()
            return None if scores is None else best_of([*scores[0], *scores[1]])
        results = [pair_result(self.pairs[0, j]) for j in range(self.wrong)]
        known = [result for result in results if result is not None]
        return best_of_pairs(known) if len(known) == self.wrong else None

    def wins(self) -> list[list[float]] | None:
        """Return, for each right response, 1 for each wrong one that it beats; a tie is wrong. None
        if a verdict is missing.
        """
        rows = []
        for i in range(self.right):
            results = [pair_result(self.pairs[i, j]) for j in range(self.wrong)]
            known = [float(result > _EVEN) for result in results if result is not None]
            if len(known) < self.wrong:
                return None
            rows.append(known)
        return rows

    def is_left_out(self, *, is_graded: bool) -> bool:
        """Return whether a verdict is missing that the line's rule needs."""
        if _TIES_ID.match(self.id) or (self.right > 1 and self.right != self.wrong):
            return is_graded and self.scores() is None
        return (self.credit(is_graded=is_graded) if self.right == 1 else self.wins()) is None


def benchmark_scores(records: Iterable[PairRecord], *, is_graded: bool) -> BenchmarkScores | None:
    """Score the lines with several pairs; None if all have one."""
    by_item: dict[str, list[PairRecord]] = defaultdict(list)
    for record in records:
        by_item[record.item].append(record)
    lines = [_LabelledLine(each) for each in by_item.values() if len(each) > 1]
    if not lines:
        return None
    ties = [line for line in lines if _TIES_ID.match(line.id)]
    others = [line for line in lines if not _TIES_ID.match(line.id)]
    single = [line for line in others if line.right == 1]
    styles = [line for line in others if line.right == line.wrong]
    earned = [(line, line.credit(is_graded=is_graded)) for line in single]
    known = [(line, credit) for line, credit in earned if credit is not None]
    by_category: dict[str, list[float]] = defaultdict(list)
    for line, credit in known:
        by_category[line.category].append(credit)
    return BenchmarkScores(
        is_graded=is_graded,
        best_of=_share(credit for _, credit in known),
        best_of_chance=fmean(1 / (1 + line.wrong) for line, _ in known) if known else None,
        best_of_by_category={name: _share(by_category[name]) for name in sorted(by_category)},
        best_of_mean=fmean(map(fmean, by_category.values())) if known else None,
        ties=_ties_of(ties) if is_graded else None,
        styles=_styles_of(styles),
        best_of_k=_curve_of([line for line in others if line not in styles]) if is_graded else None,
        left_out=sum(line.is_left_out(is_graded=is_graded) for line in lines),
    )


def _share(earned: Iterable[float]) -> PairShare:
    return share_of_items((str(number), credit) for number, credit in enumerate(earned))


def _styles_of(lines: Sequence[_LabelledLine]) -> StyleAccuracy | None:
    """Return the mean over categories of the accuracies of lines, which may differ in size."""
    by_category: dict[str, list[StyleAccuracy]] = defaultdict(list)
    for line in lines:
        wins = line.wins()
        if wins is not None:
            by_category[line.category].append(style_accuracy([wins]))
    found = [_mean_of(each) for each in by_category.values()]
    return _mean_of(found) if found else None


def _mean_of(found: Sequence[StyleAccuracy]) -> StyleAccuracy:
    return StyleAccuracy(
        hard=fmean(each.hard for each in found),
        normal=fmean(each.normal for each in found),
        easy=fmean(each.easy for each in found),
    )


def _ties_of(lines: Sequence[_LabelledLine]) -> float | None:
    """Return the score of the Ties subset over the prompts of which both were graded."""
    by_number: dict[str, dict[str, TiesPrompt]] = defaultdict(dict)
    for line in lines:
        found = _TIES_ID.match(line.id)
        scores = line.scores()
        if found is not None and scores is not None:
            by_number[found[2]][found[1]] = TiesPrompt(*scores)
    pairs = [(two["ref"], two["tied"]) for two in by_number.values() if len(two) == 2]
    return ties_score(pairs) if pairs else None


def _curve_of(lines: Sequence[_LabelledLine]) -> tuple[float, ...] | None:
    """Return the mean curve of lines with as many responses each; None if they differ."""
    graded = [scores for scores in map(_LabelledLine.scores, lines) if scores is not None]
    curves = [
        best_of_k_curve([*right, *wrong], [1.0] * len(right) + [0.0] * len(wrong))
        for right, wrong in graded
    ]
    if not curves or len({len(curve) for curve in curves}) > 1:
        return None
    return tuple(math.fsum(column) / len(curves) for column in zip(*curves, strict=True))
