"""`genrm journal`: show or export a journal: verdicts of judges, turns of policies and clients."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from genrm_cli.cli.console import counted, print_text, say_warning
from genrm_cli.cli.options import exits, switch
from genrm_cli.errors import InputError

if TYPE_CHECKING:
    from genrm_cli.judging.journal import Journal, JournalStatistics

journal = typer.Typer(help="Show or export the answers in a journal.", no_args_is_help=True, rich_markup_mode=None)

JournalPath = Annotated[str, typer.Argument(metavar="JOURNAL", help="A *.journal.sqlite file.")]


@journal.command()
@exits
def stats(path: JournalPath, as_json: Annotated[bool, switch("--json", "Print JSON.")] = False) -> None:
    """Count answers, failures, calls and tokens by model: verdicts of judges, turns of policies and clients."""
    with _open(path) as opened:
        statistics = opened.statistics()
    print_text(json.dumps(asdict(statistics)) if as_json else _stats_text(statistics))


@journal.command()
@exits
def export(path: JournalPath) -> None:
    """Print all answers, replies and failures as JSON lines."""
    with _open(path) as opened:
        for entry in opened.iter_entries():
            print_text(json.dumps(entry))
    if opened.damaged:
        say_warning(f"{path}: {counted(len(opened.damaged), 'damaged answer')} skipped.")


def _open(path: str) -> "Journal":
    from genrm_cli.judging.journal import Journal

    if not Path(path).is_file():
        raise InputError(f"{path}: no such journal; `genrm score` prints the path of its journal at the end.")
    return Journal(path, read_only=True)


def _stats_text(statistics: "JournalStatistics") -> str:
    lines = [f"{statistics.path}: {statistics.size_bytes:,} bytes"]
    for of in statistics.judges:
        first, last = (datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M") for at in (of.first_at, of.last_at))
        lines.append(
            f"{of.judge}: {counted(of.verdicts, 'answer')} in {counted(of.calls, 'call')}, "
            f"{of.prompt_tokens:,} tokens in, {of.completion_tokens:,} out, {first} to {last} UTC"
        )
    lines += [f"{each.judge}: {counted(each.count, 'failure')} ({each.kind})" for each in statistics.failures]
    if statistics.damaged_verdicts:
        lines.append(f"{counted(statistics.damaged_verdicts, 'damaged answer')}, which the next run asks again")
    return "\n".join(lines)
