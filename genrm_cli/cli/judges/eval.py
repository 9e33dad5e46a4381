"""`genrm eval`: measure a judge on pairs with a known better answer."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from genrm_cli.cli.console import (
    number_text,
    percent_text,
    print_json,
    say,
    say_warning,
    text_of,
)
from genrm_cli.cli.events import watched
from genrm_cli.cli.options import (
    Invocation,
    argument,
    option,
    run_to_end,
    switch,
    with_settings,
)
from genrm_cli.cli.scoring.preview_text import plan_lines
from genrm_cli.cli.scoring.run_warnings import BASELINE_NOTICE
from genrm_cli.cli.tables import Table, names, numbers, print_parts
from genrm_cli.errors import JudgeError, TooManyUnscoredError, UsageError, counted

if TYPE_CHECKING:
    from genrm_cli.evaluation.accuracy import JudgeQuality, PairShare
    from genrm_cli.evaluation.agreement import RaterAgreement
    from genrm_cli.evaluation.benchmarks import BenchmarkScores
    from genrm_cli.evaluation.evaluate import EvalResult
    from genrm_cli.evaluation.grid import GridCell, GridResult
    from genrm_cli.evaluation.panel_quality import PanelQuality
    from genrm_cli.evaluation.panel_subsets import PanelSubset
    from genrm_cli.evaluation.people import PeopleQuality
    from genrm_cli.metrics.prediction_powered import LabelledMean
    from genrm_cli.metrics.running_stats import Estimated
    from genrm_cli.report.charts import PricedPoint

_COIN = 0.5  # accuracy of one
_MOST_SUBSETS = 15  # of a panel, on one screen; the result has all
# The rows of the table in reading order: fields of `JudgeQuality`, and their words.
_SHARES = {
    "accuracy": "accuracy (ties count half)",
    "judgebench_accuracy": "accuracy (JudgeBench's rule)",
    "accuracy_chosen_first": "  better answer shown first",
    "accuracy_chosen_second": "  better answer shown second",
    "accuracy_longer_chosen": "  better answer is the longer",
    "accuracy_shorter_chosen": "  better answer is the shorter",
    "accuracy_equal_length": "  both equally long",
    "accuracy_if_failures_lose": "accuracy if failures lose",
    "consistent_accuracy": "consistent accuracy",
    "flip_rate": "flip rate",
    "first_place_preference": "first position preferred",
}


@with_settings
def eval_(
    invocation: Invocation,
    pairs: Annotated[
        str,
        argument(
            "PAIRS",
            "Labelled pairs as JSONL (.gz, .zst too), s3://bucket/key, or - for stdin: "
            "JudgeBench, RewardBench, RM-Bench, or prompt, chosen, rejected.",
        ),
    ],
    output: Annotated[
        str | None,
        option(
            "RESULT.json",
            "Where to write the metrics and all outcomes: a path, s3://..., or - for stdout.",
            "--output",
            "-o",
            panel="Output",
        ),
    ] = None,
    sentinels: Annotated[
        str | None,
        option(
            "SENTINELS.jsonl",
            "Also write up to 100 pairs that the judge decides alike in both orders, for a "
            "[watch] table.",
            "--sentinels",
            panel="Output",
        ),
    ] = None,
    labels: Annotated[
        str | None,
        option(
            "LABELS.jsonl",
            "People's labels of pairs, to compare the judge with, and to estimate its accuracy "
            "from few of them.",
            "--labels",
        ),
    ] = None,
    to_label: Annotated[
        str | None,
        option(
            "TO_LABEL.jsonl",
            "Also write up to 100 pairs that people should label next, for --labels.",
            "--to-label",
            panel="Output",
        ),
    ] = None,
    grid: Annotated[
        str | None,
        option(
            "GRID.toml",
            "Compare cells on the pairs: models, profiles, repeats and other settings of a judge.",
            "--grid",
        ),
    ] = None,
    compare_modes: Annotated[
        bool,
        switch(
            "--compare-modes",
            "Compare two modes of this judge on the pairs: --judging pairwise and listwise.",
        ),
    ] = False,
    page: Annotated[
        str | None,
        option(
            "OUT.html",
            "Also write the comparison of a grid or of modes as a page.",
            "--page",
            panel="Output",
        ),
    ] = None,
) -> int:
    """Measure a judge: ask it about labelled pairs in both orders and count how often it is right.

    Example: genrm eval pairs.jsonl --base-url http://localhost:8000/v1 --model my-genrm -o my.json
    """
    from genrm_cli.evaluation.evaluate import evaluate_judge, plan_evaluation, refuse_partial
    from genrm_cli.evaluation.grid import MODES_GRID, parse_grid
    from genrm_cli.groups.check import without_components
    from genrm_cli.jobs.context import new_run
    from genrm_cli.scored.json_form import to_json
    from genrm_cli.settings.sources.settings_file import read_toml

    settings = invocation.settings
    if settings.output.json_output and output == "-":
        raise UsageError("--json and -o - both write to stdout; omit one of them.")
    own = without_components(settings)
    if grid is not None or compare_modes:
        used = "--compare-modes" if compare_modes else "--grid"
        others = {"--sentinels": sentinels, "--labels": labels, "--to-label": to_label}
        others["--requests-to"] = settings.offline.requests_to
        if compare_modes:
            others["--grid"] = grid
        for flag, value in others.items():
            if value is not None:
                raise UsageError(f"{used} and {flag} cannot be combined; omit one of them.")
        table = MODES_GRID if compare_modes or grid is None else read_toml(Path(grid))
        cells = parse_grid(table, grid or used, own)
        return _compare(pairs, output, page, cells, invocation)
    if page is not None:
        raise UsageError("--page shows a comparison: it needs --grid or --compare-modes.")
    if settings.output.dry_run:
        plan = plan_evaluation(pairs, output, new_run(own, invocation.api_keys))
        if settings.output.json_output:
            print_json(plan.as_dict())
        else:
            print_parts(*plan_lines(plan))
        return 0
    with watched(settings) as (progress, events):
        run = new_run(own, invocation.api_keys, progress, events)
        result = run_to_end(evaluate_judge(pairs, output, run, sentinels, labels, to_label))
    if result is None:
        return 0
    if settings.output.json_output:
        print_json(to_json(result))
    elif output != "-" and not settings.output.quiet:
        print_parts(_shares_table(result.figures), "", *_metric_lines(result.figures))
        if result.benchmarks is not None:
            print_parts("", *_benchmark_lines(result.benchmarks))
        if result.panel is not None:
            print_parts(
                "", _categories_table(result.by_judge, "judge"), "", _panel_text(result.panel)
            )
            print_parts("", _subsets_table(result.panel_subsets))
        if result.people is not None:
            print_parts("", *_people_lines(result.people))
        if set(result.by_category) != {""}:
            print_parts("", _categories_table(result.by_category))
    if not settings.output.quiet:
        _say_notes(result, output)
        if sentinels is not None:
            say(f"sentinels     {sentinels}")
        if to_label is not None:
            say(f"to label      {to_label}")
    refuse_partial(result, settings)
    return 0


def _compare(
    pairs: str,
    output: str | None,
    page: str | None,
    cells: "Sequence[GridCell]",
    invocation: Invocation,
) -> int:
    """Ask the cells of a grid one after another, and print how they compare."""
    from genrm_cli.evaluation.evaluate import evaluate_judge, plan_evaluation, refuse_partial
    from genrm_cli.evaluation.grid import (
        check_grid_output,
        compare_cells,
        failed_cell,
        naming_cell,
        write_grid,
    )
    from genrm_cli.groups.check import check_settings
    from genrm_cli.jobs.context import new_run
    from genrm_cli.report.grid_page import write_grid_page
    from genrm_cli.scored.json_form import to_json
    from genrm_cli.settings.sources.keys import find_api_keys
    from genrm_cli.storage.store import Store

    settings = invocation.settings
    keys = {}
    plans = {}
    for cell in cells:
        with naming_cell(cell):
            check_settings(cell.settings)
            keys[cell.name] = find_api_keys(cell.settings)
            if settings.output.dry_run:
                run = new_run(cell.settings, keys[cell.name])
                plans[cell.name] = plan_evaluation(pairs, output, run)
    if plans:
        if settings.output.json_output:
            print_json({name: plan.as_dict() for name, plan in plans.items()})
        else:
            for name, plan in plans.items():
                print_parts(f"{name}:", *plan_lines(plan))
        return 0
    for uri in (output, page):
        if uri is not None:
            check_grid_output(uri, pairs, settings)
    found = []
    failed = []
    first_error = None
    for cell in cells:
        try:
            with naming_cell(cell), watched(settings) as (progress, events):
                run = new_run(cell.settings, keys[cell.name], progress, events)
                result = run_to_end(evaluate_judge(pairs, None, run, journal_for=output))
                if result is None:
                    return 0
                refuse_partial(result, settings)
        except (UsageError, JudgeError, TooManyUnscoredError) as error:
            say_warning(text_of(error))
            failed.append(failed_cell(cell, error))
            first_error = first_error or error
            continue
        if not settings.output.quiet:
            say(f"cell          {cell.name}: {percent_text(result.figures.accuracy.value)}")
        found.append((cell, result))
    if first_error is not None and not found:
        raise first_error
    compared = compare_cells(found, failed)
    if output is not None:
        write_grid(compared, output, settings)
    if page is not None:
        store = Store(settings.storage)
        overwrite = settings.output.force
        write_grid_page(page, compared, _grid_points(compared), store, overwrite=overwrite)
    if settings.output.json_output:
        print_json(to_json(compared))
    elif output != "-" and not settings.output.quiet:
        print_parts(_options_table(compared), "", *_grid_lines(compared))
    return 0 if first_error is None else first_error.exit_code


def _grid_points(found: "GridResult") -> "list[PricedPoint]":
    """Return the accuracies of the options over their costs, for the page."""
    from genrm_cli.report.charts import PricedPoint

    points = []
    for number, option_ in enumerate(found.options, 1):
        share = option_.accuracy
        orders = "both orders" if option_.orders == 2 else "one order"
        points.append(
            PricedPoint(
                share.value,
                share.low,
                share.high,
                title=f"{option_.cell} in {orders}: {percent_text(share.value)}",
                place=str(number),
                cost=option_.cost,
                is_best=option_.on_pareto_line,
            )
        )
    return points


def _options_table(found: "GridResult") -> Table:
    heads = numbers("accuracy", "95 % interval", "behind", "interval", "flips", "first", "length")
    table = Table([*names("cell", "orders"), *heads, *numbers(found.cost_unit), *names("")])
    figures = {cell.name: cell.figures for cell in found.cells}
    for option_ in found.options:
        of_cell = figures[option_.cell]
        notes = ["Pareto"] * option_.on_pareto_line + ["coin"] * option_.is_coin
        table.add(
            option_.cell,
            str(option_.orders),
            *_share_cells(option_.accuracy),
            *_difference_cells(option_.behind),
            percent_text(of_cell.flip_rate.value),
            percent_text(of_cell.first_place_preference.value),
            number_text(of_cell.length_bias.value, "+.2f"),
            f"{option_.cost:,.6g}",
            ", ".join(notes),
        )
    return table


def _grid_lines(found: "GridResult") -> list[str]:
    return [
        f"{counted(found.pairs, 'pair')} on {counted(found.items, 'line')}. behind: how much more "
        "often the first option is right, paired by line; these intervals hold together in 95 % "
        "of cases. Pareto marks options that no cheaper option beats.",
        *(
            f"{cell.name}: {counted(cell.calls, 'call')}, {cell.journal_hits:,} verdicts reused, "
            f"{cell.wall_time_s:,.1f} s"
            for cell in found.cells
        ),
        *(f"not compared: {cell.reason}" for cell in found.failed),
        found.answer,
    ]


def _shares_table(figures: "JudgeQuality") -> Table:
    table = Table([*names("metric"), *numbers("value", "95 % interval", "pairs")])
    for name, words in _SHARES.items():
        share: PairShare = getattr(figures, name)
        if share.pairs or name != "accuracy_equal_length":
            table.add(words, *_share_cells(share), str(share.pairs))
    return table


def _metric_lines(figures: "JudgeQuality") -> list[str]:
    """Return the metrics that are not shares of pairs, as sentences."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in figures.failures_by_kind.items())
    lines = [
        f"{counted(figures.pairs, 'pair')} on {counted(figures.items, 'line')}, "
        f"{counted(figures.verdicts, 'verdict')} ({counted(figures.ties, 'tie')}), "
        f"{counted(figures.failures, 'failure')}{f' ({kinds})' if kinds else ''}",
        f"{percent_text(figures.failure_rate)} of the judgements failed, "
        f"{percent_text(figures.parse_failure_rate)} because the reply could not be parsed",
        f"length bias {figures.length_bias.text('+.3f')}: accuracy where the longer "
        "answer is better, minus accuracy where it is worse",
        *_coin_lines(figures.accuracy),
    ]
    if figures.calls_per_judgement is not None:
        lines.append(
            f"per judgement: {figures.calls_per_judgement:.2f} calls, "
            f"{figures.prompt_tokens_per_judgement:,.0f} tokens in, "
            f"{figures.completion_tokens_per_judgement:,.0f} out, cost "
            f"{number_text(figures.cost_per_judgement, '.6f')}, {figures.latency_median_s:.2f} s "
            "(median)"
        )
    return lines


