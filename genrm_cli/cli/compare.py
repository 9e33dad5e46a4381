"""`genrm compare`: a few responses typed by hand, or one compare request."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from genrm_cli.cli.console import say_warning, showing_progress, stdout_console
from genrm_cli.cli.events import Events
from genrm_cli.cli.options import Invocation, with_settings
from genrm_cli.cli.score import STAND_IN_NOTICE
from genrm_cli.errors import InputError, UsageError
from genrm_cli.verdicts import Grades

if TYPE_CHECKING:
    from genrm_cli.group_scorer import GroupScorer
    from genrm_cli.groups.results import ComparisonResult, GroupRewards
    from genrm_cli.metrics.run_metrics import RunMetrics
    from genrm_cli.rollouts.record import Rollout

MAX_RESPONSES = 64

_NOT_FOR_A_FEW = (
    *("output", "output_template", "overwrite", "dry_run", "keep_replies", "unscored", "parallel_files"),
    *("deadline", "max_calls", "max_total_tokens", "max_cost", "price_in", "price_out"),
    *("budget", "min_reliability", "only_components"),
)


@with_settings("Pairs", "Judge", "Limits", "Rewards", "Output", leave_out=_NOT_FOR_A_FEW)
def compare(
    responses: Annotated[
        list[str],
        typer.Argument(
            metavar="RESPONSES...",
            help="2 to 64 responses: texts, @FILE, or - for stdin (@@ for a text that begins with @). "
            "A single - reads a compare request as JSON.",
        ),
    ],
    invocation: Invocation,
    prompt: Annotated[
        str | None,
        typer.Option("--prompt", "-p", metavar="TEXT", help="What the responses answer: a text or @FILE."),
    ] = None,
    history: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="JSON list of earlier messages; --prompt is added as the last user turn."),
    ] = None,
) -> int:
    """Compare a few responses to one prompt and print their rewards.

    Example: genrm compare --prompt "What is 2 + 2?" "4" "5" --judge lexical

    Example: genrm compare - --json < compare-request.json
    """
    from genrm_cli.cli.event_loop import run_to_end
    from genrm_cli.group_scorer import GroupScorer
    from genrm_cli.groups.check import check_settings
    from genrm_cli.jobs.score_file import refuse_unscored
    from genrm_cli.metrics.progress import RunProgress
    from genrm_cli.settings.table import changed

    # Without a journal; components are computed from the answers given now.
    settings = changed(invocation.settings, use_journal=False, only_components=False)
    check_settings(settings)
    rollouts = _read_rollouts(responses, prompt, history, settings.input.require_metadata)
    progress, quiet = RunProgress(), settings.output.quiet
    with (
        Events(settings.output.log_json, quiet=quiet) as events,
        showing_progress(progress, events, quiet=quiet),
    ):
        scorer = GroupScorer(settings, invocation.api_keys, progress, events)
        result = run_to_end(_compare(rollouts, scorer))
    if settings.judge.judge is not None and not quiet:
        say_warning(STAND_IN_NOTICE)
    for comparison in result.failures if not quiet else ():
        if comparison.failure is not None:
            say_warning(f"{_name_of(comparison)} failed: {comparison.failure.detail}")
    if settings.output.json_output:
        from genrm_cli.storage.formats.records import render_record

        typer.echo(render_record(_reply(result, scorer.metrics)), nl=False)
    else:
        _print_tables(rollouts, result)
    refuse_unscored(scorer.metrics, settings)
    return 0


async def _compare(rollouts: "list[Rollout]", scorer: "GroupScorer") -> "GroupRewards":
    from genrm_cli.groups.group import Group

    if not 2 <= len(rollouts) <= MAX_RESPONSES:
        raise InputError(f"{len(rollouts)} responses are given; expected 2 to {MAX_RESPONSES}.")
    async with scorer:
        return await scorer.score_group(Group("compare", rollouts))


def _reply(result: "GroupRewards", metrics: "RunMetrics") -> dict[str, Any]:
    """Return the reference's reply to a compare request; failed comparisons are not in it."""
    from genrm_cli.metrics.run_metrics import reference_metrics

    verdicts = [
        {
            "response_i": comparison.i,
            "response_j": comparison.j,
            "judge_idx": comparison.judge_idx,
            "score_1": verdict.score_1,
            "score_2": verdict.score_2,
            "ranking": verdict.ranking,
        }
        for comparison, verdict in result.verdicts.items()
    ]
    return {"rewards": result.rewards, "comparison_results": verdicts, "metrics": reference_metrics(metrics)}


