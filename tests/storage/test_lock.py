import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from genrm_cli.errors import StorageError
from genrm_cli.storage.leases import locked

HOLD = """
import sys
from pathlib import Path
from genrm_cli.storage.leases import locked
with locked(Path(sys.argv[1]), sys.argv[2:]):
    print("held", flush=True)
    sys.stdin.read()
"""
WORDS = ["runs/", "{dir}/{stem}.scored.jsonl"]


def test_a_lock_is_held_once(tmp_path: Path) -> None:
    """The second is refused with the process that has it, and does not free it; afterwards it may be taken again."""
    with locked(tmp_path, WORDS):
        for _ in range(2):
            with pytest.raises(StorageError, match=f"process {os.getpid()}"), locked(tmp_path, WORDS):
                pytest.fail("held twice")
    with locked(tmp_path, WORDS):
        pass


def test_other_work_has_another_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other words, the same words cut otherwise, or another working folder do not exclude each other."""
    with locked(tmp_path, ["a", "b"]), locked(tmp_path, ["ab"]), locked(tmp_path, ["a", "b", ""]):
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        with locked(tmp_path, ["a", "b"]):
            pass


def test_the_lock_of_an_error_is_free(tmp_path: Path) -> None:
    """What ends in an exception gives the lock back."""
    with pytest.raises(RuntimeError), locked(tmp_path, WORDS):
        raise RuntimeError
    with locked(tmp_path, WORDS):
        pass


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_the_lock_of_a_dead_process_is_free(tmp_path: Path, sent: signal.Signals) -> None:
    """However its holder ends, the next one has it, and nothing must be cleaned up by hand."""
    command = [sys.executable, "-c", HOLD, str(tmp_path), *WORDS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StorageError, match=f"process {holder.pid}"), locked(tmp_path, WORDS):
            pytest.fail("held twice")
        holder.send_signal(sent)
        holder.wait(10)
    with locked(tmp_path, WORDS):
        pass


def test_a_folder_that_allows_no_lock_is_named(tmp_path: Path) -> None:
    """No lock, no run: an error that names the place, not a crash."""
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"lock: .*cannot be created"), locked(tmp_path / "file", WORDS):
        pytest.fail("held nothing")