def _benchmark_lines(scores: "BenchmarkScores") -> list[str]:
    """Return the scores by the rules of benchmarks, as sentences."""
    lines = []
    by = "by its scores" if scores.is_graded else "by its pairs"
    if scores.best_of.value is not None:
        value, interval = _share_cells(scores.best_of)
        prompts = counted(scores.best_of.pairs, "prompt")
        lines.append(
            f"RewardBench 2, {by}: {value} ({interval}) of {prompts}; chance is "
            f"{percent_text(scores.best_of_chance)}; mean over categories "
            f"{percent_text(scores.best_of_mean)}"
        )
    if scores.ties is not None:
        lines.append(f"RewardBench 2, Ties: {scores.ties:.3f} of 1.01")
    if scores.styles is not None:
        styles = scores.styles
        lines.append(
            f"RM-Bench: hard {percent_text(styles.hard)}, normal {percent_text(styles.normal)}, "
            f"easy {percent_text(styles.easy)}; mean {percent_text(styles.mean)}"
        )
    if scores.best_of_k is not None:
        curve = scores.best_of_k
        lines.append(
            f"PPE best-of-k: {percent_text(curve[0])} at k = 1, at most "
            f"{percent_text(max(curve))}, {percent_text(curve[-1])} at k = {len(curve)}"
        )
    if scores.left_out:
        lines.append(f"{counted(scores.left_out, 'line')} left out: a verdict is missing")
    return lines


