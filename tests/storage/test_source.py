import gzip
import os
import threading
import zipfile

import pytest
import zstandard
from processes import run_program

from genrm_cli.errors import InputError, StorageError, UsageError
from genrm_cli.settings.file_settings import InputSettings
from genrm_cli.storage.source import open_source
from genrm_cli.storage.store import Store

_LIMIT = 1 << 20
_TEXT = b'{"n":1}\n\n{"n":"\xe2\x80\xa8"}\r\n{"n":3}'


def _open(uri):
    return open_source(str(uri), Store(), InputSettings())


def _write(path, data):
    if path.suffix == ".gz":
        data = gzip.compress(data)
    if path.suffix == ".zst":
        data = zstandard.compress(data)
    path.write_bytes(data)
    return path


def test_lines_can_be_read_again(tmp_path):
    """A second iteration yields the same lines from the start, compressed or not."""
    for name in ["x.jsonl", "x.jsonl.gz", "x.jsonl.zst"]:
        with _open(_write(tmp_path / name, _TEXT)) as source:
            lines = list(source.iter_lines())
            assert [line.number for line in lines] == [1, 3, 4]
            assert list(source.iter_lines()) == lines
            source.verify_unchanged()


def test_iterations_run_side_by_side(tmp_path):
    """Overlapping iterations yield the same lines."""
    data = b"".join(b'{"n":%d}\n' % n for n in range(60_000))
    with _open(_write(tmp_path / "x.jsonl", data)) as source:
        for one, other in zip(source.iter_lines(), source.iter_lines(), strict=True):
            assert one == other


def test_changed_length_is_noticed(tmp_path):
    """A file that shrinks or grows after it was opened is refused."""
    for length in [3, 100]:
        path = _write(tmp_path / "x.jsonl", _TEXT)
        with _open(path) as source:
            os.truncate(path, length)
            with pytest.raises(InputError, match="changed while being read"):
                source.verify_unchanged()


def test_a_rewrite_that_restores_the_modification_time_is_noticed(tmp_path):
    """The kernel's change time tells what size and modification time do not."""
    path = _write(tmp_path / "x.jsonl", _TEXT)
    with _open(path) as source:
        before = path.stat()
        while (
            path.stat().st_ctime_ns == before.st_ctime_ns
        ):  # file systems count in ticks of some milliseconds
            path.write_bytes(_TEXT.swapcase())
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        with pytest.raises(InputError, match="changed while being read"):
            source.verify_unchanged()


def test_unreadable_file_is_an_input_error(tmp_path):
    """The message is one line that begins with the path and says what is wrong."""
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "link.jsonl")
    cases = {
        "missing.jsonl": "no such file",
        "folder.jsonl": "is a folder",
        "link.jsonl": "cannot be read",
    }
    for name, message in cases.items():
        path = tmp_path / name
        with pytest.raises(InputError, match=message) as caught:
            _open(path)
        assert str(caught.value).startswith(f"{path}: ")
        assert "\n" not in str(caught.value)


def test_file_without_permission_is_an_input_error(tmp_path):
    """The message says that permission is missing; a file beside it with permission is read."""
    _write(tmp_path / "no.jsonl", _TEXT).chmod(0)
    _write(tmp_path / "yes.jsonl", _TEXT).chmod(0o644)
    tmp_path.chmod(0o755)
    script = (
        "import os\n"
        "from genrm_cli.errors import InputError\n"
        "from genrm_cli.settings.file_settings import InputSettings\n"
        "from genrm_cli.storage.store import Store\n"
        "from genrm_cli.storage.source import open_source\n"
        "if os.geteuid() == 0: os.setuid(65534)\n"  # root may read everything
        "print(len(list(open_source('yes.jsonl', Store(), InputSettings()).iter_lines())))\n"
        "try: open_source('no.jsonl', Store(), InputSettings())\n"
        "except InputError as error: print(error)\n"
    )
    done = run_program(script, cwd=tmp_path)
    assert done.stdout == "3\nno.jsonl: permission denied; make it readable for this user\n"


def test_uri_of_another_kind_is_a_usage_error():
    """Anything but a path, `-` or a complete S3 URI is refused."""
    for uri in ["https://host/x.jsonl", "s3://bucket", ""]:
        with pytest.raises(UsageError):
            _open(uri)


def test_named_pipe_is_read_like_a_file(tmp_path):
    """A pipe, as from `<(zcat ...)`, is copied and can be read repeatedly."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(_TEXT,))
    writer.start()
    with _open(pipe) as source:
        writer.join()
        assert len(list(source.iter_lines())) == len(list(source.iter_lines())) == 3
        assert source.identity.size_bytes is None


def test_standard_input_is_read_like_a_file():
    """`-` can be read twice."""
    script = (
        "from genrm_cli.settings.file_settings import InputSettings\n"
        "from genrm_cli.storage.store import Store\n"
        "from genrm_cli.storage.source import open_source\n"
        "import sys\n"
        "with open_source('-', Store(), InputSettings()) as source:\n"
        "    lines = list(source.iter_lines())\n"
        "    assert lines == list(source.iter_lines())\n"
        "    print(len(lines), lines[2].raw.decode())\n"
        "assert not {'boto3', 'botocore'} & sys.modules.keys()\n"
    )
    done = run_program(script, input=_TEXT, text=False)
    assert done.stdout == b'3 {"n":3}\n'


def test_no_room_to_copy_is_a_storage_error(tmp_path, monkeypatch):
    """A missing temporary folder is a `StorageError` that names TMPDIR."""
    path = _write(tmp_path / "x.jsonl.gz", _TEXT)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(StorageError, match="TMPDIR"):
        _open(path)


@pytest.mark.slow
def test_memory_stays_flat(tmp_path):
    """Iterating over 100 MB holds a few megabytes."""
    import tracemalloc

    path = tmp_path / "x.jsonl"
    with path.open("wb") as file:
        for _ in range(100):
            file.write((b"x" * 1599 + b"\n") * 656)
    with _open(path) as source:
        tracemalloc.start()
        try:
            count = sum(1 for _ in source.iter_lines())
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert count == 65_600
    assert peak < 10 << 20


def _bomb(path, content):
    """Write 64 MB, or more as an archive, as a few kilobytes."""
    if path.suffix == ".eval":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for number in range(20):
                archive.writestr(f"samples/{number}_epoch_1.json", content[:_LIMIT])
        return path
    return _write(path, content)


def _count_lines(path, max_unpacked):
    with open_source(str(path), Store(), InputSettings(max_unpacked=max_unpacked)) as source:
        return sum(1 for _ in source.iter_lines())


def test_an_input_that_unpacks_to_more_than_the_limit_is_refused(tmp_path):
    """A few kilobytes that unpack to 4 MB and more end at the limit, which the error names, and fit
    under a higher one.
    """
    for name in ["x.jsonl.gz", "x.jsonl.zst", "x.eval"]:
        path = _bomb(tmp_path / name, b"0" * (4 << 20))
        assert path.stat().st_size < 150_000
        with pytest.raises(InputError, match=rf"{path.name}: unpacks to more than 1,000,000 bytes"):
            _count_lines(path, 1_000_000)
        assert _count_lines(path, 24 << 20) == (20 if name == "x.eval" else 1)


def test_an_uncompressed_file_has_no_limit(tmp_path):
    """A plain file is read where it is, so nothing of it is unpacked."""
    path = _write(tmp_path / "x.jsonl", _TEXT)
    with open_source(str(path), Store(), InputSettings(max_unpacked=1)) as source:
        assert len(list(source.iter_lines())) == 3
