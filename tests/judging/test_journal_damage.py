"""A damaged journal: a wrong number never becomes a verdict."""

import random
import sqlite3

import pytest
from msgspec.structs import replace
from stored_outcomes import key, record_all, verdict_in

from genrm_cli.errors import StorageError
from genrm_cli.judging.journal import Journal
from genrm_cli.verdicts import Grades, Outcome, Verdict

GOOD = Outcome(Verdict(4, 2, 2), 2, 1.5, 900, 120, "The first is better.")
GRADED = replace(GOOD, result=Grades((4.0, 2.5), ("good", "bad")))


@pytest.fixture
def path(tmp_path):
    """Make a journal of a verdict, grades and another verdict."""
    path = str(tmp_path / "run.sqlite")
    with Journal(path) as journal:
        record_all(journal, {1: GOOD, 2: GRADED, 3: GOOD})
    return path


def change(path, column, value, keys=(1,)):
    """Set a column of some verdicts."""
    with sqlite3.connect(path) as connection:
        for number in keys:
            connection.execute(
                f"UPDATE entries SET {column} = ? WHERE key = ?", (value, key(number))
            )
    connection.close()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("body", '{"verdict": {"score_1": 5, "score_2": 2, "ranking": 2}}'),
        ("body", "[" * 100_000),
        ("body", b"\xff"),
        ("body", 5),
        ("checksum", 7),
        ("checksum", "long"),
        ("reply", b"\x28\xb5\x2f\xfd"),
        ("reply", "text"),
    ],
)
def test_a_changed_row_is_absent(path, column, value):
    """A row that is not as it was recorded is not recalled, listed or copied, but counted; the
    others are.
    """
    change(path, column, value)
    with Journal(path) as journal:
        assert verdict_in(journal, 1, with_reply=True) is None
        assert journal.damaged == {key(1)}
        assert verdict_in(journal, 3) is not None
        for entries in (journal.iter_entries(), journal.iter_uncopied()):
            assert [entry["key"] for entry in entries] == [key(2).hex(), key(3).hex()]


def test_text_that_is_no_utf_8_is_damage(path):
    """Bytes that do not decode make a row absent, and no error of SQLite's."""
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE entries SET body = CAST(x'ff' AS TEXT) WHERE key = ?", (key(2),))
    connection.close()
    with Journal(path) as journal:
        assert verdict_in(journal, 2) is None
        assert verdict_in(journal, 1) is not None


def test_a_damaged_verdict_is_replaced(path, tmp_path):
    """The next verdict on the same question takes its place, from the judge or from a copy, and
    counts.
    """
    change(path, "checksum", 99, keys=(1, 3))
    with Journal(path) as journal, Journal(str(tmp_path / "theirs")) as theirs:
        mine = replace(GOOD, result=Verdict(1, 5, 6))
        record_all(journal, {1: mine})
        record_all(theirs, {3: GOOD})
        journal.import_entries(theirs.iter_entries())
        assert verdict_in(journal, 1, with_reply=True) == mine
        assert verdict_in(journal, 3, with_reply=True) == GOOD


def test_a_checksum_vouches_for_numbers_outside_the_scale(path):
    """NeMo Gym's parsing accepts any number, and what was recorded comes back."""
    odd = replace(GOOD, result=Verdict(9, -2, 0))
    with Journal(path) as journal:
        record_all(journal, {4: odd})
        assert verdict_in(journal, 4, with_reply=True) == odd


def test_a_damaged_entry_of_a_copy_is_left_out(path, tmp_path):
    """An entry whose numbers were changed is not taken in, and the others are."""
    with Journal(path) as journal, Journal(str(tmp_path / "mine")) as mine:
        entries = list(journal.iter_entries())
        mine.import_entries([entries[0] | {"checksum": 1}, *entries[1:]])
        assert [verdict_in(mine, n) is not None for n in (1, 2, 3)] == [False, True, True]
        assert mine.damaged == {key(1)}


def absent_after_flips(folder, flips, seed):
    """Count verdicts that were not recalled after single bits flipped; everything recalled equals
    what was recorded.
    """
    rng = random.Random(seed)
    path = folder / "run.sqlite"
    recorded = {
        n: replace(
            GOOD,
            result=Verdict(1 + n % 5, 1 + n % 3, 1 + n % 6),
            attempts=n,
            reply_text=f"reply {n}",
        )
        for n in range(60)
    } | {n: replace(GRADED, result=Grades((1 + n / 100, 2.0))) for n in range(60, 90)}
    with Journal(str(path)) as journal:
        record_all(journal, recorded)
    content = path.read_bytes()
    absent = 0
    for flip in range(flips):
        for log in folder.glob(
            "run.sqlite-*"
        ):  # an earlier damage may have kept it from being merged
            log.unlink()
        damaged = bytearray(content)
        place = rng.randrange(100, len(content))
        damaged[place] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        try:
            with Journal(str(path)) as journal:
                for each, outcome in recorded.items():
                    known = verdict_in(journal, each, with_reply=True)
                    absent += known is None
                    assert known in (None, outcome), (seed, flip, place)
        except StorageError:
            absent += 1
    return absent


def test_a_flipped_bit_gives_no_wrong_verdict(tmp_path):
    """After each of 30 random flips every verdict is what it was, or absent, or the journal is
    refused.
    """
    assert absent_after_flips(tmp_path, 30, seed=1) > 2


@pytest.mark.slow
def test_many_flipped_bits_give_no_wrong_verdict(tmp_path):
    """As above with 1,000 flips."""
    assert absent_after_flips(tmp_path, 1_000, seed=821566217) > 100
