"""The journal: what is kept, who may share it, and what is never destroyed."""

import asyncio
import contextlib
import json
import os
import shutil
import sqlite3
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from stored_outcomes import count_verdicts, failure_in, key, record_all, verdict_in

from genrm_cli.errors import StorageError
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.journal_file import FORMAT
from genrm_cli.verdicts import Failure, FailureKind, Grades, Outcome, Verdict

LABEL = "m · nemotron-1"
GOOD = Outcome(Verdict(4, 2, 2), 2, 1.5, 900, 120, '{"score_1": 4, ...}')
GRADED = Outcome(
    Grades((4.25, 1.0, 5.0), ("good", "Ünïcode 🎲", "")), 2, 1.5, 900, 120, '{"scores": {}}'
)
BAD = Outcome(Failure(FailureKind.TRUNCATED, "no room"), attempts=4)


def failure_kind(entry):
    """Return the kind of an entry's failure; None for a verdict."""
    return entry["body"].get("failure", {}).get("kind")


@pytest.fixture
def path(tmp_path):
    """Name a journal that does not exist yet."""
    return str(tmp_path / "run.journal.sqlite")


def test_a_verdict_comes_back_as_it_was(path):
    """A recalled outcome has the verdict, cost, tokens and reply of the original run, marked as
    from the journal.
    """
    recorded = {1: replace(GOOD, reply_text="Ünïcode 🎲 " * 1000), 2: GRADED}
    with Journal(path) as journal:
        assert not any(counted.from_journal for counted in record_all(journal, recorded))
    with Journal(path) as reopened:
        for each, outcome in recorded.items():
            assert verdict_in(reopened, each, with_reply=True) == outcome
        assert count_verdicts(reopened) == 2
        assert verdict_in(reopened, 3) is None


async def test_what_is_recorded_is_on_disk_when_its_writer_hears_of_it(path):
    """Another process, or this one after a kill, sees a verdict as soon as `record` has
    returned.
    """
    with Journal(path) as journal, Journal(path) as other:
        await journal.record(key(1), LABEL, replace(GOOD))
        assert verdict_in(other, 1) is not None


def count_commits(path):
    """Count the commits in a journal's write-ahead log. Source: SQLite's file format, section
    4.1.
    """
    log = Path(path + "-wal").read_bytes()
    frame_bytes = 24 + int.from_bytes(log[8:12], "big")
    return sum(log[start + 4 : start + 8] != bytes(4) for start in range(32, len(log), frame_bytes))


def test_what_arrives_together_is_committed_together(path):
    """300 verdicts and failures of one turn of the event loop cost one commit."""
    with Journal(path) as journal:
        before = count_commits(path)
        record_all(journal, {n: BAD if n % 3 else GOOD for n in range(300)})
        assert count_commits(path) == before + 1
        assert count_verdicts(journal) == 100


async def test_a_writer_that_is_cancelled_disturbs_nobody(path):
    """Cancelling one waiter neither wakes nor fails the others, and all verdicts are stored."""
    with Journal(path) as journal:
        tasks = [
            asyncio.create_task(journal.record(key(n), LABEL, replace(GOOD))) for n in range(3)
        ]
        await asyncio.sleep(0)
        tasks[0].cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results] == [asyncio.CancelledError, Outcome, Outcome]
        assert count_verdicts(journal) == 3


async def test_closing_commits_what_waits(path):
    """A verdict recorded just before closing is stored, even if the event loop never ran its
    commit.
    """
    journal = Journal(path)
    task = asyncio.create_task(journal.record(key(1), LABEL, replace(GOOD)))
    await asyncio.sleep(0)
    journal.close()
    task.cancel()
    with Journal(path) as reopened:
        assert count_verdicts(reopened) == 1


def test_what_cannot_be_stored_is_an_error_and_no_endless_wait(path):
    """A value that SQLite refuses raises an error for its writer and for every writer of the same
    commit.
    """

    async def record():
        entries = (replace(GOOD, prompt_tokens=2**64), replace(GOOD))
        writers = (journal.record(key(n), LABEL, each) for n, each in enumerate(entries))
        return await asyncio.wait_for(asyncio.gather(*writers, return_exceptions=True), 60)

    with Journal(path) as journal:
        assert [type(result) for result in asyncio.run(record())] == [TypeError, TypeError]
        assert count_verdicts(journal) == 0
        record_all(journal, {1: GOOD})
        assert count_verdicts(journal) == 1


