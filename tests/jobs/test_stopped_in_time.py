"""SIGTERM ends a run in time, whatever it computes."""

import signal
import subprocess
import sys

import pytest
from genrm_process import PACKAGE_ROOT
from processes import start_process

_LIMIT_S = 100  # two, and what a busy machine takes
COMPUTE = """
import asyncio, re, sys
from genrm_cli.tasks import in_thread
from genrm_cli.jobs.context import cancelled_by_signals

def loop():
    print("computing", flush=True)
    while True:
        pass

def match():
    print("computing", flush=True)
    re.match("(a|aa)+$", "a" * 200 + "b")

async def run(kind):
    async with cancelled_by_signals(end_within_s=2):
        if kind == "waiting":
            print("computing", flush=True)
            await asyncio.sleep(1_000)
        elif kind == "in a thread":
            await in_thread(loop)
        else:
            {"loop": loop, "match": match}[kind]()

asyncio.run(run(sys.argv[1]))
"""


@pytest.mark.slow
def test_a_computation_that_never_yields_is_ended() -> None:
    """The kernel ends what computes, even if it holds the interpreter's lock; what waits is
    cancelled.
    """
    codes = {"waiting": 1} | dict.fromkeys(("loop", "in a thread", "match"), -signal.SIGALRM)
    children = {computation: start(computation) for computation in codes}
    for child in children.values():
        assert child.stdout is not None
        assert child.stdout.readline() == b"computing\n"
    for child in children.values():
        child.send_signal(signal.SIGTERM)
    for computation, child in children.items():
        _, err = child.communicate(timeout=_LIMIT_S)
        assert child.returncode == codes[computation], (computation, err)


def start(computation: str) -> "subprocess.Popen[bytes]":
    """Start a process that computes in one of these ways."""
    return start_process(
        [sys.executable, "-c", COMPUTE, computation],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=PACKAGE_ROOT,
    )
