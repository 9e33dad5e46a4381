"""What `genrm eval` prints, figure by figure, of seven pairs on which each figure differs."""

import re
from types import SimpleNamespace

from judged_pairs import cell_result, judged_pair
from msgspec.structs import replace

from genrm_cli.cli.judges.eval_text import iter_grid_parts, iter_result_parts
from genrm_cli.cli.tables import Table
from genrm_cli.products.evaluation.accuracy import evaluate
from genrm_cli.products.evaluation.grid import compare_cells
from genrm_cli.products.evaluation.grid_file import GridCell
from genrm_cli.settings import settings_from
from genrm_cli.verdicts import FailureKind

RIGHT = "right"
WRONG = "wrong"
TIE = "tie"
# The longer answer is the better one of the first three, and the worse one of the next two.
PAIRS = [
    judged_pair(RIGHT, RIGHT, "a"),
    judged_pair(RIGHT, RIGHT, "b"),
    judged_pair(RIGHT, WRONG, "c"),
    judged_pair(WRONG, WRONG, "d", chosen=5, rejected=10),
    judged_pair(RIGHT, TIE, "e", chosen=5, rejected=10),
    judged_pair(TIE, FailureKind.NO_VERDICT, "f", chosen=5),
    judged_pair(RIGHT, RIGHT, "g", chosen=5),
]


def printed(parts):
    """Return the rows of tables as lists of cells, and sentences."""
    lines = []
    for part in parts:
        if isinstance(part, Table):
            lines += [re.split(r" {2,}", line.plain.strip()) for line in part.iter_lines(None)][1:]
        else:
            lines.append(part)
    return lines


def test_every_figure_of_a_judge_is_printed():
    """Prices of 1 in and 7 out: 100 tokens in and 10 out cost 0.00017; the median is of 2 s in one
    order and 4 s in the other.
    """
    result = SimpleNamespace(
        figures=evaluate(PAIRS, 1.0, 7.0),
        benchmarks={},
        people=None,
        by_category={"": None},
        since=None,
    )
    lines = printed(iter_result_parts(result))
    assert [(row[0].strip(), row[1], row[3]) for row in lines[:9]] == [
        ("accuracy (ties count half)", "67.9 %", "7"),
        ("accuracy (JudgeBench's rule)", "57.1 %", "7"),
        ("better answer shown first", "78.6 %", "7"),
        ("better answer shown second", "58.3 %", "6"),
        ("better answer is the longer", "83.3 %", "3"),
        ("better answer is the shorter", "37.5 %", "2"),
        ("consistent accuracy", "50.0 %", "6"),
        ("flip rate", "33.3 %", "6"),
        ("first position preferred", "62.5 %", "6"),
    ]
    text = "\n".join(lines[9:])
    assert "7 pairs on 7 lines, 13 verdicts (2 ties), 1 failure (1 no_verdict)" in text
    assert "7.1 % of the judgements failed" in text
    assert "length bias +0.458 (" in text
    assert "1.00 calls, 100 tokens in, 10 out, cost 0.000170, 3.00 s (median)" in text


def test_every_figure_of_a_grid_is_printed():
    """A cell at prices 1 and 7, and one at 2 and 14; both orders cost twice as much. Where they
    disagree, the stronger verdict counts: of `c`, both are as strong, and `e` is right.
    """
    cells = [
        (GridCell(name, {}, settings_from(judge="lexical")), cell_result(PAIRS, factor, 7 * factor))
        for name, factor in (("cheap", 1.0), ("dear", 2.0))
    ]
    lines = printed(iter_grid_parts(compare_cells(cells)))
    assert [(row[0], row[1], row[2], *row[6:]) for row in lines[:4]] == [
        ("cheap", "2", "71.4 %", "33.3 %", "62.5 %", "+0.46", "0.00034", "Pareto, chance"),
        ("dear", "2", "71.4 %", "33.3 %", "62.5 %", "+0.46", "0.00068", "chance"),
        ("cheap", "1", "67.9 %", "33.3 %", "62.5 %", "+0.46", "0.00017", "Pareto, chance"),
        ("dear", "1", "67.9 %", "33.3 %", "62.5 %", "+0.46", "0.00034", "chance"),
    ]
    assert "cheap: 3 calls, 5 verdicts reused, 2.0 s" in lines
    assert lines[-1] == (
        "'cheap' in both orders is the most accurate, but may be no better than chance: its "
        "interval is not above 50 % on 7 pairs."
    )


def test_the_ranking_counts_in_the_strength_of_a_verdict():
    """Equal scores with a ranking of 1 outweigh a lead of one point: both orders together prefer
    the response that the ranking names.
    """
    pair = judged_pair(TIE, WRONG, "a")
    first = {"score_1": 3.0, "score_2": 3.0, "ranking": 1.0}
    second = {"score_1": 4.0, "score_2": 3.0, "ranking": 3.5}
    pair = replace(
        pair,
        chosen_first=replace(pair.chosen_first, **first),
        chosen_second=replace(pair.chosen_second, **second),
    )
    assert (pair.leads, pair.joint_credit) == ((2.5, -1.0), 1.0)
