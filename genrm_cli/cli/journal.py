"""`genrm journal`: what is in a journal."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from genrm_cli.cli.options import run_command
from genrm_cli.errors import InputError, UsageError

journal = typer.Typer(help="Show, export or prune the verdicts that a journal keeps.", no_args_is_help=True)

JournalPath = Annotated[str, typer.Argument(metavar="JOURNAL", help="A *.journal.sqlite file.")]


@journal.command()
def stats(path: JournalPath, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show how many verdicts and failures a journal holds, by judge, and what they took."""

    def run(opened: Any) -> None:
        statistics = opened.statistics()
        typer.echo(json.dumps(statistics) if as_json else _stats_text(statistics))

    _with_journal(path, run)


@journal.command()
def export(path: JournalPath) -> None:
    """Print every verdict, with its reply, and every failure as JSON lines."""

    def run(opened: Any) -> None:
        for entry in opened.iter_entries():
            typer.echo(json.dumps(entry))

    _with_journal(path, run)


@journal.command()
def prune(
    path: JournalPath,
    failures: Annotated[bool, typer.Option("--failures", help="Delete the recorded failures.")] = False,
    older_than: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Delete verdicts older than this, for instance 90d.")
    ] = None,
    judge: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Delete verdicts of this judge, as `stats` names it.")
    ] = None,
) -> None:
    """Delete failures, old verdicts or those of one judge, and give the space back.

    With --older-than and --judge, verdicts go that are both.
    """
    from genrm_cli.settings.convert import parse_duration_s

    def run(opened: Any) -> None:
        age_s = None if older_than is None else parse_duration_s(older_than)
        if older_than is not None and age_s is None:
            raise UsageError(f"--older-than: {older_than!r} is not a duration, such as 12h or 90d.")
        before = None if age_s is None else time.time() - age_s
        if not failures and before is None and judge is None:
            raise UsageError("nothing is chosen; pass --failures, --older-than or --judge.")
        verdicts_gone, failures_gone = opened.prune(failures=failures, before=before, judge=judge)
        typer.echo(f"deleted {verdicts_gone} verdicts and {failures_gone} failures")

    _with_journal(path, run)


def _with_journal(path: str, use: Callable[[Any], None]) -> None:
    from genrm_cli.judging.journal import Journal

    def run() -> int:
        if not Path(path).is_file():
            raise InputError(f"{path}: no such journal; `genrm score` names it at its end.")
        with Journal(path) as opened:
            use(opened)
        return 0

    raise typer.Exit(run_command(run))


def _stats_text(statistics: dict[str, Any]) -> str:
    lines = [f"{statistics['path']}: {statistics['size_bytes']:,} bytes"]
    for judge in statistics["judges"]:
        first, last = (
            datetime.fromtimestamp(judge[name], UTC).strftime("%Y-%m-%d %H:%M") for name in ("first_at", "last_at")
        )
        lines.append(
            f"{judge['judge']}: {judge['verdicts']:,} verdicts in {judge['calls']:,} calls, {judge['prompt_tokens']:,} "
            f"tokens in, {judge['completion_tokens']:,} out, {first} to {last} UTC"
        )
    lines += [f"{entry['judge']}: {entry['count']:,} failures ({entry['kind']})" for entry in statistics["failures"]]
    return "\n".join(lines)