def _people_lines(people: "PeopleQuality") -> list[str]:
    """Return what people's labels say, as sentences."""
    raters = counted(len(people.raters), "rater")
    pairs = counted(people.pairs, "pair")
    lines = [
        f"people: {counted(people.labels, 'label')} by {raters} of {pairs}; the judge "
        f"agrees with most of them on {percent_text(people.judge_equal)}, kappa "
        f"{_agreement_text(people.judge_kappa)}"
    ]
    if people.raters_alpha is not None and people.raters_kappa is not None:
        lines.append(
            f"between raters: alpha {_agreement_text(people.raters_alpha)}, kappa "
            f"{_agreement_text(people.raters_kappa)}"
        )
    lines.append(f"right by people {_labelled_text(people.judge_accuracy, people.origin)}")
    lines.append(
        f"people prefer the chosen answer {_labelled_text(people.chosen_wins, people.origin)}"
    )
    if people.origin == "unknown":
        lines.append(
            "how these pairs were chosen is unknown: the estimates use the labels alone, and hold "
            "for pairs like them"
        )
    return lines


def _agreement_text(found: "RaterAgreement") -> str:
    if found.value is None:
        return f"undefined ({found.reason})"
    if found.low is None:
        return f"{found.value:.2f} (no interval)"
    return f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f})"


