"""`genrm journal`: show, export or prune a journal: verdicts of judges, turns of policies and clients."""

import json
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from genrm_cli.cli.console import confirm, counted, is_interactive, print_text, say_warning
from genrm_cli.cli.options import exits, option, switch
from genrm_cli.errors import InputError, UsageError

if TYPE_CHECKING:
    from genrm_cli.judging.journal import Journal, JournalStatistics

journal = typer.Typer(
    help="Show, export or prune the answers in a journal.", no_args_is_help=True, rich_markup_mode=None
)

JournalPath = Annotated[str, typer.Argument(metavar="JOURNAL", help="A *.journal.sqlite file.")]


@journal.command()
@exits
def stats(path: JournalPath, as_json: Annotated[bool, switch("--json", "Print JSON.")] = False) -> None:
    """Count answers, failures, calls and tokens by model: verdicts of judges, turns of policies and clients."""
    with _open(path, read_only=True) as opened:
        statistics = opened.statistics()
    print_text(json.dumps(asdict(statistics)) if as_json else _stats_text(statistics))


@journal.command()
@exits
def export(path: JournalPath) -> None:
    """Print all answers, replies and failures as JSON lines."""
    with _open(path, read_only=True) as opened:
        for entry in opened.iter_entries():
            print_text(json.dumps(entry))
    if opened.damaged:
        say_warning(f"{path}: {counted(len(opened.damaged), 'damaged answer')} skipped.")


@journal.command()
@exits
def prune(
    path: JournalPath,
    failures: Annotated[bool, switch("--failures", "Delete the recorded failures.")] = False,
    older_than: Annotated[str | None, option("DURATION", "Delete answers older than this, for example 90d.")] = None,
    judge: Annotated[str | None, option("TEXT", "Delete answers of this model, by its name in `stats`.")] = None,
    yes: Annotated[bool, switch("--yes", "Delete without asking.")] = False,
) -> None:
    """Delete failures, or answers by age or model, after asking.

    Frees the space. --older-than and --judge together delete the answers that match both.
    """
    if not failures and older_than is None and judge is None:
        raise UsageError("nothing to delete; pass --failures, --older-than or --judge.")
    before = None if older_than is None else time.time() - _parse_age_s(older_than)
    with _open(path) as opened:
        chosen = opened.prune(failures=failures, before=before, judge=judge, delete=False)
        if any(chosen) and not yes and not is_interactive():
            raise UsageError(f"this would delete {_counts_text(chosen)}; pass --yes to delete them.")
        if any(chosen) and not yes and not confirm(f"Delete {_counts_text(chosen)} from {path}?"):
            print_text("nothing deleted")
            return
        print_text("deleted " + _counts_text(opened.prune(failures=failures, before=before, judge=judge)))


def _parse_age_s(text: str) -> float:
    """Return an age in seconds. A number without a unit is refused: it could mean days or seconds."""
    from genrm_cli.settings.kinds import parse_duration_s

    age_s = parse_duration_s(text)
    if age_s is None or not text.strip()[-1].isalpha():
        raise UsageError(f"--older-than: {text!r} is not a duration with a unit, such as 12h or 90d.")
    return age_s


def _counts_text(counts: tuple[int, int]) -> str:
    verdicts, failures = counts
    return f"{counted(verdicts, 'answer')} and {counted(failures, 'failure')}"


def _open(path: str, *, read_only: bool = False) -> "Journal":
    from genrm_cli.judging.journal import Journal

    if not Path(path).is_file():
        raise InputError(f"{path}: no such journal; `genrm score` prints the path of its journal at the end.")
    return Journal(path, read_only=read_only)


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
