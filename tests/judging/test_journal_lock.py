"""One process records in a journal at a time, and nobody waits for a process that is gone."""

import os
import signal
import subprocess
import sys

import pytest

from genrm_cli.errors import StorageError
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.journal_lock import SUFFIX

_HOLD = """
import sys
from genrm_cli.judging.journal import Journal
journal = Journal(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that records in a journal, and the journal."""
    path = str(tmp_path / "j.sqlite")
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        yield process, path
        process.kill()


def test_a_second_process_is_refused_until_the_first_is_gone(holder):
    """The refusal names the holder and the way out; a killed process holds nothing, and a reader is
    never refused.
    """
    process, path = holder
    with Journal(path, read_only=True) as reading:
        assert not reading.has_verdicts
    with pytest.raises(StorageError, match=rf"process {process.pid} on .* is recording"):
        Journal(path)
    process.send_signal(signal.SIGKILL)
    process.wait()
    with Journal(path) as journal:
        assert not journal.has_verdicts


def test_inputs_of_one_run_share_a_journal(tmp_path):
    """The lock belongs to the process: it is held until the last of its journals is closed."""
    path = str(tmp_path / "j.sqlite")
    with Journal(path):
        with Journal(path):
            assert os.path.exists(path + SUFFIX)
        assert os.path.exists(path + SUFFIX)
    assert not os.path.exists(path + SUFFIX)


def test_a_journal_that_cannot_be_opened_is_not_held(tmp_path):
    """A file that is no journal is refused each time for what it is, not for a lock."""
    path = tmp_path / "j.sqlite"
    path.write_text("not a database, but long enough to be read as the head of one" * 9)
    for _ in range(2):
        with pytest.raises(StorageError, match="not a journal"):
            Journal(str(path))
    assert not os.path.exists(f"{path}{SUFFIX}")
