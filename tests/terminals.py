"""Run the command in a pseudo-terminal of a given width."""

import json
import os
import pty
import sys
from collections.abc import Iterable
from pathlib import Path

from genrm_process import Genrm
from processes import start_process

# Imports once what most commands need, and runs each command in a process of its own.
_RUN_ALL = """
import json, os, sys, termios
import genrm_cli.jobs.input_batch
from genrm_cli.cli.app import main
for folder, arguments, width in json.loads(sys.argv[1]):
    if (child := os.fork()) == 0:
        os.chdir(folder)
        termios.tcsetwinsize(0, (40, width))
        sys.argv[1:] = arguments
        main()
    os.waitpid(child, 0)
    os.write(1, b"\\0")
"""


def on_terminal(genrm: Genrm, commands: Iterable[tuple[Path, tuple[str, ...], int]]) -> list[str]:
    """Run commands, each in a folder and at a width, and return what each has printed, with the
    terminal's codes.
    """
    plan = [(str(folder), arguments, width) for folder, arguments, width in commands]
    ours, its = pty.openpty()
    process = start_process(
        [
            sys.executable,
            "-W",
            "error",
            "-c",
            _RUN_ALL,
            json.dumps(plan),
        ],
        stdin=its,
        stdout=its,
        stderr=its,
        # Python warns of a fork beside threads, such as those of numpy's library.
        env=genrm.environment(TERM="xterm-256color", OPENBLAS_NUM_THREADS="1"),
    )
    os.close(its)
    received = b""
    while True:
        try:
            block = os.read(ours, 65536)
        except OSError:  # the process has closed its end
            break
        received += block
    os.close(ours)
    assert process.wait(300) == 0
    *printed, rest = received.decode().split("\0")
    assert len(printed) == len(plan)
    assert rest == ""
    return printed
