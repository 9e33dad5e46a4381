"""A hidden file of a living writer stays, however many write to one target."""

import sys
import threading

import pytest

from genrm_cli.storage.local.unfinished import UnfinishedFile


@pytest.fixture
def hasty_threads():
    """Let threads take turns after each instruction, as far as that goes."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_a_file_is_never_taken_for_a_left_one(tmp_path, hasty_threads):
    """Eight writers of one target look for what killed ones left, while the others lock theirs."""
    gone = []

    def write(together):
        together.wait()
        file = UnfinishedFile(tmp_path / "target", 0o600)
        if not file.path.exists():
            gone.append(file.path)
        file.close()

    for _ in range(60):
        together = threading.Barrier(8)
        threads = [threading.Thread(target=write, args=[together]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert gone == []
    assert list(tmp_path.iterdir()) == []
