"""What is said to a person: always on stderr, with colour and motion only on a terminal."""

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from genrm_cli.metrics.progress import Progress, RunProgress

LINE_EVERY_S = 30.0
OnEvent = Callable[[str, dict[str, Any]], None]


class _Console(Console):
    """Rich's console, but a reader that has gone is told to the caller instead of ending the process with 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


_stderr = _Console(stderr=True, highlight=False)


def stderr_console() -> Console:
    """Return the console for everything that is said to a person."""
    return _stderr


def show(renderable: RenderableType, *, soft_wrap: bool = False) -> None:
    """Show something to a person; nobody there to read it (a closed pipe, a full disk) is no reason to stop."""
    with suppress(OSError):
        _stderr.print(renderable, soft_wrap=soft_wrap)


def say(text: str) -> None:
    """Say one line, unwrapped, as plain text."""
    show(Text(text), soft_wrap=True)


def say_warning(text: str) -> None:
    """Say what a user should know before trusting the result."""
    show(Text.assemble(("genrm: warning: ", "yellow"), text), soft_wrap=True)


def say_error(text: str) -> None:
    """Say why the command stops."""
    show(Text.assemble(("genrm: error: ", "bold red"), text), soft_wrap=True)


@contextmanager
def showing_progress(progress: RunProgress, on_event: OnEvent, *, quiet: bool) -> Iterator[None]:
    """Show how far a run is, from its metrics: a live line on a terminal, else a plain line every 30 s.

    The same goes to `on_event` as `progress` every 30 s, on a terminal too.
    """
    started_s = time.monotonic()
    done = threading.Event()
    live = _stderr.is_terminal and not quiet
    speaker = threading.Thread(
        target=_speak, args=(progress, started_s, done, on_event), kwargs={"aloud": not live and not quiet}, daemon=True
    )
    speaker.start()
    try:
        with _live(progress, started_s) if live else nullcontext():
            yield
    finally:
        done.set()
        speaker.join()


def progress_fields(now: Progress, elapsed_s: float) -> dict[str, Any]:
    """Return how far a run is, for a log."""
    return {
        "elapsed_s": round(elapsed_s, 1),
        "groups": now.groups,
        "groups_done": now.groups_done,
        "planned": now.planned,
        "verdicts": now.verdicts,
        "journal_hits": now.journal_hits,
        "failures": dict(now.failures),
        "calls": now.calls,
        "retries": now.retries,
        "in_flight": now.pace.in_flight if now.pace else 0,
        "limit": now.pace.limit if now.pace else 0,
        "tokens": now.tokens,
        "median_s": now.pace.latencies.quantile_s(0.5) if now.pace else None,
        "p99_s": now.pace.latencies.quantile_s(0.99) if now.pace else None,
    }


def progress_text(now: Progress, elapsed_s: float) -> str:
    """Say in one line how far a run is."""
    if not now.planned:
        return f"reading: {now.lines:,} lines, {now.rollouts:,} rollouts, {now.rejects:,} rejects"
    asked = now.finished - now.journal_hits
    rate = asked / elapsed_s if elapsed_s > 0 else 0.0
    left = f"{_duration((now.planned - now.finished) / rate)} left" if rate else "starting"
    parts = [f"comparisons {now.finished:,}/{now.planned:,}", f"groups {now.groups_done:,}/{now.groups:,}"]
    if now.pace is not None:
        tokens_per_s = (now.tokens) / elapsed_s if elapsed_s > 0 else 0.0
        parts += [
            f"{now.pace.in_flight:,}/{now.pace.limit:,} in flight",
            f"{now.calls / elapsed_s if elapsed_s > 0 else 0.0:.1f} calls/s",
            f"{tokens_per_s:,.0f} tokens/s",
        ]
        median_s, p99_s = (now.pace.latencies.quantile_s(share) for share in (0.5, 0.99))
        if median_s is not None and p99_s is not None:
            parts.append(f"median {median_s:.1f} s, p99 {p99_s:.1f} s")
        if now.journal_hits:
            parts.append(f"{now.journal_hits:,} from the journal")
        if now.retries:
            parts.append(f"{now.retries:,} retries")
    if now.failed:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in Counter(now.failures).most_common(3))
        parts.append(f"{now.failed:,} failures ({kinds})")
    return ", ".join([*parts, left])


def _live(progress: RunProgress, started_s: float) -> Live:
    return Live(
        get_renderable=lambda: _live_lines(progress.now(), time.monotonic() - started_s),
        console=_stderr,
        refresh_per_second=4,
        transient=True,
    )


def _live_lines(now: Progress, elapsed_s: float) -> Table:
    bar = ProgressBar(total=now.planned or None, completed=now.finished, width=40, pulse=not now.planned)
    lines = Table.grid()
    lines.add_row(bar)
    lines.add_row(Text(progress_text(now, elapsed_s)))
    return lines


def _speak(progress: RunProgress, started_s: float, done: threading.Event, on_event: OnEvent, *, aloud: bool) -> None:
    while not done.wait(LINE_EVERY_S):
        elapsed_s, now = time.monotonic() - started_s, progress.now()
        if aloud:
            say(progress_text(now, elapsed_s))
        on_event("progress", progress_fields(now, elapsed_s))


def _duration(seconds: float) -> str:
    minutes, rest_s = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest_s:02}" if hours else f"{minutes}:{rest_s:02}"


def stdout_console() -> Console:
    """Return the console for a command whose product is a table."""
    width = None if sys.stdout.isatty() else 120
    return _Console(highlight=False, width=width)