def _labelled_text(found: "LabelledMean | None", origin: str) -> str:
    if found is None:
        return "unknown: each stratum needs at least four labels"
    of = "pairs like these" if origin == "unknown" else "all pairs"
    width = "from the labels alone"
    if found.narrower is not None:
        width = f"the interval is {found.narrower:.2f} times that of the labels alone"
    return (
        f"in {percent_text(found.mean)} of {of} ({100 * found.low:.1f} to {100 * found.high:.1f}; "
        f"{width})"
    )


def _coin_lines(accuracy: "PairShare") -> list[str]:
    """Return a sentence if the judge may be no better than a coin."""
    from genrm_cli.evaluation.accuracy import pairs_to_tell
    from genrm_cli.metrics.running_stats import POWER

    if accuracy.low is None or accuracy.high is None or accuracy.low > _COIN:
        return []
    if accuracy.high < _COIN:
        return ["this judge is worse than chance: check the labels and the profile"]
    needed = pairs_to_tell(accuracy)
    more = ""
    if needed is not None:
        share = round(100 * POWER)
        more = f"; at this accuracy, {needed:,} pairs would show a difference in {share} % of cases"
    return [
        f"this judge is indistinguishable from chance on {counted(accuracy.pairs, 'pair')}{more}"
    ]


