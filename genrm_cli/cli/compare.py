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
from genrm_cli.metrics.run_metrics import RunProgress

if TYPE_CHECKING:
    from genrm_cli.rollouts.record import Rollout


_NOT_FOR_A_FEW = (
    *("output", "output_template", "overwrite", "dry_run", "keep_replies", "unscored", "parallel_files"),
    *("deadline", "max_calls", "max_tokens", "max_cost", "price_in", "price_out"),
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
    from genrm_cli.groups.judge_set import check_judges
    from genrm_cli.jobs.compare import compare_responses
    from genrm_cli.jobs.context import RunContext
    from genrm_cli.jobs.score_file import refuse_unscored

    settings = invocation.settings
    check_judges(settings)
    rollouts = _read_rollouts(responses, prompt, history, settings.require_metadata)
    tallies = RunProgress()
    tally = tallies.begin()
    with (
        Events(settings.log_json, quiet=settings.quiet) as events,
        showing_progress(tallies, events, quiet=settings.quiet),
    ):
        compared = compare_responses(rollouts, RunContext(settings, invocation.api_keys, tally, tallies, events))
    if settings.judge is not None and not settings.quiet:
        say_warning(STAND_IN_NOTICE)
    for record in compared.comparisons:
        if record["failure"] and not settings.quiet:
            say_warning(f"{_what(record)} failed: {record['failure']['detail']}")
    if settings.json_output:
        from genrm_cli.storage.records import render_record

        typer.echo(render_record(compared.reply), nl=False)
    else:
        _print_tables(rollouts, compared.scores, compared.comparisons)
    refuse_unscored(tally, settings)
    return 0


def _what(record: dict[str, Any]) -> str:
    """Name a question: a pair, or what a grader was asked about one response or about all."""
    shown = ", ".join(_places(record))
    return f"comparison {shown}" if "component" not in record else f"the component {record['component']} of {shown}"


def _places(record: dict[str, Any]) -> list[str]:
    return list(map(str, record.get("shown") or [place for place in (record["i"], record["j"]) if place is not None]))


def _read_rollouts(
    responses: list[str], prompt: str | None, history: str | None, require_metadata: tuple[str, ...]
) -> "list[Rollout]":
    from genrm_cli.jobs.compare import parse_history, parse_request
    from genrm_cli.rollouts.record import Rollout, Turn
    from genrm_cli.rollouts.response import Text

    if responses == ["-"]:
        if prompt is not None or history is not None:
            raise UsageError(
                "a compare request on stdin brings its own conversation; leave --prompt and --history out."
            )
        return parse_request(sys.stdin.buffer.read(), "stdin", require_metadata)
    if responses.count("-") > 1:
        raise UsageError("stdin can be read once only; give - for one response at most.")
    turns = parse_history(_read_file(history), history) if history is not None else ()
    if prompt is not None:
        turns += (Turn("user", _text_of(prompt)),)
    if not turns:
        raise UsageError("nothing is said to be answered; give --prompt TEXT or --history FILE.")
    return [Rollout(turns, (Text(_text_of(response)),), index=place) for place, response in enumerate(responses)]


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


def _print_tables(rollouts: "list[Rollout]", scores: list[dict[str, Any]], comparisons: list[dict[str, Any]]) -> None:
    console = stdout_console()
    components = list(scores[0]["detail"].get("components", {}))
    names = ("response", "reward", "base", "rank", "advantage", *components, "text")
    rewards = Table(*names, box=None, pad_edge=False)
    for place, (rollout, score) in enumerate(zip(rollouts, scores, strict=True)):
        detail = score["detail"]
        excerpt = " ".join((rollout.answer or "").split())[:60]
        numbers = (score["reward"], *(detail[name] for name in ("base_score", "rank", "advantage")))
        values = [detail["components"][name] for name in components]
        rewards.add_row(str(place), *map(_shown, (*numbers, *values)), Text(excerpt))
    console.print(rewards)
    if pairs := [record for record in comparisons if "component" not in record]:
        console.print()
        console.print(_table_of(pairs))


def _table_of(comparisons: list[dict[str, Any]]) -> Table:
    judges = {record["judge"] for record in comparisons}
    names = ("first", "second", "score 1", "score 2", "ranking", "failure", *(("judge",) if len(judges) > 1 else ()))
    verdicts = Table(*names, box=None, pad_edge=False)
    for record in comparisons:
        verdict = [_shown(record[name]) for name in ("score_1", "score_2", "ranking")]
        if grades := record.get("grades"):
            verdict[0] = ", ".join(f"{grade:.3f}" for grade in grades)
        failure = record["failure"]["kind"] if record["failure"] else ""
        shown = record.get("shown", [record["i"]])
        first, second = ", ".join(map(str, shown)), "-" if record["j"] is None else str(record["j"])
        verdicts.add_row(first, second, *verdict, failure, *([Text(record["judge"])] if len(judges) > 1 else []))
    return verdicts


def _shown(number: float | None) -> str:
    if number is None:
        return "-"
    return str(number) if isinstance(number, int) else f"{number:.3f}"
