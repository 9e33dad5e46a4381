"""`genrm eval`: measure a judge on pairs with a known better answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from genrm_cli.cli.console import percent_text, print_json, say, say_error, say_warning, text_of
from genrm_cli.cli.events import watched
from genrm_cli.cli.options import Invocation, argument, run_to_end
from genrm_cli.cli.scoring.preview_text import plan_lines
from genrm_cli.cli.scoring.run_warnings import BASELINE_NOTICE, masked_text
from genrm_cli.cli.tables import print_parts, print_result
from genrm_cli.errors import GenrmError, JudgeError, TooManyUnscoredError, UsageError, counted
from genrm_cli.settings import Settings, changed
from genrm_cli.settings.declare import setting
from genrm_cli.settings.sources.keys import find_api_keys
from genrm_cli.settings.sources.settings_file import read_toml

if TYPE_CHECKING:
    from genrm_cli.products.evaluation.grid_file import GridCell


_option = partial(setting, is_common=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalOptions:
    """What to compare a judge with, and where results go."""

    output: str | None = _option(
        "Where to write the metrics and all outcomes: a path, s3://..., or - for stdout.",
        short_flag="-o",
        metavar="RESULT.json",
        panel="Output",
    )
    labels: str | None = _option(
        "People's labels of pairs, to compare the judge with.",
        metavar="LABELS.jsonl",
        only_with="!grid, !compare_modes",
    )
    since: str | None = _option(
        "Earlier result of these pairs: ask again, and say whether the judge has changed (exit "
        "code 7).",
        metavar="BASE.json",
        only_with="!grid, !compare_modes, !requests_to, !replies_from",
    )
    grid: str | None = _option(
        "Compare cells on the pairs: models, profiles, repeats and other settings of a judge.",
        metavar="GRID.toml",
        only_with="!compare_modes, !requests_to",
    )
    compare_modes: bool = _option(
        "Compare two modes of this judge on the pairs: --judging pairwise and listwise.",
        False,
        only_with="!requests_to",
    )
    page: str | None = _option(
        "Also write the comparison of a grid or of modes as a page.",
        metavar="OUT.html",
        panel="Output",
        only_with="grid|compare_modes",
    )


def eval_(
    invocation: Invocation,
    options: EvalOptions,
    pairs: str = argument(
        "PAIRS",
        "Labelled pairs as JSONL (.gz, .zst too), s3://bucket/key, or - for stdin: JudgeBench, "
        "RewardBench, RM-Bench, or prompt, chosen, rejected.",
    ),
) -> int:
    """Measure a judge: ask it about labelled pairs in both orders and count how often it is right.

    Example: genrm eval pairs.jsonl -o result.json --model my-genrm \\
      --base-url http://localhost:8000/v1
    """
    from genrm_cli.groups.check import check_settings, without_components
    from genrm_cli.products.evaluation.grid_file import (
        MODES_GRID,
        GridCell,
        naming_cell,
        parse_grid,
    )

    settings = without_components(invocation.settings)
    if options.since is not None:  # a recalled verdict is one of then
        settings = changed(settings, use_journal=False, journal=None)
    if settings.output.json_output and options.output == "-":
        raise UsageError("--json and -o - both write to stdout; omit one of them.")
    cells = [GridCell("", {}, settings)]
    is_grid = options.compare_modes or options.grid is not None
    if is_grid:
        used = "--compare-modes" if options.compare_modes else "--grid"
        table = MODES_GRID if options.grid is None else read_toml(Path(options.grid))
        cells = parse_grid(table, options.grid or used, settings)
    for cell in cells:
        with naming_cell(cell):
            check_settings(cell.settings)
            find_api_keys(cell.settings)  # so that none is missing at the last cell
    if settings.output.dry_run:
        return _show_plans(pairs, options.output, cells, as_json=settings.output.json_output)
    if is_grid:
        return _compare(pairs, options.output, options.page, cells, settings)
    return _measure(pairs, options, settings)


def _show_plans(
    pairs: str, output: str | None, cells: "Sequence[GridCell]", *, as_json: bool
) -> int:
    """Print what would be asked, of each cell."""
    from genrm_cli.jobs.context import new_run
    from genrm_cli.products.evaluation.evaluate import plan_evaluation
    from genrm_cli.products.evaluation.grid_file import naming_cell

    plans = {}
    for cell in cells:
        with naming_cell(cell):
            run = new_run(cell.settings, find_api_keys(cell.settings))
            plan = plan_evaluation(pairs, output, run)
        plans[cell.name] = plan.as_dict()
        if not as_json:
            print_parts(*([f"{cell.name}:"] if cell.name else []), *plan_lines(plan))
    if as_json:
        print_json(plans.get("", plans))
    return 0


def _measure(pairs: str, options: EvalOptions, settings: Settings) -> int:
    """Ask a judge about the pairs, and print how often it is right."""
    from genrm_cli.cli.judges.eval_text import iter_result_parts
    from genrm_cli.products.evaluation.evaluate import (
        evaluate_judge,
        refuse_changed,
        refuse_partial,
    )

    output = options.output
    with watched(settings, find_api_keys(settings)) as run:
        result = run_to_end(
            evaluate_judge(pairs, output, run, options.labels, since_uri=options.since)
        )
    if result is None:
        return 0
    if settings.output.json_output or (output != "-" and not settings.output.quiet):
        print_result(settings, result, *iter_result_parts(result))
    if result.judge.is_baseline:
        say_warning(BASELINE_NOTICE)
    for reject in result.rejects[:1]:
        total = counted(result.rejected_lines, "line")
        say_warning(
            f"skipped line {reject.line}: {reject.reason}. {total} skipped in total; --strict "
            "stops at the first."
        )
    for name, count in result.redactions.items():
        say_warning(masked_text(name, count))
    if output not in (None, "-"):
        say(f"result        {output}")
    refuse_partial(result, settings)
    refuse_changed(result)
    return 0


def _compare(
    pairs: str,
    output: str | None,
    page: str | None,
    cells: "Sequence[GridCell]",
    settings: Settings,
) -> int:
    """Ask the cells of a grid one after another, and print how they compare."""
    from genrm_cli.cli.judges.eval_text import grid_points, iter_grid_parts
    from genrm_cli.products.evaluation.evaluate import evaluate_judge, refuse_partial
    from genrm_cli.products.evaluation.grid import FailedCell, compare_cells
    from genrm_cli.products.evaluation.grid_file import naming_cell
    from genrm_cli.products.report.figures_page import write_grid_page
    from genrm_cli.scored.json_form import to_json
    from genrm_cli.storage.encoding.records import render_document
    from genrm_cli.storage.outputs import check_output, write_output

    for uri in (output, page):
        if uri is not None:
            check_output(uri, [pairs], settings)
    found = []
    failed = []
    first_error: GenrmError | None = None
    for cell in cells:
        try:
            keys = find_api_keys(cell.settings)
            with naming_cell(cell), watched(cell.settings, keys) as run:
                result = run_to_end(evaluate_judge(pairs, None, run, journal_for=output))
                if result is None:
                    return 0
                refuse_partial(result, settings)
        except (UsageError, JudgeError, TooManyUnscoredError) as error:
            say_error(error)
            reason = text_of(error)
            failed.append(
                FailedCell(
                    name=cell.name,
                    settings=cell.values,
                    reason=reason,
                    exit_code=error.exit_code,
                )
            )
            first_error = first_error or error
        else:
            say(f"cell          {cell.name}: {percent_text(result.figures.accuracy.value)}")
            found.append((cell, result))
    if first_error is not None and not found:
        raise first_error
    compared = compare_cells(found, failed)
    if output is not None:
        write_output(output, render_document(to_json(compared)), [pairs], settings)
    if page is not None:
        write_grid_page(page, compared, grid_points(compared), [pairs], settings)
    if settings.output.json_output or (output != "-" and not settings.output.quiet):
        print_result(settings, compared, *iter_grid_parts(compared))
    return 0 if first_error is None else first_error.exit_code