def _panel_text(panel: "PanelQuality") -> str:
    """Return what a panel is worth, in sentences."""
    judges = panel.effective_judges.text(".2f")
    correlation = panel.error_correlation.text(".2f")
    together = panel.reliability.text(".2f")
    alone = number_text(panel.reliability_of_one.value, ".2f")
    return (
        f"the panel is worth {judges} judges with independent errors; errors of two judges "
        f"correlate by {correlation}.\nIts votes have {together} of their spread in common with "
        f"the labels, those of one judge {alone} (on {counted(panel.pairs, 'pair')} that all "
        "judged in both orders; the labels are taken as right)."
    )


def _subsets_table(subsets: "Sequence[PanelSubset]") -> Table:
    heads = numbers("accuracy", "95 % interval", "behind", "interval", "worth", "tokens")
    table = Table([*names("judges"), *heads])
    for subset in subsets[:_MOST_SUBSETS]:
        table.add(
            " + ".join(subset.judges),
            *_share_cells(subset.accuracy),
            *_difference_cells(subset.behind),
            number_text(subset.effective_judges, ".2f"),
            f"{subset.tokens:,.0f}",
        )
    return table


def _difference_cells(found: "Estimated | None") -> tuple[str, str]:
    if found is None or found.low is None or found.high is None:
        return "-", "-"
    return number_text(found.value, "+.3f"), f"{found.low:+.3f} to {found.high:+.3f}"


def _categories_table(by_category: "Mapping[str, JudgeQuality]", of: str = "category") -> Table:
    heads = numbers("accuracy", "95 % interval", "both orders", "flips", "first", "failed", "pairs")
    table = Table([*names(of), *heads])
    for name, figures in by_category.items():
        shares = (figures.consistent_accuracy, figures.flip_rate, figures.first_place_preference)
        percentages = map(percent_text, (*(share.value for share in shares), figures.failure_rate))
        table.add(
            name or "(none)", *_share_cells(figures.accuracy), *percentages, str(figures.pairs)
        )
    return table


def _say_notes(result: "EvalResult", output: str | None) -> None:
    if result.judge.is_baseline:
        say_warning(BASELINE_NOTICE)
    for reject in result.rejects[:1]:
        total = counted(result.rejected_lines, "line")
        say_warning(
            f"skipped line {reject.line}: {reject.reason}. {total} skipped in total; --strict "
            "stops at the first."
        )
    for name, count in result.redactions.items():
        say_warning(
            f"{counted(count, 'match', 'matches')} of {name} masked in texts sent to the judge."
        )
    if output is not None and output != "-":
        say(f"result        {output}")


def _share_cells(share: "PairShare") -> tuple[str, str]:
    if share.low is None or share.high is None:
        return percent_text(share.value), "-"
    return percent_text(share.value), f"{100 * share.low:.1f} to {100 * share.high:.1f}"
