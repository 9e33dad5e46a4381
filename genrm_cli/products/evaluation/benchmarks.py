"""Scores of a judge on labelled lines by the rules of the benchmarks that they come from.

A line with one better response and several others is best-of-N (RewardBench 2); lists of equal
length are styles (RM-Bench); lists of unequal length are right and wrong responses (PPE). Where a
judge grades single responses, its scores decide, as in the benchmarks; where it compares pairs, its
verdicts do, by a rule of ours. JudgeBench's rule needs no more than a pair: see `accuracy`."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean
from typing import Literal

import numpy as np

from genrm_cli.products.evaluation.accuracy import (
    PairRecord,
    PairShare,
    pair_result,
    share_of_items,
)
from genrm_cli.products.evaluation.benchmark_rules import (
    StyleAccuracy,
    TiesPrompt,
    best_of,
    best_of_k_curve,
    best_of_pairs,
    mean_style,
    style_accuracy,
    ties_score,
)

# Ids of the Ties subset of RewardBench 2, whose prompts come in twos.
_TIES_ID = re.compile(r"(ref|tied):(\d+)")


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
    """The verdicts on the pairs of one line; NaN where one is missing.

    Attributes:
        results: [right, wrong] 1 where the right response of the row beats the wrong one of the
            column, 0.5 for a tie, 0 where it loses.
        right: grades of the right responses, and `wrong` of the others.
    """

    def __init__(self, records: Sequence[PairRecord]) -> None:
        self.id = records[0].id
        self.category = records[0].category or ""
        rows = 1 + max(each.chosen_index for each in records)
        columns = 1 + max(each.rejected_index for each in records)
        self.results = np.full((rows, columns), np.nan)
        self.right = np.full(rows, np.nan)
        self.wrong = np.full(columns, np.nan)
        for each in records:
            self.results[each.chosen_index, each.rejected_index] = pair_result(each)
            # A response has one grade, whichever pair it is read from.
            if each.rejected_index == 0:
                self.right[each.chosen_index] = each.chosen_first.score_1
            if each.chosen_index == 0:
                self.wrong[each.rejected_index] = each.chosen_first.score_2

    @property
    def rule(self) -> Literal["ties", "best_of", "styles", "best_of_k"]:
        """The rule that scores the line."""
        if _TIES_ID.match(self.id):
            return "ties"
        rows, columns = self.results.shape
        if rows == 1:
            return "best_of"
        return "styles" if rows == columns else "best_of_k"

    def is_whole(self, *, is_graded: bool) -> bool:
        """Whether no verdict is missing that the rule needs."""
        if is_graded and self.rule != "styles":
            return not np.isnan([*self.right, *self.wrong]).any()
        return self.rule in ("ties", "best_of_k") or not np.isnan(self.results).any()

    def credit(self, *, is_graded: bool) -> float:
        """Return the credit for choosing the right response."""
        if is_graded:
            return best_of([*self.right, *self.wrong])
        return best_of_pairs(self.results[0].tolist())


def benchmark_scores(records: Iterable[PairRecord], *, is_graded: bool) -> BenchmarkScores | None:
    """Score the lines with several pairs; None if all have one."""
    by_item: dict[str, list[PairRecord]] = defaultdict(list)
    for record in records:
        by_item[record.item].append(record)
    lines = [_LabelledLine(each) for each in by_item.values() if len(each) > 1]
    if not lines:
        return None
    whole = [line for line in lines if line.is_whole(is_graded=is_graded)]
    by_rule: dict[str, list[_LabelledLine]] = defaultdict(list)
    for line in whole:
        by_rule[line.rule].append(line)
    single = by_rule["best_of"]
    earned: dict[str, list[float]] = defaultdict(list)
    for line in single:
        earned[line.category].append(line.credit(is_graded=is_graded))
    return BenchmarkScores(
        is_graded=is_graded,
        best_of=_share(chain.from_iterable(earned.values())),
        best_of_chance=fmean(1 / (1 + len(line.wrong)) for line in single) if single else None,
        best_of_by_category={name: _share(earned[name]) for name in sorted(earned)},
        best_of_mean=fmean(map(fmean, earned.values())) if single else None,
        ties=_ties_of(by_rule["ties"]) if is_graded else None,
        styles=_styles_of(by_rule["styles"]),
        best_of_k=_curve_of(by_rule["best_of_k"]) if is_graded else None,
        left_out=len(lines) - len(whole),
    )


def _share(earned: Iterable[float]) -> PairShare:
    return share_of_items((str(number), credit) for number, credit in enumerate(earned))


def _styles_of(lines: Sequence[_LabelledLine]) -> StyleAccuracy | None:
    """Return the mean over categories of the accuracies of lines, which may differ in size."""
    by_category: dict[str, list[StyleAccuracy]] = defaultdict(list)
    for line in lines:
        by_category[line.category].append(style_accuracy(line.results == 1))
    found = [mean_style(each) for each in by_category.values()]
    return mean_style(found) if found else None


def _ties_of(lines: Sequence[_LabelledLine]) -> float | None:
    """Return the score of the Ties subset over the prompts of which both were graded."""
    by_number: dict[str, dict[str, TiesPrompt]] = defaultdict(dict)
    for line in lines:
        kind, number = _TIES_ID.findall(line.id)[0]
        by_number[number][kind] = TiesPrompt(line.right.tolist(), line.wrong.tolist())
    pairs = [(two["ref"], two["tied"]) for two in by_number.values() if len(two) == 2]
    return ties_score(pairs) if pairs else None


def _curve_of(lines: Sequence[_LabelledLine]) -> tuple[float, ...] | None:
    """Return the mean curve of lines with as many responses each; None if they differ."""
    curves = [
        best_of_k_curve(
            [*line.right, *line.wrong], [1.0] * len(line.right) + [0.0] * len(line.wrong)
        )
        for line in lines
    ]
    if len({len(curve) for curve in curves}) != 1:
        return None
    return tuple(np.mean(curves, axis=0).tolist())