def test_failures_are_kept_for_the_report_and_never_recalled(path):
    """A failed request is repeated next time; its last kind is reported until a verdict replaces
    it.
    """
    with Journal(path) as journal:
        (counted,) = record_all(journal, {1: BAD})
        assert counted.result == BAD.result
        record_all(journal, {1: Outcome(Failure(FailureKind.TIMEOUT, "too late"), attempts=1)})
        assert verdict_in(journal, 1) is None
        assert count_verdicts(journal) == 0
        assert failure_in(journal, 1) is not None
        assert failure_in(journal, 2) is None
        assert [failure_kind(entry) for entry in journal.iter_entries()] == ["timeout"]
        record_all(journal, {1: GOOD})
        assert [failure_kind(entry) for entry in journal.iter_entries()] == [None]
        assert verdict_in(journal, 1) is not None


def test_the_first_verdict_on_a_question_counts_for_all(path):
    """Of two processes with the same request, the second takes the verdict of the first, also after
    its own failure.
    """
    with Journal(path) as one, Journal(path) as two:
        record_all(one, {1: GOOD})
        verdict = record_all(two, {1: replace(GOOD, result=Verdict(1, 5, 6))})[0]
        failure = record_all(two, {1: BAD})[0]
        assert verdict.result == failure.result == GOOD.result
        assert failure.from_journal
        assert [failure_kind(entry) for entry in two.iter_entries()] == [None]


async def test_a_lock_of_another_process_is_waited_for(path):
    """A verdict waits while another process writes, and is then stored."""
    with Journal(path) as journal:
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        release = asyncio.to_thread(lambda: (time.sleep(0.2), other.execute("COMMIT")))
        await asyncio.gather(release, journal.record(key(1), LABEL, replace(GOOD)))
        other.close()
        assert count_verdicts(journal) == 1


def refusal(path):
    """Return why a file is not taken for a journal; nothing in its folder may have changed."""
    folder = Path(path).parent
    before = {each.name: each.read_bytes() for each in folder.iterdir()} if folder.is_dir() else {}
    with pytest.raises(StorageError) as caught:
        Journal(path)
    after = {each.name: each.read_bytes() for each in folder.iterdir()} if folder.is_dir() else {}
    assert after == before
    assert path in str(caught.value)
    return str(caught.value)


def foreign(path, statements="CREATE TABLE theirs (number INTEGER)"):
    """Make a database of another program, or change one."""
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.executescript(statements)


def test_what_is_no_journal_is_not_touched(path):
    """A database of another program, with rows or without, a text file, and one that only begins
    like a database, are named and left as they are.
    """
    foreign(path)
    assert "not a genrm journal; set journal to another file" in refusal(path)
    foreign(path, "CREATE TABLE verdicts (key); INSERT INTO verdicts VALUES (1)")
    assert "not a genrm journal" in refusal(path)
    cases = [b'{"prompt": "Why?"}\n' * 100, b"SQLite format 3\0" + bytes(range(256)) * 40]
    for content in cases:
        Path(path).write_bytes(content)
        assert "damaged or not a journal; its contents are unchanged" in refusal(path)


def test_another_format_is_not_touched(path):
    """A journal of a later genrm is neither read nor converted; both formats are named."""
    with Journal(path) as journal:
        record_all(journal, {1: GOOD})
    foreign(path, f"PRAGMA user_version = {FORMAT + 1}; PRAGMA journal_mode = DELETE")
    reason = refusal(path)
    assert f"format {FORMAT + 1}" in reason
    assert f"format {FORMAT}." in reason
    assert "set journal to" in reason


def test_a_damaged_journal_is_named_and_not_made_worse(path):
    """If pages in the middle are garbage, reading raises an error with a remedy, and the file is
    unchanged.
    """
    with Journal(path) as journal:
        record_all(
            journal, {n: replace(GOOD, reply_text=os.urandom(500).hex()) for n in range(400)}
        )
    content = bytearray(Path(path).read_bytes())
    content[8_192 : len(content) - 4_096] = os.urandom(len(content) - 12_288)
    Path(path).write_bytes(content)

    def read_all():
        with Journal(path) as opened:
            list(opened.iter_entries())

    with pytest.raises(StorageError) as caught:
        read_all()
    assert "damaged or not a journal" in str(caught.value)
    assert "Move it away, or set journal to another file" in str(caught.value)
    assert Path(path).read_bytes() == content


def test_an_empty_journal_is_removed(tmp_path):
    """A run that fails before its first answer leaves no file; what others write in the same
    process stays.
    """
    path = tmp_path / "run.sqlite"
    with Journal(str(path)):
        pass
    assert not list(tmp_path.iterdir())
    with Journal(str(path)) as journal:
        with Journal(str(path)):
            pass
        record_all(journal, {1: GOOD})
    with Journal(str(path)) as journal:
        assert journal.has_verdicts
    assert [each.name for each in tmp_path.iterdir()] == ["run.sqlite"]


def test_a_missing_folder_is_named(tmp_path):
    """A journal in a missing folder is refused; the folder is not created."""
    assert "its folder does not exist" in refusal(str(tmp_path / "away" / "run.sqlite"))
    assert not (tmp_path / "away").exists()


