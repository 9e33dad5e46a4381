"""What is said to a person: always on stderr, with colour and motion only on a terminal."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from genrm_cli.summary import Tally

LINE_EVERY_S = 30.0

_stderr = Console(stderr=True, highlight=False)


def stderr_console() -> Console:
    """Return the console for everything that is said to a person."""
    return _stderr


def say(text: str) -> None:
    """Say one line, unwrapped, as plain text."""
    _stderr.print(Text(text), soft_wrap=True)


def say_warning(text: str) -> None:
    """Say what a user should know before trusting the result."""
    _stderr.print(Text.assemble(("genrm: warning: ", "yellow"), text), soft_wrap=True)


def say_error(text: str) -> None:
    """Say why the command stops."""
    _stderr.print(Text.assemble(("genrm: error: ", "bold red"), text), soft_wrap=True)


@contextmanager
def showing_progress(tally: Tally, *, quiet: bool) -> Iterator[None]:
    """Show how far a run is, from its tally: a live line on a terminal, else a plain line every 30 s."""
    started_s = time.monotonic()
    if quiet:
        yield
    elif _stderr.is_terminal:
        with Live(
            get_renderable=lambda: _live_line(tally, time.monotonic() - started_s),
            console=_stderr,
            refresh_per_second=4,
            transient=True,
        ):
            yield
    else:
        done = threading.Event()
        speaker = threading.Thread(target=_speak, args=(tally, started_s, done), daemon=True)
        speaker.start()
        try:
            yield
        finally:
            done.set()
            speaker.join()


def progress_text(tally: Tally, elapsed_s: float) -> str:
    """Say in one line how far a run is."""
    if not tally.planned:
        return f"reading: {tally.lines:,} lines, {tally.rollouts:,} rollouts, {tally.rejects:,} rejects"
    rate = tally.finished / elapsed_s if elapsed_s > 0 else 0.0
    left = f"{_duration((tally.planned - tally.finished) / rate)} left" if rate else "starting"
    calls = f"{tally.calls:,} calls ({tally.calls / elapsed_s:.1f}/s), " if tally.calls else ""
    tokens = tally.prompt_tokens + tally.completion_tokens
    return (
        f"comparisons {tally.finished:,}/{tally.planned:,}, groups {tally.groups_done:,}/{tally.groups:,}, {calls}"
        f"{tally.failed:,} failures, {tokens:,} tokens, {left}"
    )


def _live_line(tally: Tally, elapsed_s: float) -> Table:
    grid = Table.grid(padding=(0, 1))
    bar = ProgressBar(total=tally.planned or None, completed=tally.finished, width=24, pulse=not tally.planned)
    grid.add_row(bar, Text(progress_text(tally, elapsed_s), overflow="ellipsis", no_wrap=True))
    return grid


def _speak(tally: Tally, started_s: float, done: threading.Event) -> None:
    while not done.wait(LINE_EVERY_S):
        say(progress_text(tally, time.monotonic() - started_s))


def _duration(seconds: float) -> str:
    minutes, rest_s = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest_s:02}" if hours else f"{minutes}:{rest_s:02}"


def stdout_console() -> Console:
    """Return the console for a command whose product is a table."""
    width = None if sys.stdout.isatty() else 120
    return Console(highlight=False, width=width)
