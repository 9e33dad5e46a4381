import ast
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
from disturbed_scoring import MakeScoring

import genrm_cli

JUDGING = Path(genrm_cli.__file__).parent / "judging"
WALL_CLOCKS = {"time", "time_ns", "now", "utcnow", "today", "localtime", "gmtime", "ctime"}
# When a verdict was given is a date, and so may Retry-After be. Processes share no other clock than the wall's, so
# claims expire by it; a claim that it misjudges is asked twice or waited for a few seconds.
MAY_TELL_THE_DATE = {
    ("journal.py", "_write"),
    ("client.py", "_retry_after_s"),
    *(("claims.py", name) for name in ("_names", "_renew")),
    ("endpoint.py", "loop_time_s"),  # the clock of the event loop, which is monotonic
}

# The wall clock jumps by 400 days, to and fro, each time somebody looks at it.
JUMPING_CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    static int looks;
    if (!real) real = (int (*)(clockid_t, struct timespec *)) dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, now);
    if (!failed && clock == CLOCK_REALTIME) now->tv_sec += (++looks % 2 ? 1 : -1) * 400L * 86400;
    return failed;
}
"""


def test_waits_never_depend_on_the_wall_clock() -> None:
    """In judging/ the date is looked up only where a date is meant; timeouts and waits use monotonic clocks."""
    found = set()
    for path in JUDGING.rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Attribute) and node.attr in WALL_CLOCKS:
                    found.add((path.name, function.name))
                assert not (isinstance(node, ast.Name) and node.id in {"time_ns", "utcnow"})
    assert found == MAY_TELL_THE_DATE


def test_a_clock_that_jumps_changes_nothing(make_scoring: MakeScoring) -> None:
    """Under a wall clock that jumps at every look, retries, timeouts and outputs are those of a calm day."""
    compiler = shutil.which("cc") or shutil.which((sysconfig.get_config_var("CC") or "cc").split()[0])
    if compiler is None:
        pytest.skip("no C compiler on this machine")
    scoring = make_scoring(10)
    source, library = scoring.folder / "jump.c", scoring.folder / "jump.so"
    source.write_text(JUMPING_CLOCK)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True, capture_output=True)
    scoring.server.behave(latency_s=0.02, fault={"status": 429, "headers": {"Retry-After": "0.1"}}, fault_times=1)
    limits = ("--call-timeout", 5, "--comparison-timeout", 20, "--deadline", 30, "--give-up-after", 20)
    finished = scoring.genrm.run(*scoring.arguments(*limits), LD_PRELOAD=str(library))
    assert finished.code == 0, finished.err
    metrics = scoring.check_honest()
    assert metrics["failures"] == 0
    assert 0 < metrics["wall_time_s"] < 30
    scoring.check_undisturbed()
    scoring.check_resumes()