@contextlib.contextmanager
def as_nobody():
    """Give up the rights of root for a while: nothing is read-only to root."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="needs POSIX rights")
def test_a_read_only_journal_is_refused():
    """A journal that cannot be written is refused before the run, and left unchanged."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "run.sqlite"
        with Journal(str(path)) as journal:
            record_all(journal, {1: GOOD})
        before = path.read_bytes()
        path.chmod(0o444)
        Path(name).chmod(0o555)
        try:
            with as_nobody(), pytest.raises(StorageError, match=f"{path}-lock: Permission denied"):
                Journal(str(path))
        finally:
            Path(name).chmod(0o755)
        assert path.read_bytes() == before


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="needs POSIX rights")
@pytest.mark.parametrize(
    ("file_mode", "folder_mode"), [(0o444, 0o555), (0o444, 0o755), (0o644, 0o555)]
)
@pytest.mark.parametrize("is_logged", [False, True])
def test_a_read_only_journal_can_be_read(is_logged, file_mode, folder_mode):
    """Opened for reading, it tells everything, or is refused if the log of a killed run holds more
    than the file.
    """
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as copies:
        path = Path(name) / "run.sqlite"
        copy = Path(copies) / "run.sqlite"
        with Journal(str(path)) as journal:
            record_all(journal, {1: GOOD, 2: BAD})
            for suffix in ("", "-wal") if is_logged else ():
                shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
        if not is_logged:
            shutil.copyfile(path, copy)
        before = {each: each.read_bytes() for each in Path(copies).iterdir()}
        for each in before:
            each.chmod(file_mode)
        Path(copies).chmod(folder_mode)
        expected = (
            pytest.raises(StorageError, match="check that it is a file")
            if is_logged
            else contextlib.nullcontext()
        )
        with as_nobody(), expected, Journal(str(copy), read_only=True) as journal:
            assert verdict_in(journal, 1, with_reply=True) == GOOD
            assert len(list(journal.iter_entries())) == 2
        Path(copies).chmod(0o755)
        assert {each: each.read_bytes() for each in Path(copies).iterdir()} == before


def test_reading_a_journal_leaves_nothing_behind(path):
    """Opened for reading beside a writer or alone, a journal takes no entries and leaves no
    files.
    """
    with Journal(path) as writer:
        record_all(writer, {1: GOOD})
        with Journal(path, read_only=True) as journal:
            assert verdict_in(journal, 1) is not None
            with pytest.raises(StorageError, match="readonly"):
                record_all(journal, {2: GOOD})
            journal._batch.clear()
    with Journal(path, read_only=True) as journal:
        assert count_verdicts(journal) == 1
    assert [each.name for each in Path(path).parent.iterdir()] == [Path(path).name]


def test_mean_tokens_are_those_that_servers_told(path):
    """Verdicts without a count do not lower the mean, which is unknown without any."""
    with Journal(path) as journal:
        assert journal.mean_tokens() is None
        record_all(journal, dict.fromkeys(range(3), GOOD))
        record_all(journal, {n: replace(GOOD, completion_tokens=0) for n in range(3, 5)})
        assert journal.mean_tokens() == (900, 120)


def test_all_entries_come_out_ready_for_json(path):
    """The export holds every verdict with its reply, then every failure."""
    entries = entries_of(path, {2: GOOD, 1: GOOD, 3: BAD})
    assert [entry["key"] for entry in entries] == [key(n).hex() for n in (1, 2, 3)]
    assert [entry["reply"] for entry in entries[:2]] == [GOOD.reply_text] * 2
    assert entries[0]["body"]["verdict"]["score_1"] == 4
    assert entries[0]["judge"] == LABEL
    assert entries[2]["body"]["failure"]["detail"] == "no room"
    assert entries[2]["body"]["attempts"] == 4


def entries_of(path, entries):
    """Make what another machine's journal yields, as it comes out of JSON."""
    with Journal(str(path)) as journal:
        record_all(journal, entries)
        return list(json.loads(json.dumps(list(journal.iter_entries()))))


def test_taking_in_adds_what_is_new_and_keeps_what_is_known(path, tmp_path):
    """Entries of another journal are stored, except where this one already has a verdict."""
    outcomes = {1: replace(GOOD, reply_text="theirs"), 2: GOOD, 3: BAD}
    theirs = entries_of(tmp_path / "theirs", outcomes)
    with Journal(path) as journal:
        record_all(journal, {1: replace(GOOD, reply_text="mine")})
        for _ in range(2):
            journal.import_entries(theirs)
        assert [entry["reply"] for entry in list(journal.iter_entries())[:2]] == [
            "mine",
            GOOD.reply_text,
        ]
        assert verdict_in(journal, 2, with_reply=True) == GOOD
        assert failure_in(journal, 3) is not None
        record_all(journal, {3: GOOD})
        assert failure_in(journal, 3) is None


