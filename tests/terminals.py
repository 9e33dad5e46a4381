"""Run the command in a pseudo-terminal of a given width."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from genrm_process import Genrm
from processes import start_process

from genrm_cli.errors import INTERRUPTED

HEIGHT = 40
# Imports once what most commands need, and runs each command in a process of its own.
_RUN_ALL = """
import json, os, sys, termios
import genrm_cli.jobs.input_batch
from genrm_cli.cli.app import main
for folder, arguments, size in json.loads(sys.argv[1]):
    if (child := os.fork()) == 0:
        os.chdir(folder)
        termios.tcsetwinsize(0, size)
        sys.argv[1:] = arguments
        main()
    os.waitpid(child, 0)
    os.write(1, b"\\0")
"""

# The terminal is that of the process, which Ctrl-C is for.
_RUN = """
import fcntl, json, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
arguments, size = json.loads(sys.argv[1])
termios.tcsetwinsize(0, size)
sys.argv[1:] = arguments
from genrm_cli.cli.app import main
main()
"""


def on_terminal(
    genrm: Genrm,
    commands: Iterable[tuple[Path, tuple[str, ...], int]],
    environment: Mapping[str, str] | None = None,
    without: Collection[str] = (),
) -> list[str]:
    """Run commands, each in a folder and at a width, and return what each has printed, with the
    terminal's codes. The environment is that of a modern terminal, and what is given.
    """
    plan = [(str(folder), arguments, (HEIGHT, width)) for folder, arguments, width in commands]
    ours, process = _start(genrm, [_RUN_ALL, json.dumps(plan)], environment or {}, without)
    received = b"".join(iter_received(ours))
    assert process.wait(300) == 0
    *printed, rest = received.decode().split("\0")
    assert len(printed) == len(plan)
    assert rest == ""
    return printed


def stopped_on_terminal(genrm: Genrm, words: Sequence[str], width: int, once: str) -> str:
    """Run a command at a width, press Ctrl-C once it has shown a text, and return what it has
    printed.
    """
    ours, process = _start(genrm, [_RUN, json.dumps([words, (HEIGHT, width)])])
    received = b""
    is_running = True
    for block in iter_received(ours):
        received += block
        if is_running and once.encode() in received:
            os.write(ours, b"\x03")
            is_running = False
    assert process.wait(60) == INTERRUPTED
    return received.decode()


def _start(
    genrm: Genrm,
    arguments: Sequence[str],
    more: Mapping[str, str] = MappingProxyType({}),
    without: Collection[str] = (),
) -> tuple[int, subprocess.Popen[bytes]]:
    """Start a script at a terminal of its own; return our end of it, and the process."""
    environment = {
        **genrm.environment(),
        "TERM": "xterm-256color",
        "PAGER": "cat",
        # Python warns of a fork beside threads, such as those of numpy's library.
        "OPENBLAS_NUM_THREADS": "1",
        **more,
    }
    for name in without:
        del environment[name]
    ours, its = pty.openpty()
    process = start_process(
        [sys.executable, "-W", "error", "-c", *arguments],
        stdin=its,
        stdout=its,
        stderr=its,
        cwd=genrm.folder,
        env=environment,
        start_new_session=True,
    )
    os.close(its)
    return ours, process


def iter_received(ours: int) -> Iterator[bytes]:
    """Yield what a process prints, until it closes its end."""
    with suppress(OSError):
        while block := os.read(ours, 65536):
            yield block
    os.close(ours)