def _name_of(comparison: "ComparisonResult") -> str:
    """Name a request: a comparison, or what a grader was asked about one response or about all."""
    shown = ", ".join(map(str, comparison.shown))
    return f"comparison {shown}" if comparison.component is None else f"the component {comparison.component} of {shown}"


def _read_rollouts(
    responses: list[str], prompt: str | None, history: str | None, require_metadata: tuple[str, ...]
) -> "list[Rollout]":
    from genrm_cli.jobs.compare_request import parse_history, parse_request
    from genrm_cli.rollouts.record import Rollout, Turn

    if responses == ["-"]:
        if prompt is not None or history is not None:
            raise UsageError(
                "a compare request on stdin brings its own conversation; leave --prompt and --history out."
            )
        return parse_request(sys.stdin.buffer.read(), "stdin", require_metadata)
    if [prompt, *responses].count("-") > 1:
        raise UsageError("stdin can be read only once; use - for the prompt or for one response.")
    turns = parse_history(_read_file(history), history) if history is not None else ()
    if prompt is not None:
        turns += (Turn("user", _text_of(prompt)),)
    if not turns:
        raise UsageError("missing --prompt TEXT or --history FILE.")
    return [Rollout(turns, _text_of(response), index=place) for place, response in enumerate(responses)]


def _text_of(argument: str) -> str:
    if argument == "-":
        return sys.stdin.buffer.read().decode("utf-8", "replace")
    if argument.startswith("@@"):
        return argument[1:]
    if argument.startswith("@"):
        return _read_file(argument[1:]).decode("utf-8", "replace")
    try:
        argument.encode()
    except UnicodeEncodeError as error:
        raise UsageError("a text on the command line is not valid UTF-8; put it into a file and pass @FILE.") from error
    return argument


def _read_file(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}.") from error


def _print_tables(rollouts: "list[Rollout]", result: "GroupRewards") -> None:
    console = stdout_console()
    names = ("response", "reward", "base", "rank", "advantage", *result.columns, "text")
    rewards = Table(*names, box=None, pad_edge=False)
    for index, (rollout, score) in enumerate(zip(rollouts, result.scores, strict=True)):
        excerpt = " ".join((rollout.answer or "").split())[:60]
        numbers = score.numbers
        values = [column.values[index] for column in result.columns.values()]
        row = (numbers.reward, numbers.base_score, numbers.rank, numbers.advantage, *values)
        rewards.add_row(str(index), *map(_shown, row), Text(excerpt))
    console.print(rewards)
    if comparisons := [each for each in result.comparisons if each.component is None]:
        console.print()
        console.print(_table_of(comparisons))


def _table_of(comparisons: "list[ComparisonResult]") -> Table:
    several = len({comparison.judge for comparison in comparisons}) > 1
    names = ("first", "second", "score 1", "score 2", "ranking", "failure", *(("judge",) if several else ()))
    verdicts = Table(*names, box=None, pad_edge=False)
    for comparison in comparisons:
        verdict, shown = comparison.verdict, comparison.shown
        numbers = [None] * 3 if verdict is None else [verdict.score_1, verdict.score_2, verdict.ranking]
        cells = [_shown(number) for number in numbers]
        if isinstance(comparison.outcome.result, Grades):
            cells[0] = ", ".join(f"{grade:.3f}" for grade in comparison.outcome.result.values)
        pair = (str(shown[0]), str(shown[1])) if len(shown) == 2 else (", ".join(map(str, shown)), "-")
        failure = "" if comparison.failure is None else comparison.failure.kind
        verdicts.add_row(*pair, *cells, failure, *([Text(comparison.judge)] if several else []))
    return verdicts


def _shown(number: float | None) -> str:
    if number is None:
        return "-"
    return str(number) if isinstance(number, int) else f"{number:.3f}"
