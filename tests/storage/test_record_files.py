"""Files of records: rows are appended to hidden files, which lose their dot in the end."""

import asyncio
import resource
import shutil
from pathlib import Path

import pytest

from genrm_cli.errors import StorageError
from genrm_cli.storage.record_files import RecordFiles
from genrm_cli.storage.store import Store


class Rows(RecordFiles):
    """Two files of a name, of which readers wait for the second."""

    kind = "rows"
    suffixes = (".more.jsonl", ".main.jsonl")

    def __init__(self, folder, events):
        super().__init__(
            str(folder), 3600, lambda event: events.append(event.kind()), Store(), any_prefix=True
        )

    def add(self, *parts, begins=False):
        """Append a row."""
        self._append(*parts, begins=begins)

    def kill(self):
        """Leave the files as a killed server does."""
        for file in self._files:
            file.close()
        self._timer.cancel()
        return self._hidden / f".{self._stem}.main.jsonl"


def test_files_appear_when_they_are_complete(tmp_path):
    """Rows are on the disk at once, under hidden names; a new name completes the files before."""
    events = []

    async def record():
        rows = Rows(tmp_path, events)
        rows.add(b"m\n", b"1\n")
        rows.add(b"", b"2\n")
        assert {path.name[0] for path in tmp_path.iterdir()} == {"."}
        rows.add(b"", b"3\n", begins=True)
        await rows.close()

    asyncio.run(record())
    assert events == ["recorded", "recorded"]
    paths = sorted(path for path in tmp_path.iterdir() if ".more." not in path.name)
    assert [path.read_bytes() for path in paths] == [b"1\n2\n", b"3\n"]
    assert Path(str(paths[0]).replace(".main.", ".more.")).read_bytes() == b"m\n"


def test_the_next_server_completes_what_a_killed_one_left(tmp_path):
    """Without a line that was cut off; files of a running server are left alone."""
    events = []

    async def record():
        for data in (b"1\n2\n", b""):
            killed = Rows(tmp_path, [])
            killed.add(b"m\n", data)
            with killed.kill().open("ab") as file:
                file.write(b'{"cut')
        running = Rows(tmp_path, [])
        running.add(b"m\n", b"3\n")
        await Rows(tmp_path, events).complete_left()
        running.kill()

    asyncio.run(record())
    assert events == ["recorded"]
    visible = [path for path in tmp_path.iterdir() if not path.name.startswith(".")]
    assert sorted(path.read_bytes() for path in visible) == [b"1\n2\n", b"m\n"]
    assert len(list(tmp_path.iterdir())) == 4


def test_servers_of_one_second_and_one_pid_keep_each_others_rows(tmp_path):
    """Names differ by more than time and process; one that a killed server had published already is
    published again, whole.
    """
    events = []

    async def record():
        one = Rows(tmp_path, events)
        other = Rows(tmp_path, events)
        assert one.stem.split("-")[2] != other.stem.split("-")[2]
        one.add(b"m\n", b"1\n")
        other.add(b"m\n", b"2\n")
        (tmp_path / f"{other.stem}.more.jsonl").write_bytes(b"m\n")
        await one.close()
        await other.close()

    asyncio.run(record())
    assert events == ["recorded", "recorded"]
    assert sorted(path.read_bytes() for path in tmp_path.iterdir()) == [
        b"1\n",
        b"2\n",
        b"m\n",
        b"m\n",
    ]


def test_a_row_that_the_disk_has_no_room_for_is_refused(tmp_path):
    """No part of it stands anywhere, and later rows follow once there is room."""
    _, most = limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    async def record():
        rows = Rows(tmp_path, [])
        rows.add(b"m\n", b"1\n")
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, most))
        try:
            with pytest.raises(StorageError, match=r"File too large|No space left"):
                rows.add(b"m\n", b"2" * 2_000 + b"\n")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        rows.add(b"n\n", b"3\n")
        await rows.close()

    asyncio.run(record())
    assert sorted(path.read_bytes() for path in tmp_path.iterdir()) == [b"1\n3\n", b"m\nn\n"]


def test_files_that_cannot_be_published_are_another_try(tmp_path):
    """A failure is told; the next completion publishes them."""
    events = []
    folder = tmp_path / "records"

    async def record():
        rows = Rows(folder, events)
        rows.add(b"m\n", b"1\n")
        (blocked := folder / f"{rows.stem}.main.jsonl").mkdir()
        (blocked / "x").touch()
        rows.add(b"m\n", b"2\n", begins=True)
        with pytest.raises(StorageError, match="tries again"):
            await rows.close()
        assert "record_failed" in events
        shutil.rmtree(blocked)
        await rows.complete_left()

    asyncio.run(record())
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]
    assert events.count("recorded") == 2
