"""Render the results of `genrm eval`."""

from collections.abc import Iterator, Mapping

from genrm_cli.cli.console import number_text, percent_text
from genrm_cli.cli.tables import Table, names, numbers
from genrm_cli.errors import counted
from genrm_cli.metrics.figures import DIFFERENCE, WINS
from genrm_cli.metrics.running_stats import POWER, Estimated
from genrm_cli.products.evaluation.accuracy import (
    EVEN,
    JudgeQuality,
    PairShare,
    pairs_to_tell,
)
from genrm_cli.products.evaluation.evaluate import EvalResult
from genrm_cli.products.evaluation.grid import GridResult, agreement_text
from genrm_cli.products.evaluation.people import PeopleQuality
from genrm_cli.products.evaluation.since import JudgeChange
from genrm_cli.products.report.charts import PricedPoint

# The rows of the table in reading order: fields of `JudgeQuality`, and their words.
_SHARES = {
    "accuracy": "accuracy (ties count half)",
    "judgebench_accuracy": "accuracy (JudgeBench's rule)",
    "accuracy_chosen_first": "  better answer shown first",
    "accuracy_chosen_second": "  better answer shown second",
    "accuracy_longer_chosen": "  better answer is the longer",
    "accuracy_shorter_chosen": "  better answer is the shorter",
    "consistent_accuracy": "consistent accuracy",
    "flip_rate": "flip rate",
    "first_place_preference": "first position preferred",
}


def iter_result_parts(result: EvalResult) -> Iterator[str | Table]:
    """Yield the tables of a result, and sentences about it."""
    figures = result.figures
    table = Table([*names("metric"), *numbers("value", "95 % interval", "pairs")])
    for name, words in _SHARES.items():
        share: PairShare = getattr(figures, name)
        table.add(words, *_share_cells(share), str(share.pairs))
    yield table
    yield ""
    yield from _iter_metric_lines(figures)
    for name, score in result.benchmarks.items():
        yield (
            f"{name}: {' ('.join(_share_cells(score.share))}) of "
            f"{counted(score.share.pairs, 'line')}; mean over categories "
            f"{percent_text(score.of_categories)}"
        )
    if result.people is not None:
        yield ""
        yield from _iter_people_lines(result.people)
    if set(result.by_category) != {""}:
        yield ""
        yield _categories_table(result.by_category)
    if result.since is not None:
        yield ""
        yield from _iter_change_lines(result.since)


def iter_grid_parts(found: GridResult) -> Iterator[str | Table]:
    """Yield the table of the options of a grid, and sentences about it."""
    heads = numbers("accuracy", "95 % interval", "behind", "interval", "flips", "first", "length")
    table = Table([*names("cell", "orders"), *heads, *numbers(found.cost_unit), *names("")])
    figures = {cell.name: cell.figures for cell in found.cells}
    for option in found.options:
        of_cell = figures[option.cell]
        notes = ["Pareto"] * option.on_pareto_line + ["chance"] * option.is_coin
        table.add(
            option.cell,
            str(option.orders),
            *_share_cells(option.accuracy),
            *_difference_cells(option.behind),
            percent_text(of_cell.flip_rate.value),
            percent_text(of_cell.first_place_preference.value),
            number_text(of_cell.length_bias.value, "+.2f"),
            f"{option.cost:,.6g}",
            ", ".join(notes),
        )
    yield table
    yield ""
    yield (
        f"{counted(found.pairs, 'pair')} on {counted(found.items, 'line')}. behind: how much more "
        "often the first option is right, paired by line; these intervals hold together in 95 % "
        "of cases. Pareto marks options that no cheaper option beats, chance those whose interval "
        "is not above 50 %."
    )
    for cell in found.cells:
        calls = counted(cell.calls, "call")
        reused = counted(cell.journal_hits, "verdict")
        yield f"{cell.name}: {calls}, {reused} reused, {cell.wall_time_s:,.1f} s"
    for failure in found.failed:
        yield f"not compared: {failure.reason}"
    yield found.answer
    if found.agreement is not None:
        yield agreement_text(found.agreement)


def grid_points(found: GridResult) -> list[PricedPoint]:
    """Return the accuracies of the options over their costs, for the page."""
    points = []
    for number, option in enumerate(found.options, 1):
        share = option.accuracy
        orders = "both orders" if option.orders == 2 else "one order"
        points.append(
            PricedPoint(
                share.value,
                share.low,
                share.high,
                title=f"{option.cell} in {orders}: {_share_cells(share)[0]}",
                place=str(number),
                cost=option.cost,
                is_best=option.on_pareto_line,
            )
        )
    return points


