"""`genrm eval`: how good a judge is, by pairs of answers of which one is known to be better."""

from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from genrm_cli.cli.console import say, say_warning, showing_progress, stdout_console
from genrm_cli.cli.events import Events
from genrm_cli.cli.options import Invocation, with_settings
from genrm_cli.errors import UsageError
from genrm_cli.metrics.progress import RunProgress

_NOT_FOR_PAIRS = (
    *("dialect", "group_by", "min_age", "compat", "parallel_files", "output", "output_template", "dry_run"),
    *("keep_replies", "leases", "lease_expiry", "lock"),
)
_NAMED_REJECTS = 3
_SHARES = {
    "accuracy": "accuracy",
    "accuracy_chosen_first": "  better answer shown first",
    "accuracy_chosen_second": "  better answer shown second",
    "accuracy_longer_chosen": "  better answer is the longer",
    "accuracy_shorter_chosen": "  better answer is the shorter",
    "accuracy_equal_length": "  both equally long",
    "accuracy_if_failures_lose": "accuracy if failures lose",
    "consistent_accuracy": "right in both orders",
    "flip_rate": "flips when swapped",
    "first_place_preference": "prefers what is shown first",
}


@with_settings("Input", "Judge", "Limits", "Journal", "Output", "Storage", leave_out=_NOT_FOR_PAIRS)
def eval_(
    invocation: Invocation,
    pairs: Annotated[
        str | None,
        typer.Argument(
            metavar="PAIRS",
            show_default=False,
            help="Labelled pairs as JSONL (.gz, .zst too), s3://bucket/key, or - for stdin: JudgeBench, RewardBench, "
            "RM-Bench, or prompt, chosen, rejected.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="RESULT.json",
            help="Write figures and all outcomes there: a path, s3://..., or - for stdout.",
            rich_help_panel="Output",
            show_default=False,
        ),
    ] = None,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--compare",
            metavar="A.json B.json",
            help="Say whether one of two judges is significantly better, from two results; no judge is asked.",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Measure a judge: ask it about labelled pairs in both orders, and count how often it is right.

    Example: genrm eval pairs.jsonl --base-url http://localhost:8000/v1 --model my-genrm -o my-genrm.json

    Example: genrm eval --compare my-genrm.json other.json
    """
    if (pairs is None) == (compare is None):
        raise UsageError("give labelled pairs (genrm eval PAIRS), or two results (genrm eval --compare A.json B.json).")
    if compare is not None:
        if output is not None:
            raise UsageError("--compare writes no result; redirect --json instead of -o.")
        return _compare(*compare, invocation)
    return _evaluate(str(pairs), output, invocation)


def _evaluate(pairs: str, output: str | None, invocation: Invocation) -> int:
    from genrm_cli.cli.event_loop import run_to_end
    from genrm_cli.evaluation.evaluate import evaluate_judge, refuse_partial, without_components
    from genrm_cli.jobs.context import new_run

    settings = invocation.settings
    if settings.output.json_output and output == "-":
        raise UsageError("--json and -o - both want stdout; drop one of them.")
    progress = RunProgress()
    with (
        Events(settings.output.log_json, quiet=settings.output.quiet) as events,
        showing_progress(progress, events, quiet=settings.output.quiet),
    ):
        run = new_run(without_components(settings), invocation.api_keys, progress, events)
        result = run_to_end(evaluate_judge(pairs, output, run))
    if settings.output.json_output:
        _print_json(result)
    elif output != "-":
        _print_figures(result)
    if not settings.output.quiet:
        _say_notes(result, output)
    refuse_partial(result)
    return 0


def _compare(a: str, b: str, invocation: Invocation) -> int:
    from genrm_cli.evaluation.compare_results import compare_results
    from genrm_cli.storage.formats.location import S3Options

    settings = invocation.settings
    s3 = S3Options(settings.storage.s3_endpoint_url, settings.storage.s3_profile, settings.storage.s3_region)
    contest = compare_results(a, b, s3)
    if settings.output.json_output:
        _print_json(contest)
    else:
        _print_contest(contest)
    if contest["left_out"] and not settings.output.quiet:
        say_warning(
            f"{contest['left_out']} pairs that both runs hold lack a verdict and were left out; with a missing verdict "
            f"counted as wrong p is {_p_text(contest['p_value_if_failures_lose'])}."
        )
    return 0


def _print_json(value: dict[str, Any]) -> None:
    from genrm_cli.storage.formats.records import render_record

    typer.echo(render_record(value), nl=False)


def _print_figures(result: dict[str, Any]) -> None:
    console = stdout_console()
    figures = result["figures"]
    console.print(_figures_table(figures))
    console.print()
    for line in _lines_of(figures):
        console.print(Text(line), soft_wrap=True)
    if set(result["by_category"]) != {""}:
        console.print()
        console.print(_categories_table(result["by_category"]))


def _figures_table(figures: dict[str, Any]) -> Table:
    table = _table("figure", "value", "95 % interval", "pairs")
    for name, words in _SHARES.items():
        share = figures[name]
        if name == "accuracy_equal_length" and not share["pairs"]:
            continue
        table.add_row(Text(words), _percent(share["value"]), _interval(share), str(share["pairs"]))
    return table


def _lines_of(figures: dict[str, Any]) -> list[str]:
    """Say what is no share of pairs."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in figures["failures_by_kind"].items())
    lines = [
        f"{figures['pairs']} pairs on {figures['items']} lines, {figures['verdicts']} verdicts, {figures['ties']} of "
        f"them ties, {figures['failures']} failures{f' ({kinds})' if kinds else ''}",
        f"{_percent(figures['failure_rate'])} of the judgements failed, {_percent(figures['parse_failure_rate'])} "
        "because the reply held no readable verdict",
        f"length bias {_number(figures['length_bias'], '+.3f')} (accuracy when the longer answer is right less that "
        f"when it is wrong); lean to a place p = {_p_text(figures['first_place_p_value'])}",
    ]
    if figures["calls_per_judgement"] is not None:
        lines.append(
            f"a judgement takes {figures['calls_per_judgement']:.2f} calls, "
            f"{figures['prompt_tokens_per_judgement']:,.0f} tokens in, "
            f"{figures['completion_tokens_per_judgement']:,.0f} out, cost "
            f"{_number(figures['cost_per_judgement'], '.6f')}, {figures['latency_median_s']:.2f} s (median)"
        )
    return lines


def _categories_table(by_category: dict[str, dict[str, Any]]) -> Table:
    table = _table("category", "accuracy", "95 % interval", "both orders", "flips", "first place", "failures", "pairs")
    for name, figures in by_category.items():
        table.add_row(
            Text(name or "(none)"),
            _percent(figures["accuracy"]["value"]),
            _interval(figures["accuracy"]),
            *(_percent(figures[each]["value"]) for each in ("consistent_accuracy", "flip_rate")),
            _percent(figures["first_place_preference"]["value"]),
            _percent(figures["failure_rate"]),
            str(figures["pairs"]),
        )
    return table


def _print_contest(contest: dict[str, Any]) -> None:
    console = stdout_console()
    table = _table("judge", "accuracy", "95 % interval", "both orders", "95 % interval", "better on")
    for side in ("a", "b"):
        judge = contest[side]["judge"]
        name = judge.get("name") if isinstance(judge, dict) else None
        accuracy, consistent = contest[f"accuracy_{side}"], contest[f"consistent_{side}"]
        table.add_row(
            Text(f"{side.upper()}: {name or '?'} ({contest[side]['result']})"),
            *(_percent(accuracy["value"]), _interval(accuracy), _percent(consistent["value"]), _interval(consistent)),
            str(contest[f"{side}_better"]),
        )
    console.print(table)
    console.print()
    console.print(Text(_verdict_text(contest)), soft_wrap=True)
    console.print(
        Text(
            f"accuracy alone: A is higher on {contest['a_more_accurate']} lines, B on {contest['b_more_accurate']}, "
            f"p = {_p_text(contest['accuracy_p_value'])} (exact sign test)"
        ),
        soft_wrap=True,
    )


def _verdict_text(contest: dict[str, Any]) -> str:
    verdict = "no significant difference" if contest["better"] is None else f"{contest['better'].upper()} is better"
    return (
        f"{verdict}: p = {_p_text(contest['p_value'])} (exact McNemar test of right in both orders, "
        f"{contest['pairs']} pairs on {contest['items']} lines that both judged)"
    )


def _say_notes(result: dict[str, Any], output: str | None) -> None:
    if result["judge"]["stand_in"]:
        say_warning("judged by the embedded lexical stand-in: the floor that any real judge must beat.")
    for reject in result["rejects"][:_NAMED_REJECTS]:
        say_warning(f"line {reject['line']} is left out: {reject['reason']}.")
    if result["rejected_lines"] > _NAMED_REJECTS:
        say_warning(f"{result['rejected_lines']} lines in all are left out; --strict stops at them.")
    for name, count in result["redactions"].items():
        say_warning(f"{count} matches of {name} were masked before texts went to the judge.")
    if output is not None and output != "-":
        say(f"result        {output}")


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(first, overflow="fold")
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _interval(share: dict[str, Any]) -> str:
    return "-" if share["value"] is None else f"{100 * share['low']:.1f} to {100 * share['high']:.1f}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _number(number: float | None, form: str) -> str:
    return "-" if number is None else format(number, form)


def _p_text(p_value: float | None) -> str:
    return "-" if p_value is None else f"{p_value:.3g}"
