import gzip
import subprocess
import sys

import pytest
from genrm_process import COMMAND, LIMIT_S

IN_FLIGHT = 4
# What could not be stored, and was asked and answered until everybody knew: 8 to 20 in 13 runs.
AT_RISK = 8 * IN_FLIGHT
# A disk of a few pages, in a mount namespace of its own; later it has room again, and the same
# command is run.
SMALL_DISK = """
mkdir disk && mount -t tmpfs -o size=160k tmpfs disk || exit 77
"$@"; echo "first $?"
ls -A
mount -o remount,size=16m disk
"$0" -m genrm_cli journal disk/journal.sqlite | grep -c reply
"$@"; echo "second $?"
"""
SMALL_TMPDIR = """
mkdir disk && mount -t tmpfs -o size=4m tmpfs disk || exit 77
TMPDIR=disk "$@"
"""


def run_mounted(scoring, script, *arguments):
    """Run a script of the shell, with a command, where it may mount file systems."""
    command = [sys.executable, *COMMAND, *map(str, arguments)]
    try:
        finished = subprocess.run(
            ["unshare", "--mount", "sh", "-c", script, *command],
            cwd=scoring.folder,
            env=scoring.genrm.environment(PATH="/usr/sbin:/usr/bin:/sbin:/bin"),
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip("no unshare on this machine")
    if finished.returncode == 77 or b"unshare: " in finished.stderr:
        pytest.skip("this user may not mount a file system")
    return finished


def test_a_full_disk_ends_the_run_with_5_and_room_mends_it(make_scoring):
    """On a file system that is full, and has room later, the journal stays readable and the next
    run completes it.
    """
    scoring = make_scoring(25)
    limits = ("--concurrency", IN_FLIGHT, "--journal", "disk/journal.sqlite", "--quiet")
    finished = run_mounted(scoring, SMALL_DISK, *scoring.arguments(*limits))
    first, *there, answers, second = finished.stdout.decode().splitlines()
    assert first == "first 5", finished.stderr
    assert second == "second 0", finished.stderr
    assert set(there) == {"in.jsonl", "disk"}
    assert b"disk/journal.sqlite" in finished.stderr
    assert b"Traceback" not in finished.stderr
    assert int(answers) > 0
    metrics = scoring.check_honest()
    assert metrics["journal_hits"] > 0
    assert metrics["verdicts"] + metrics["journal_hits"] == 100
    assert scoring.server.stats()["repeat_answers"] <= AT_RISK
    scoring.check_undisturbed()


def test_what_would_fill_the_disk_for_temporary_data_ends_the_run_with_5(make_scoring):
    """A small file that unpacks to more than TMPDIR has room for is refused before the disk is
    full.
    """
    scoring = make_scoring(1)
    (scoring.folder / "bomb.jsonl.gz").write_bytes(gzip.compress(bytes(16 << 20)))
    finished = run_mounted(scoring, SMALL_TMPDIR, "validate", "bomb.jsonl.gz")
    assert finished.returncode == 5, finished.stderr
    assert b"bomb.jsonl.gz: unpacks to more than the 3,7" in finished.stderr