def _iter_metric_lines(figures: JudgeQuality) -> Iterator[str]:
    """Yield the metrics that are not shares of pairs, as sentences."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in figures.failures_by_kind.items())
    yield (
        f"{counted(figures.pairs, 'pair')} on {counted(figures.items, 'line')}, "
        f"{counted(figures.verdicts, 'verdict')} ({counted(figures.ties, 'tie')}), "
        f"{counted(figures.failures, 'failure')}{f' ({kinds})' if kinds else ''}"
    )
    yield f"{percent_text(figures.failure_rate)} of the judgements failed"
    yield (
        f"length bias {figures.length_bias.text(DIFFERENCE)}: accuracy where the longer answer is "
        "better, minus accuracy where it is worse"
    )
    accuracy = figures.accuracy
    if accuracy.high is not None and accuracy.high < EVEN:
        yield "this judge is worse than chance: check the labels and the profile"
    elif accuracy.low is not None and accuracy.low <= EVEN:
        needed = pairs_to_tell(accuracy, EVEN, accuracy)
        more = ""
        if needed is not None:
            share = f"{100 * POWER:.0f} % of cases"
            more = f"; at this accuracy, {needed:,} pairs would show a difference in {share}"
        pairs = counted(accuracy.pairs, "pair")
        yield f"this judge is indistinguishable from chance on {pairs}{more}"
    if figures.calls_per_judgement is not None:
        yield (
            f"per judgement: {figures.calls_per_judgement:.2f} calls, "
            f"{figures.prompt_tokens_per_judgement:,.0f} tokens in, "
            f"{figures.completion_tokens_per_judgement:,.0f} out, cost "
            f"{number_text(figures.cost_per_judgement, '.6f')}, {figures.latency_median_s:.2f} s "
            "(median)"
        )


def _iter_change_lines(change: JudgeChange) -> Iterator[str]:
    """Yield whether the judge has changed, and why, in sentences."""
    yield (
        f"since {change.base} ({change.time}): {change.sentence}. {change.differ:,} of "
        f"{counted(change.requests, 'verdict')} differ, the judge's own repeats in "
        f"{change.own_flips:,} of {change.own_requests:,}."
    )
    for name, share, failed, asked in (
        ("then", change.accuracy_then, change.failures_then, change.judgements_then),
        ("now", change.accuracy_now, change.failures_now, change.judgements_now),
    ):
        accuracy = " (".join(_share_cells(share))
        yield f"{name}: accuracy {accuracy}), {failed:,} of {counted(asked, 'judgement')} failed"
    if not change.same_settings:
        yield "the settings are not those of then: they may be what differs"
    if change.left_out:
        yield f"{counted(change.left_out, 'pair')} left out, which only one of both has"


def _iter_people_lines(people: PeopleQuality) -> Iterator[str]:
    """Yield what people's labels say, as sentences."""
    yield (
        f"people: {counted(people.labels, 'label')} by {counted(len(people.raters), 'rater')} of "
        f"{counted(people.pairs, 'pair')}; the judge agrees with most of them on "
        f"{' ('.join(_share_cells(people.judge_equal))})"
    )
    if people.raters_equal.pairs:
        yield f"two raters agree on {' ('.join(_share_cells(people.raters_equal))})"
    yield f"people prefer the chosen answer in {' ('.join(_share_cells(people.chosen_wins))})"


def _categories_table(by_category: Mapping[str, JudgeQuality]) -> Table:
    heads = numbers("accuracy", "95 % interval", "both orders", "flips", "first", "failed", "pairs")
    table = Table([*names("category"), *heads])
    for name, figures in by_category.items():
        table.add(
            name or "(none)",
            *_share_cells(figures.accuracy),
            percent_text(figures.consistent_accuracy.value),
            percent_text(figures.flip_rate.value),
            percent_text(figures.first_place_preference.value),
            percent_text(figures.failure_rate),
            str(figures.pairs),
        )
    return table


def _share_cells(share: PairShare) -> tuple[str, str]:
    shown = "-" if share.value is None else f"{WINS.number(share.value)} %"
    return shown, WINS.ends(share.low, share.high)


def _difference_cells(found: Estimated | None) -> tuple[str, str]:
    if found is None or found.low is None:
        return "-", "-"
    return DIFFERENCE.number(found.value), DIFFERENCE.ends(found.low, found.high)
