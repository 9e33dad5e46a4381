"""Messages and progress on stderr, with colour and motion only on a terminal; tables and JSON on
stdout.

All output of the commands passes through this module. It replaces control characters with escapes
such as \\x1b on terminals, in pipes and in files, because model output, file names and server
replies could control the terminal."""

import os
import re
import shlex
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec import Struct
from rich.cells import cell_len
from rich.console import Console
from rich.live import Live
from rich.text import Text

from genrm_cli.errors import GenrmError, Message, SettingRef, counted, naming
from genrm_cli.json_types import Record
from genrm_cli.metrics.event import Event, OnEvent
from genrm_cli.storage.printable import CONTROL, escaped_in_json

# numpy is half of the time that the help takes.
if TYPE_CHECKING:
    from genrm_cli.metrics.progress import Pace, RunProgress
    from genrm_cli.metrics.run_metrics import RunMetrics

# Often enough to see that a run is alive, seldom enough for the log of a job of days.
LINE_EVERY_S = 30.0
_LABEL = re.compile(r" *(?:\S.{,18}?  +)?")  # what a line begins with, up to its text
_WORD = re.compile(r"(\s*)(\S+)")
_COMMAND = re.compile(r" *(?:next: )?genrm \S")
# The counts in the log of a run, in this order.
_LOGGED = (
    "groups",
    "groups_done",
    "comparisons_planned",
    "verdicts",
    "journal_hits",
    "failures",
    "calls",
    "retries",
    "tokens",
)
_MANY = 20  # below, a percentage looks more precise than the counts behind it


class _Console(Console):
    """Rich's console, except that a broken pipe raises an error instead of exiting with 1.

    Attributes:
        is_quiet: whether `say` and `say_warning` print nothing, as the running command asks.
        progress_line: the live line of progress, if one is shown.
    """

    is_quiet = False
    progress_line: Live | None = None

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


# One console for all threads: the live line has to know what else is printed.
stderr_console = _Console(stderr=True, highlight=False)


def show(text: str, head: str = "", style: str = "") -> None:
    """Print lines with a head to stderr; a closed pipe or a full disk does not stop the run."""
    shown = Text(wrapped(head + text))
    shown.stylize(style, 0, len(head))
    with suppress(OSError):
        stderr_console.print(shown, soft_wrap=True)


def wrapped(text: str) -> str:
    """Break the lines of a text for stderr."""
    width = stderr_console.width if stderr_console.is_terminal else None
    return "\n".join(part for line in text.split("\n") for part in wrapped_lines(line, width))


def wrapped_lines(line: str, width: int | None) -> list[str]:
    """Break a line between words; later lines stay below the text that follows a label.

    A word that is longer than the terminal is wide stays whole, and so does a command: what the
    terminal breaks is copied in one piece.
    """
    if width is None or cell_len(line) <= width or _COMMAND.match(line):
        return [line]
    label = _LABEL.match(line)
    indent = " " * cell_len(label[0]) if label else ""
    lines = [""]
    for space, word in _WORD.findall(line.expandtabs()):
        if lines[-1].strip() and cell_len(lines[-1] + space + word) > width:
            lines.append(indent + word)
        else:
            lines[-1] += space + word
    return lines


def flag_of(name: str) -> str:
    """Return the flag of a setting."""
    return _render_flag(SettingRef(name))


def help_text(text: str) -> str:
    """Return the help of a setting, with the settings that it names as flags."""
    return naming(text).render(_render_flag)


def _render_flag(ref: SettingRef) -> str:
    # The settings take a third of the time of `genrm --help`, which names none.
    from genrm_cli.settings.table import render_flag

    return render_flag(ref)


def text_of(message: object) -> str:
    """Return a message or an error as text, with its settings as flags; other values as they
    print.
    """
    if isinstance(message, GenrmError):
        message = message.message
    return message.render(_render_flag) if isinstance(message, Message) else str(message)


def escaped(text: str) -> str:
    """Write control characters as escapes, such as `\\x1b`; keep tabs and newlines."""
    return CONTROL.sub(_escape, text)


def escaped_line(text: str) -> str:
    """Write control characters as escapes, including newlines, so that a name cannot begin a new
    line.
    """
    return escaped(text).replace("\n", "\\n")


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def say(*texts: str | Message, even_if_quiet: bool = False) -> None:
    """Print lines to stderr, unwrapped, as plain text."""
    if texts and (even_if_quiet or not stderr_console.is_quiet):
        show("\n".join(escaped_line(text_of(text)) for text in texts))


def say_next(*words: str) -> None:
    """On a terminal, end with the command to paste; the last line of a log is the result."""
    if stderr_console.is_terminal:
        say(f"next: {shlex.join(words)}")


def say_warning(text: str | Message) -> None:
    """Print a warning to stderr."""
    if not stderr_console.is_quiet:
        show(escaped_line(text_of(text)), "genrm: warning: ", "yellow")


def say_error(text: str | Message | GenrmError) -> None:
    """Print an error to stderr."""
    show(escaped_line(text_of(text)), "genrm: error: ", "bold red")