def test_notes_are_no_answers_and_the_latest_counts_in_every_copy(path, tmp_path):
    """They come last from any journal, in any order of copying; no list of answers has them."""
    with Journal(str(tmp_path / "theirs")) as theirs:

        async def note(label):
            theirs.note_judge(label)
            await theirs.flush()
            return list(theirs.iter_notes())

        old = asyncio.run(note("a · 8192"))
        asyncio.run(note("b"))
        new = asyncio.run(note("a · 4096"))
        assert list(theirs.iter_entries()) == []
        assert sorted(theirs.iter_uncopied(), key=itemgetter("key")) == new
    for order in ([old, new], [new, old]):
        with Journal(path) as journal:
            for entries in order:
                journal.import_entries(json.loads(json.dumps(entries)))
            assert journal.find_judge("a") == "a · 4096"
            assert journal.find_judge("c") is None
            assert list(journal.iter_uncopied()) == []
        Path(path).unlink()


NO_ENTRIES = [5, ["key"], {"judge": "a"}]
CHANGES = [{"key": 5}, {"key": "zz"}, {"kind": "vote"}, {"at": "now"}, {"body": [1]}]
CHANGES += [{"reply": 5}, {"reply": None}]


def test_rubbish_is_refused_whole(path, tmp_path):
    """A single invalid entry rejects the whole import with a `StorageError`."""
    good, other = entries_of(tmp_path / "theirs", {1: GOOD, 2: GOOD})
    cases = [*NO_ENTRIES, *(other | change for change in CHANGES)]
    with Journal(path) as journal:
        for bad in cases:
            with pytest.raises(
                StorageError, match="another journal's copy: contains an invalid journal entry"
            ):
                journal.import_entries([good, bad])
            assert list(journal.iter_entries()) == []
        journal.import_entries([good])
        assert count_verdicts(journal) == 1


def test_only_what_is_new_here_is_left_to_copy(path, tmp_path):
    """Imported verdicts are not copied back; a new verdict on a request that failed elsewhere
    is.
    """
    theirs = entries_of(tmp_path / "theirs", {1: GOOD, 2: BAD})
    with Journal(path) as journal:
        assert list(journal.iter_uncopied()) == []
        record_all(journal, {2: GOOD, 3: GOOD, 4: BAD})
    with Journal(path) as reopened:
        reopened.import_entries(theirs)
        uncopied = list(reopened.iter_uncopied())
    assert [entry["key"] for entry in uncopied] == [key(2).hex(), key(3).hex()]
    with Journal(str(tmp_path / "third")) as third:
        third.import_entries([*theirs, *uncopied])
        assert [verdict_in(third, n) is not None for n in (1, 2, 3)] == [True] * 3


class Copies:
    """A second place that keeps what it is given."""

    def __init__(self):
        self.entries: list[dict[str, Any]] = []

    def add(self, entry):
        self.entries.append(entry)

    async def room(self):
        pass


def test_the_copier_gets_what_was_committed_and_nothing_twice(path, tmp_path):
    """A copier receives each new verdict and failure once, except those that another process had
    stored before.
    """
    copies = Copies()
    with Journal(path) as first:
        record_all(first, {1: GOOD})
    with Journal(path, copies) as journal:
        record_all(journal, {1: GOOD, 2: GOOD, 3: BAD})
        record_all(journal, {2: GOOD})
        exported = [entry for entry in journal.iter_entries() if entry["key"] != key(1).hex()]
    assert copies.entries == exported
    with Journal(str(tmp_path / "elsewhere")) as elsewhere:
        elsewhere.import_entries(copies.entries)
        assert verdict_in(elsewhere, 2, with_reply=True) == GOOD
        assert failure_in(elsewhere, 3) is not None


def test_a_new_journal_is_private(tmp_path):
    """It contains the judge's replies: other users cannot read it or its side files, for any
    umask.
    """
    before = os.umask(0)
    try:
        with Journal(str(tmp_path / "j.sqlite")) as journal:
            record_all(journal, {1: GOOD})
            modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(
        ("j.sqlite", "j.sqlite-wal", "j.sqlite-shm", "j.sqlite-lock"), 0o600
    )


def test_runs_that_make_a_journal_at_the_same_moment_wait_for_each_other(tmp_path):
    """SQLite ignores its busy timeout when two connections switch to the write-ahead log
    together.
    """

    def is_opened(path):
        Journal(str(path)).close()
        return True

    with ThreadPoolExecutor(4) as pool:
        for number in range(10):
            opened = [pool.submit(is_opened, tmp_path / f"{number}.sqlite") for _ in range(4)]
            assert all(each.result() for each in opened)
