"""SIGTERM ends a run within ten seconds, whatever it computes, unless it copies verdicts."""

import signal
import subprocess
import sys

import pytest
from genrm_process import PACKAGE_ROOT
from processes import start_process

_LIMIT_S = 100  # ten, and what a busy machine takes
COMPUTE = """
import asyncio, re, sys, time
from genrm_cli.tasks import in_thread
from genrm_cli.jobs.context import cancelled_by_signals, kept_alive

def loop():
    print("computing", flush=True)
    while True:
        pass

def match():
    print("computing", flush=True)
    re.match("(a|aa)+$", "a" * 200 + "b")

async def run(kind):
    async with cancelled_by_signals():
        if kind == "waiting":
            print("computing", flush=True)
            await asyncio.sleep(1_000)
        elif kind == "in a thread":
            await in_thread(loop)
        elif kind == "copying":
            print("computing", flush=True)
            try:
                await asyncio.sleep(1_000)
            finally:
                with kept_alive():
                    await in_thread(lambda: time.sleep(12))
                    print("copied", file=sys.stderr, flush=True)
        else:
            {"loop": loop, "match": match}[kind]()

asyncio.run(run(sys.argv[1]))
"""


@pytest.mark.slow
def test_a_computation_that_never_yields_is_ended() -> None:
    """The kernel ends what computes, even if it holds the interpreter's lock; what waits or copies
    is cancelled.
    """
    codes = {"waiting": 1, "copying": 1} | dict.fromkeys(
        ("loop", "in a thread", "match"), -signal.SIGALRM
    )
    children = {computation: start(computation) for computation in codes}
    for child in children.values():
        assert child.stdout is not None
        assert child.stdout.readline() == b"computing\n"
    for child in children.values():
        child.send_signal(signal.SIGTERM)
    for computation, child in children.items():
        _, err = child.communicate(timeout=_LIMIT_S)
        assert child.returncode == codes[computation], (computation, err)
        assert (b"copied" in err) == (computation == "copying")


def start(computation: str) -> "subprocess.Popen[bytes]":
    """Start a process that computes in one of these ways."""
    return start_process(
        [sys.executable, "-c", COMPUTE, computation],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=PACKAGE_ROOT,
    )
