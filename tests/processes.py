"""Start the processes of tests: they end on the signals that a test sends, and with the test."""

import contextlib
import signal
import subprocess
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
