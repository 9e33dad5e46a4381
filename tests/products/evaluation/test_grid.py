"""A grid: cells on the same pairs, compared pair by pair."""

from random import Random

import pytest
from judged_pairs import cell_result, judged_pair

from genrm_cli.errors import UsageError
from genrm_cli.products.evaluation.grid import compare_cells
from genrm_cli.products.evaluation.grid_file import GridCell, parse_grid
from genrm_cli.settings import settings_from

RIGHT = "right"
WRONG = "wrong"
BASE = settings_from(judge="lexical")


def compared(**cells):
    """Compare cells by their pairs and prices."""
    return compare_cells(
        [(GridCell(name, {}, BASE), cell_result(*each)) for name, each in cells.items()]
    )


def random_pairs(share, count, seed=0):
    """Return pairs of which each order is right with this probability."""
    random = Random(seed)

    def drawn():
        return RIGHT if random.random() < share else WRONG

    return [judged_pair(drawn(), drawn(), f"{number:x}") for number in range(count)]


def pairs_of(count, wrong=()):
    """Return pairs of which these are wrong in both orders."""
    results = (WRONG if number in wrong else RIGHT for number in range(count))
    return [judged_pair(result, result, f"{number:x}") for number, result in enumerate(results)]


def by_option(found):
    """Return the options by the name of their cell and their orders."""
    return {(each.cell, each.orders): each for each in found.options}


def test_a_dear_judge_that_is_no_better_is_not_chosen():
    """The sentence names the cheapest option that cannot be told from the best one."""
    dear = pairs_of(60, range(3, 14))
    found = compared(cheap=(pairs_of(60, range(12)), 1.0), dear=(dear, 9.0))
    assert found.cost_unit == "cost"
    assert found.options[0].cell == "dear"
    assert found.options[0].behind is None
    assert "'cheap' in one order costs 89% less (cost) and cannot be told from" in found.answer


def test_a_clear_difference_is_told():
    """Paired by line, an interval for all options together; the Pareto line has no dominated
    option.
    """
    found = compared(good=(random_pairs(0.97, 200), 2.0), bad=(random_pairs(0.6, 200, 1), 1.0))
    assert found.options[0].cell == "good"
    assert by_option(found)["bad", 1].behind.low > 0.2
    assert "'good'" in found.answer
    line = [each for each in found.options if each.on_pareto_line]
    assert [each.cost for each in line] == sorted((each.cost for each in line), reverse=True)
    assert {each.cell for each in line} == {"good", "bad"}


@pytest.mark.parametrize("wrong", [20, 35])
def test_a_judge_that_guesses_or_is_worse_is_not_recommended(wrong):
    """Where the best interval includes a half, or is below it, nothing is recommended."""
    found = compared(one=(pairs_of(40, range(wrong)), 1.0))
    assert "no better than chance" in found.answer
    assert {option.is_coin for option in found.options} == {True}
    assert found.more_pairs is None


def test_an_option_that_may_guess_is_never_recommended():
    """Twenty pairs, of which the cheap judge gets 60 %: it cannot be told from the good one, nor
    from a coin. The sentence says how many pairs would tell.
    """
    found = compared(weak=(pairs_of(20, range(8)), 1.0), good=(pairs_of(20, range(3)), 7.0))
    weak = by_option(found)["weak", 1]
    assert weak.is_coin
    assert weak.behind.low <= 0
    assert found.answer == (
        "'good' in one order is right most often (85.0% of 20 pairs, tied with 1 other), and no "
        "option that costs over 10% less is as good; 'weak' in one order may be no better than "
        "chance: about 230 pairs would tell."
    )


def test_of_equal_options_the_cheapest_is_the_best_one():
    """A cheap mode asked twice costs more than a dear one asked once: 2 x 7 against 12."""
    pairs = pairs_of(30)
    worse = [judged_pair(WRONG, RIGHT, "0"), *pairs[1:]]
    found = compared(lists=(worse, 7.0), pairs=(pairs, 12.0))
    assert list(by_option(found))[:2] == [("pairs", 1), ("pairs", 2)]
    equal = compared(lists=(pairs, 7.0), pairs=(pairs, 12.0), dear=(pairs, 15.0))
    first = [("lists", 1), ("pairs", 1), ("lists", 2), ("dear", 1)]
    assert list(by_option(equal))[:4] == first
    assert [each.on_pareto_line for each in equal.options] == [True, *[False] * 5]


@pytest.mark.parametrize(("price", "is_chosen"), [(6.4, False), (6.2, True)])
def test_accuracy_is_given_up_only_for_a_real_saving(price, is_chosen):
    """An option that is right less often, by a difference that 60 pairs cannot tell, has to cost
    more than a tenth less than the most accurate one.
    """
    most = (pairs_of(60, range(6)), 7.0)
    found = compared(less=(pairs_of(60, range(5, 12)), price), most=most)
    assert ("'less' in one order costs 11% less" in found.answer) == is_chosen
    assert ("nothing costs over 10% less" in found.answer) != is_chosen


def test_a_difference_that_never_varies_has_a_width():
    """Two judges that never differ on twelve lines are not known to be equal."""
    pairs = pairs_of(12)
    found = compared(one=(pairs, 1.0), other=(pairs, 2.0))
    behind = found.options[-1].behind
    assert behind.value == 0
    assert behind.low < -0.1
    assert found.answer == (
        "'one' in one order is right most often (100.0% of 12 pairs, tied with 3 others), and "
        "nothing costs over 10% less."
    )


def test_cells_come_from_axes_and_tables():
    """Axes with one value are not named; settings are converted as elsewhere."""
    cells = parse_grid(
        {
            "axes": {"model": ["a", "b"], "repeats": [2]},
            "cell": [{"name": "own", "temperature": 0.5, "request_field": ["effort=high"]}],
        },
        "g",
        BASE,
    )
    assert [cell.name for cell in cells] == ["model a", "model b", "own"]
    assert [cell.settings.judge.model for cell in cells] == ["a", "b", None]
    assert cells[0].settings.pairing.repeats == 2
    assert cells[2].settings.judge.temperature == 0.5


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "no cell"),
        ({"axis": {}}, "unknown key 'axis'"),
        ({"axes": {"model": "a"}}, "Expected `array`, got `str`"),
        ({"cell": {"model": "a"}}, "Expected `array`, got `object`"),
        ({"cell": [{"modle": "a"}]}, "a cell cannot set 'modle'; it sets .*criteria"),
        ({"cell": [{"criteria": True}]}, "no \\[criteria\\]"),
        ({"cell": [{"name": "x"}, {"name": "x"}]}, "two cells are named 'x'"),
        ({"axes": {"repeats": list(range(201))}}, "201 cells"),
        ({"axes": dict.fromkeys(("model", "principle", "judge_id"), ["x"] * 999)}, "997,002,999 c"),
        ({"cell": [{"criteria": "x"}]}, "criteria must be true or false"),
        ({"cell": [{"name": 3}]}, "the name 3 of a cell is not text"),
        ({"cell": [{"seed": 1}]}, "a cell cannot set 'seed'"),
        ({"cell": [{"max_calls": 1}]}, "a cell cannot set 'max_calls'"),
    ],
)
def test_a_grid_that_makes_no_sense_is_refused(table, message):
    """Before anything is asked, and with what is wrong."""
    with pytest.raises(UsageError, match=message):
        parse_grid(table, "g", BASE)
