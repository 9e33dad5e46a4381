"""What every kind of storage promises, each claim checked of local files and of S3.

A new kind is one more parameter of `place`."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace
from s3_objects import get, keys_in

from genrm_cli.errors import StorageError, UsageError
from genrm_cli.settings.file_settings import InputSettings
from genrm_cli.storage.outputs import Outputs
from genrm_cli.storage.source import open_source
from genrm_cli.storage.store import Store

STORE = Store()
_LARGE = (8 << 20) + 1  # more than one part of an upload


class Place:
    """A folder or prefix, and what is in it, unfinished files and uploads too."""

    def __init__(self, root, names, content):
        self.root = root
        self.names = names
        self.content = content

    def at(self, name):
        return STORE.at(f"{self.root}/{name}")

    def open_sink(self, name, *, overwrite=False):
        return STORE.open_sink(f"{self.root}/{name}", overwrite=overwrite)


@pytest.fixture(params=["disk", "s3"])
def place(request, tmp_path):
    """Give an empty place."""
    if request.param == "disk":
        return Place(
            str(tmp_path),
            lambda: {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")},
            lambda name: (tmp_path / name).read_bytes(),
        )
    bucket = request.getfixturevalue("s3_bucket")
    return Place(
        f"s3://{bucket.name}/rl",
        lambda: {key.removeprefix("rl/") for key in keys_in(bucket)},
        lambda name: get(bucket, f"rl/{name}"),
    )


def test_object_lives_through_all_of_it(place):
    """An object is created once, read, replaced, removed, and created anew; bytes are kept as they
    are, and folders are made.
    """
    at = place.at("not/yet/ü [1].jsonl.gz")
    assert at.read() is None
    assert at.create(b"one") is True
    assert at.create(b"two") is False
    assert at.read() == b"one"
    at.replace(b"")
    assert at.read() == b""
    at.remove()
    at.remove()
    assert at.read() is None
    assert at.create(bytes(range(256)) * 4000) is True
    assert at.read() == bytes(range(256)) * 4000


def test_of_many_that_create_one_succeeds(place):
    """Eight threads that create the same objects at the same time: each object has one winner,
    whose content it has.
    """
    together = threading.Barrier(8)

    def create_all(thread):
        won = []
        for number in range(4):
            together.wait(timeout=30)
            won.append(place.at(f"x.{number}").create(b"%d" % thread * 1000))
        return won

    with ThreadPoolExecutor(8) as threads:
        wins = list(threads.map(create_all, range(8)))
    for number in range(4):
        (winner,) = [thread for thread in range(8) if wins[thread][number]]
        assert place.at(f"x.{number}").read() == b"%d" % winner * 1000


@pytest.mark.parametrize("name", ["x.jsonl", "a b/ü.jsonl.gz", "x.jsonl.zst"])
def test_what_is_written_can_be_read(place, name):
    """Lines come back, compressed or not; a listing, a look and an opened input report the same
    version.
    """
    place.at(name).make_folder()
    sink = place.open_sink(name)
    sink.write(b'{"n":1}\n{"n":2}\n')
    sink.commit()
    (found,) = place.at("").iter_found()
    with open_source(found.identity.uri, STORE, InputSettings()) as source:
        assert [line.raw for line in source.iter_lines()] == [b'{"n":1}', b'{"n":2}']
        source.verify_unchanged()
        assert source.identity == found.identity == place.at(name).identify()
    assert 0 <= found.age_s < 60


def test_an_opened_input_stays_the_version_it_was(place):
    """Replacing an input changes its identity, but not what an open one reads."""
    place.at("x.jsonl").replace(b"1\n")
    before = place.at("x.jsonl").identify()
    with open_source(f"{place.root}/x.jsonl", STORE, InputSettings()) as source:
        place.at("x.jsonl").replace(b"2\n")
        assert [line.raw for line in source.iter_lines()] == [b"1"]
        source.verify_unchanged()
        assert source.identity == before != place.at("x.jsonl").identify()


def test_files_are_found_by_the_beginning_of_their_name(place):
    """Every file of a folder whose URI starts with a text is found, hidden or not, in the order of
    keys.
    """
    names = (".x.lease", "x.jsonl", "x.lease-1", "x.lease-2")
    for name in (*names, "x.lease-folder/y.jsonl"):
        place.at(name).replace(b"{}")
    for start, expected in (("x.le", names[2:]), ("", names), (".x", names[:1]), ("z", ())):
        found = [file.identity.uri for file in place.at(start).iter_named()]
        assert found == [f"{place.root}/{name}" for name in expected]


@pytest.mark.parametrize("size", [10, _LARGE])
def test_output_appears_whole_at_commit(place, size):
    """Until the commit an output is absent, or what it was before; afterwards nothing else is
    left.
    """
    for content in (b"a" * size, b"b" * size):
        before = place.at("x.jsonl").read()
        sink = place.open_sink("x.jsonl", overwrite=True)
        sink.write(content)
        sink.finish()
        assert place.at("x.jsonl").read() == before
        sink.commit()
        sink.abort()
        assert place.content("x.jsonl") == content
        assert place.names() == {"x.jsonl"}


@pytest.mark.parametrize("stage", ["opened", "written", "finished"])
def test_abort_leaves_nothing(place, stage):
    """An aborted output leaves neither a file nor an upload; aborting twice is harmless."""
    sink = place.open_sink("x.jsonl")
    if stage != "opened":
        sink.write(bytes(_LARGE))
    if stage == "finished":
        sink.finish()
    sink.abort()
    sink.abort()
    assert place.names() == set()


@pytest.mark.parametrize("size", [10, _LARGE])
def test_an_output_of_others_is_not_replaced(place, size):
    """Without overwrite an existing output is refused at once, and one that appears meanwhile at
    the commit.
    """
    sink = place.open_sink("x.jsonl")
    sink.write(bytes(size))
    place.at("x.jsonl").replace(b"theirs")
    with pytest.raises(StorageError, match="created by another process"):
        sink.commit()
    sink.abort()
    assert place.names() == {"x.jsonl"}
    with pytest.raises(UsageError, match="force"):
        place.open_sink("x.jsonl")
    assert place.content("x.jsonl") == b"theirs"


@pytest.mark.parametrize("name", ["empty.jsonl", "empty.jsonl.gz", "x.jsonl", "large.jsonl"])
def test_output_is_known_again_by_its_mark(place, name):
    """The mark of a finished output is that of the stored one, until another one with the same
    content replaces it; what others wrote has no id.
    """
    size = {"x.jsonl": 10, "large.jsonl": _LARGE}.get(name, 0)
    at = place.at(name)
    assert at.mark() is None
    marks = []
    for _ in range(2):
        sink = place.open_sink(name, overwrite=True)
        sink.write(bytes(size))
        assert sink.mark is None
        sink.finish()
        marks.append(sink.mark)
        sink.commit()
        assert sink.mark == marks[-1]
        assert at.mark() == replace(sink.mark, sha256=None)
    assert marks[0] != marks[1]
    at.replace(b"theirs")
    theirs = at.mark()
    assert theirs.size_bytes == 6
    assert theirs.upload is None


def test_outputs_appear_together(place):
    """No output is visible before all are committed, and none after a run that fails."""
    with pytest.raises(KeyboardInterrupt), Outputs(STORE, overwrite=False) as outputs:  # noqa: PT012
        outputs.open(f"{place.root}/a.jsonl").write(bytes(_LARGE))
        raise KeyboardInterrupt
    assert place.names() == set()
    with Outputs(STORE, overwrite=False, mark_uri=f"{place.root}/x.commit") as outputs:
        for name in ("a.jsonl", "b.jsonl"):
            outputs.open(f"{place.root}/{name}").write(name.encode())
        assert not any(place.at(name).exists() for name in ("a.jsonl", "b.jsonl"))
        outputs.commit()
    assert place.names() == {"a.jsonl", "b.jsonl"}


def test_check_leaves_nothing_behind(place):
    """Checking that an output can be written leaves neither a file nor an upload."""
    place.at("x.jsonl").check_writable()
    assert place.names() == set()
