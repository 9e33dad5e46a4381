"""Start the processes of tests: they end on the signals that a test sends, and with the test."""

import contextlib
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

_STOPPING = (signal.SIGINT, signal.SIGHUP)
_started: list[subprocess.Popen[bytes]] = []


def start_process(
    command: Sequence[str | Path],
    *,
    ignored: Collection[signal.Signals] = (),
    **options: Any,
) -> subprocess.Popen[bytes]:
    """Start a process that ignores these signals of SIGINT and SIGHUP, and no other.

    A child inherits what its parent ignores: SIGINT in the background of a script, SIGHUP under
    `nohup`.
    """
    before = {each: signal.getsignal(each) for each in _STOPPING}
    wrong = [each for each in _STOPPING if (before[each] is signal.SIG_IGN) != (each in ignored)]
    for each in wrong:
        signal.signal(each, signal.SIG_IGN if each in ignored else signal.SIG_DFL)
    try:
        process = subprocess.Popen(command, **options)
    finally:
        for each in wrong:
            signal.signal(each, before[each])
    _started.append(process)
    return process


def run_program(
    program: str, *arguments: object, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """Run Python in a process of its own, in which a warning is an error; what it prints is text
    unless `text` is false.
    """
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *map(str, arguments)],
        check=True,
        **{"capture_output": True, "text": True, "timeout": 60} | options,
    )


@contextlib.contextmanager
def passing_on_signals() -> Iterator[None]:
    """Ignore no signal for a while, so that any thread may start a process: only the main thread
    may change what a child would inherit.
    """
    before = {each: signal.getsignal(each) for each in _STOPPING}
    ignored = [each for each in _STOPPING if before[each] is signal.SIG_IGN]
    for each in ignored:
        signal.signal(each, signal.SIG_DFL)
    try:
        yield
    finally:
        for each in ignored:
            signal.signal(each, before[each])


@contextlib.contextmanager
def ended_processes() -> Iterator[None]:
    """Kill what is started here and still runs at the end, and close its pipes.

    A failed test would leave a process behind, whose warning fails the test that runs when Python
    collects it.
    """
    before = len(_started)
    try:
        yield
    finally:
        for process in _started[before:]:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    with contextlib.suppress(OSError):  # nobody reads what it would flush
                        stream.close()
        del _started[before:]