@contextmanager
def showing_progress(progress: "RunProgress", on_event: OnEvent) -> Iterator[None]:
    """Show the progress of a run: a live line on a terminal, otherwise a plain line every 30 s.

    In both cases, `on_event` receives a `progress` event every 30 s.
    """
    started_s = time.monotonic()
    done = threading.Event()
    live = stderr_console.is_terminal and not stderr_console.is_quiet

    def text_now() -> Text:
        elapsed_s = time.monotonic() - started_s
        return Text(progress_text(progress.now(), progress.pace, elapsed_s))

    def report_regularly() -> None:
        while not done.wait(LINE_EVERY_S):
            if not live:
                say(text_now().plain)
            in_flight = progress.pace.in_flight if progress.pace else 0
            elapsed_s = round(time.monotonic() - started_s, 1)
            on_event(ProgressEvent(progress.now(), elapsed_s, in_flight))

    reporter = threading.Thread(target=report_regularly, daemon=True)
    reporter.start()
    line = Live(console=stderr_console, transient=True, get_renderable=text_now)
    try:
        with line if live else nullcontext():
            stderr_console.progress_line = line if live else None
            yield
    finally:
        stderr_console.progress_line = None
        done.set()
        reporter.join()


class ProgressEvent(Event, frozen=True):
    """The progress of a run so far."""

    now: "RunMetrics"
    elapsed_s: float
    in_flight: int

    def as_dict(self) -> Record:
        """Return the fields of a log line."""
        counts = {name: getattr(self.now, name) for name in _LOGGED}
        return {"elapsed_s": self.elapsed_s, **counts, "in_flight": self.in_flight}


def progress_text(now: "RunMetrics", pace: "Pace | None", elapsed_s: float) -> str:
    """Return the progress of a run in one line."""
    if not now.comparisons_planned:
        if not now.lines:
            return "starting"
        return (
            f"reading: {counted(now.lines, 'line')}, {counted(now.rollouts, 'rollout')}, "
            f"{counted(now.rejected_lines, 'reject')}"
        )
    parts = [
        f"comparisons {now.finished:,}/{now.comparisons_planned:,}",
        f"groups {now.groups_done:,}/{now.groups:,}",
    ]
    if pace is not None and elapsed_s > 0:
        parts += [
            f"{pace.in_flight:,}/{pace.limit:,} in flight",
            f"{now.calls / elapsed_s:.1f} calls/s",
            f"{now.tokens / elapsed_s:,.0f} tokens/s",
        ]
        median_s = pace.latencies.quantile_s(0.5)
        if median_s is not None:
            parts.append(f"median {median_s:.1f} s")
        if now.journal_hits:
            parts.append(f"{now.journal_hits:,} reused")
        if now.retries:
            parts.append(counted(now.retries, "retry", "retries"))
    if now.failures:
        most = Counter(now.failures_by_kind).most_common(3)
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in most)
        parts.append(f"{counted(now.failures, 'failure')} ({kinds})")
    asked = now.finished - now.journal_hits
    if asked and elapsed_s > 0:
        left_s = (now.comparisons_planned - now.finished) * elapsed_s / asked
        parts.append(f"{timedelta(seconds=int(left_s))} left")
    else:
        parts.append("starting")
    return ", ".join(parts)


@contextmanager
def without_progress() -> Iterator[None]:
    """Take the live line away while stdout is written, which may be the same terminal."""
    line = stderr_console.progress_line
    if line is None:
        yield
        return
    line.stop()
    try:
        yield
    finally:
        line.start()


def stdout_console() -> Console:
    """Return the console of stdout."""
    return _Console(highlight=False)


@contextmanager
def nothing_on_stdout() -> Iterator[None]:
    """Send to stderr what libraries print, such as a tracker's link to the run. It holds for all
    threads, so the command prints its results before or after.
    """
    with redirect_stdout(sys.stderr):
        yield


def print_json(value: Struct | Record) -> None:
    """Print a record or a JSON object to stdout."""
    from genrm_cli.scored.json_form import to_json
    from genrm_cli.storage.encoding.records import render_record

    document = value if isinstance(value, dict) else to_json(value)
    with without_progress():
        print(escaped_in_json(render_record(document).decode()), end="", flush=True)


def print_text(text: str = "") -> None:
    """Print plain text to stdout, unwrapped."""
    with without_progress():
        print(escaped(text), flush=True)


def print_markdown(text: str) -> None:
    """Print Markdown to stdout: formatted, in a pager, on a terminal; unchanged otherwise."""
    console = stdout_console()
    if not console.is_terminal:
        print(text, end="", flush=True)
        return
    from rich.markdown import Markdown

    os.environ.setdefault("LESS", "-FRX")  # colours, and no pager for text that fits on the screen
    with console.pager(styles=True):
        console.print(Markdown(text, hyperlinks=False))


def rate_text(rate: float, of: int, noun: str) -> str:
    """Return a rate of something counted, as in `34.4 % of pairs`, or `1 of 5 pairs` below 20."""
    if of < _MANY:
        return f"{rate * of:.0f} of {counted(of, noun)}"
    return f"{percent_text(rate)} of {noun}s"


def number_text(value: float | None, form: str = ".3f") -> str:
    """Return a formatted number, `-` for None. Integers are not rounded."""
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else format(value, form)


def percent_text(share: float | None) -> str:
    """Return a share in percent, `-` for None."""
    return "-" if share is None else f"{100 * share:.1f} %"
