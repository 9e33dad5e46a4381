"""Run `genrm` as a process, and measure what it takes."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
# A process starts with the peak memory of its parent: a small one stands between this and what is
# measured.
_LAUNCH = """\
import json, os, sys
command = [sys.executable, "-m", "genrm_cli", *sys.argv[1:]]
_, status, used = os.wait4(os.posix_spawn(sys.executable, command, os.environ), 0)
cpu_s, peak_mb = used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3
print(json.dumps([os.waitstatus_to_exitcode(status), cpu_s, peak_mb]), file=sys.stderr)
"""


class Cost(NamedTuple):
    """What a run took, and what it printed."""

    cpu_s: float
    wall_s: float
    peak_mb: float
    out: bytes


def cost_of(*command: object, tree: Path = ROOT, folder: Path = ROOT, expected: int = 0) -> Cost:
    """Run a command of the program in `tree` once, in a folder."""
    started_s = time.perf_counter()
    ended = subprocess.run(
        [sys.executable, "-S", "-c", _LAUNCH, *map(str, command)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(tree), "GENRM_API_KEY": "x"},
        capture_output=True,
        check=True,
    )
    wall_s = time.perf_counter() - started_s
    code, cpu_s, peak_mb = json.loads(ended.stderr.splitlines()[-1])
    if code != expected:
        words = " ".join(map(str, command))
        raise SystemExit(f"{tree.name}: genrm {words} ended with {code}:\n{ended.stderr.decode()}")
    return Cost(cpu_s, wall_s, peak_mb, ended.stdout)
