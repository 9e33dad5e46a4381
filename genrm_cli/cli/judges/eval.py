"""`genrm eval`: measure a judge on pairs with a known better answer."""

from typing import Annotated, Any

import typer
from rich.table import Table

from genrm_cli.cli.console import (
    add_row,
    counted,
    new_table,
    number_text,
    percent_text,
    print_json,
    print_table,
    print_text,
    say,
    say_warning,
)
from genrm_cli.cli.events import watched
from genrm_cli.cli.options import Invocation, option, run_to_end, say_endpoint_source, with_settings
from genrm_cli.errors import UsageError

_OMITTED = (
    *("format", "limit", "group_by", "min_age", "compat", "parallel_files", "output", "output_template", "dry_run"),
    *("keep_replies", "leases", "lease_expiry"),
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
    "consistent_accuracy": "consistent accuracy",
    "judgebench_accuracy": "accuracy as in JudgeBench",
    "flip_rate": "flip rate",
    "first_place_preference": "first position preferred",
}


_Pairs = Annotated[
    str | None,
    typer.Argument(
        metavar="PAIRS",
        show_default=False,
        help="Labelled pairs as JSONL (.gz, .zst too), s3://bucket/key, or - for stdin: JudgeBench, RewardBench, "
        "RM-Bench, or prompt, chosen, rejected.",
    ),
]
_OutputOption = Annotated[
    str | None,
    option(
        "RESULT.json",
        "Where to write the metrics and all outcomes: a path, s3://..., or - for stdout.",
        "--output",
        "-o",
        panel="Output",
    ),
]
_RepliesOption = Annotated[
    str | None,
    option(
        "FILE",
        "Measure recorded replies instead of asking the judge: lines with id, chosen_first and reply, or "
        "JudgeBench's outputs. --profile sets how to parse them.",
    ),
]
_CompareOption = Annotated[
    tuple[str, str] | None,
    option("A.json B.json", "Compare two results: test whether one judge is significantly better."),
]


@with_settings("Input", "Judge", "Limits", "Journal", "Output", "Storage", omit=_OMITTED)
def eval_(
    invocation: Invocation,
    pairs: _Pairs = None,
    output: _OutputOption = None,
    replies: _RepliesOption = None,
    compare: _CompareOption = None,
) -> int:
    """Measure a judge: ask it about labelled pairs in both orders and count how often it is right.

    Example: genrm eval pairs.jsonl --base-url http://localhost:8000/v1 --model my-genrm -o my-genrm.json

    Example: genrm eval pairs.jsonl --replies replies.jsonl --profile arena-hard

    Example: genrm eval --compare my-genrm.json other.json
    """
    if (pairs is None) == (compare is None):
        raise UsageError("give labelled pairs (genrm eval PAIRS) or two results (genrm eval --compare A.json B.json).")
    if compare is not None:
        if replies is not None:
            raise UsageError("--compare reads two results; drop --replies.")
        if output is not None:
            raise UsageError("--compare writes no result file; omit -o, and redirect the output of --json.")
        return _compare(*compare, invocation)
    return _evaluate(str(pairs), output, replies, invocation)


def _evaluate(pairs: str, output: str | None, replies: str | None, invocation: Invocation) -> int:
    from genrm_cli.evaluation.evaluate import evaluate_judge, refuse_partial, without_components
    from genrm_cli.jobs.context import new_run

    settings = invocation.settings
    if settings.output.json_output and output == "-":
        raise UsageError("--json and -o - both write to stdout; omit one of them.")
    if replies is None:
        say_endpoint_source(invocation)
    with watched(settings) as (progress, events):
        run = new_run(without_components(settings), invocation.api_keys, progress, events)
        result = run_to_end(evaluate_judge(pairs, output, run, replies_uri=replies))
    if settings.output.json_output:
        print_json(result)
    elif output != "-" and not settings.output.quiet:
        _print_metrics(result)
    if not settings.output.quiet:
        _say_notes(result, output)
    refuse_partial(result)
    return 0


def _compare(a: str, b: str, invocation: Invocation) -> int:
    from genrm_cli.evaluation.compare_results import compare_results
    from genrm_cli.jobs.context import s3_options

    settings = invocation.settings
    s3 = s3_options(settings)
    comparison, quiet = compare_results(a, b, s3), settings.output.quiet
    if settings.output.json_output:
        print_json(comparison)
    elif not quiet:
        _print_comparison(comparison)
    if comparison["left_out"] and not quiet:
        say_warning(
            f"{counted(comparison['left_out'], 'pair')} without a verdict in one of the runs excluded; with missing "
            f"verdicts counted as wrong, p = {_p_text(comparison['p_value_if_failures_lose'])}."
        )
    return 0


