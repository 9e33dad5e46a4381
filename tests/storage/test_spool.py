import os
import resource

from hypothesis import given
from hypothesis import strategies as st
from processes import run_program

from genrm_cli.storage.spool import Spool


@given(
    pieces=st.lists(st.binary(max_size=50) | st.just(b"x" * 600_000), max_size=12),
    looks=st.lists(st.integers(0, 11), min_size=12, max_size=12),
)
def test_everything_appended_can_be_read_at_once(pieces, looks):
    """A span is readable as soon as it is appended, buffered or not, in any order."""
    with Spool() as spool:
        spans = []
        for piece, look in zip(pieces, looks, strict=False):
            spans.append((*spool.write(piece), piece))
            offset, length, expected = spans[look % len(spans)]
            assert spool.read(offset, length) == expected
        assert spool.read(0, sum(map(len, pieces)) + 1) == b"".join(pieces)


def test_spool_leaves_no_name(tmp_path, monkeypatch):
    """The file is in TMPDIR and has no name there, so nothing is left, no matter how the process
    ends.
    """
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Spool() as spool:
        spool.write(bytes(2 << 20))
        assert os.listdir(tmp_path) == []


def test_full_disk_is_a_storage_error():
    """A spool that outgrows the disk fails with our error, and closes without another one."""
    script = (
        "import resource\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, {resource.RLIM_INFINITY}))\n"
        "from genrm_cli.errors import StorageError\n"
        "from genrm_cli.storage.spool import Spool\n"
        "with Spool() as spool:\n"
        "    try:\n"
        "        for _ in range(8): spool.write(bytes(1 << 20))\n"
        "    except StorageError as error: print(error)\n"
    )
    done = run_program(script)
    assert "File too large" in done.stdout
    assert done.stderr == ""