def _print_metrics(result: dict[str, Any]) -> None:
    metrics = result["figures"]
    table = new_table("metric", "value", "95 % interval", "pairs")
    for name, words in _SHARES.items():
        if metrics[name]["pairs"] or name != "accuracy_equal_length":
            add_row(table, words, *_share_cells(metrics[name]), str(metrics[name]["pairs"]))
    print_table(table)
    print_text()
    for line in _metric_lines(metrics):
        print_text(line)
    if set(result["by_category"]) != {""}:
        print_text()
        print_table(_categories_table(result["by_category"]))


def _metric_lines(metrics: dict[str, Any]) -> list[str]:
    """Return the metrics that are not shares of pairs, as sentences."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in metrics["failures_by_kind"].items())
    lines = [
        f"{counted(metrics['pairs'], 'pair')} on {counted(metrics['items'], 'line')}, "
        f"{counted(metrics['verdicts'], 'verdict')} ({counted(metrics['ties'], 'tie')}), "
        f"{counted(metrics['failures'], 'failure')}{f' ({kinds})' if kinds else ''}",
        f"{percent_text(metrics['failure_rate'])} of the judgements failed, "
        f"{percent_text(metrics['parse_failure_rate'])} because the reply could not be parsed",
        f"length bias {number_text(metrics['length_bias'], '+.3f')} (accuracy where the longer answer is better, minus "
        f"accuracy where it is worse); position-bias p-value {_p_text(metrics['first_place_p_value'])}",
    ]
    if metrics["calls_per_judgement"] is not None:
        lines.append(
            f"per judgement: {metrics['calls_per_judgement']:.2f} calls, "
            f"{metrics['prompt_tokens_per_judgement']:,.0f} tokens in, "
            f"{metrics['completion_tokens_per_judgement']:,.0f} out, cost "
            f"{number_text(metrics['cost_per_judgement'], '.6f')}, {metrics['latency_median_s']:.2f} s (median)"
        )
    return lines


def _categories_table(by_category: dict[str, dict[str, Any]]) -> Table:
    # Eight columns in 80 characters: the numbers need 62.
    table = new_table("category", "accuracy", "interval", "consistent", "flips", "first", "failed", "pairs")
    for name, metrics in by_category.items():
        shares = [metrics[each]["value"] for each in ("consistent_accuracy", "flip_rate", "first_place_preference")]
        percentages = map(percent_text, (*shares, metrics["failure_rate"]))
        add_row(table, name or "(none)", *_share_cells(metrics["accuracy"]), *percentages, str(metrics["pairs"]))
    return table


def _print_comparison(comparison: dict[str, Any]) -> None:
    table = new_table("judge", "accuracy", "95 % interval", "consistent", "95 % interval", "better on")
    for side in ("a", "b"):
        judge = comparison[side]["judge"]
        name = judge.get("name") if isinstance(judge, dict) else None
        cells = (*_share_cells(comparison[f"accuracy_{side}"]), *_share_cells(comparison[f"consistent_{side}"]))
        title = f"{side.upper()}: {name or '?'} ({comparison[side]['result']})"
        add_row(table, title, *cells, str(comparison[f"{side}_better"]))
    print_table(table)
    print_text()
    better = comparison["better"]
    print_text(
        f"{'no significant difference' if better is None else f'{better.upper()} is better'}: "
        f"p = {_p_text(comparison['p_value'])} (exact McNemar test of consistent accuracy, "
        f"{counted(comparison['pairs'], 'pair')} on {counted(comparison['items'], 'line')} that both judged)"
    )
    print_text(
        f"accuracy alone: A is higher on {counted(comparison['a_more_accurate'], 'line')}, "
        f"B on {counted(comparison['b_more_accurate'], 'line')}, "
        f"p = {_p_text(comparison['accuracy_p_value'])} (exact sign test)"
    )


def _say_notes(result: dict[str, Any], output: str | None) -> None:
    if result["judge"]["is_baseline"]:
        say_warning("judged by the built-in lexical baseline: the minimum that any real judge must beat.")
    for reject in result["rejects"][:_NAMED_REJECTS]:
        say_warning(f"skipped line {reject['line']}: {reject['reason']}.")
    if result["rejected_lines"] > _NAMED_REJECTS:
        say_warning(f"{result['rejected_lines']} lines were skipped in total; --strict stops at the first.")
    if result["figures"]["not_asked"] and not result["partial"]:
        say_warning(f"{counted(result['figures']['not_asked'], 'judgement')} without a recorded reply left out.")
    for name, count in result["redactions"].items():
        say_warning(f"{counted(count, 'match', 'matches')} of {name} masked in texts sent to the judge.")
    if output is not None and output != "-":
        say(f"result        {output}")


def _share_cells(share: dict[str, Any]) -> tuple[str, str]:
    """Return a share and its interval, in percent."""
    interval = "-" if share["value"] is None else f"{100 * share['low']:.1f} to {100 * share['high']:.1f}"
    return percent_text(share["value"]), interval


def _p_text(p_value: float | None) -> str:
    return number_text(p_value, ".3g")
