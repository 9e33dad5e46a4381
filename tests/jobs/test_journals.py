import asyncio
from pathlib import Path

import pytest
from stored_outcomes import verdict_in

from genrm_cli.errors import StorageError
from genrm_cli.jobs.context import new_run
from genrm_cli.jobs.journals import journal_path, known_journal, open_journal, segments_folder
from genrm_cli.settings import Settings, settings_from
from genrm_cli.settings.components import Component, TotalTable
from genrm_cli.verdicts import Outcome, Verdict

SCORED = "s3://bucket/rl/env/scored/run.scored.jsonl.gz"
GOOD = Outcome(Verdict(4, 2, 2), 2, 1.5, 900, 120, "reply")


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    """Give a state folder of the test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def test_where_a_journal_lies(state):
    """Beside a local output, in the named file, else in the state folder; nowhere without a judge
    to pay.
    """
    assert journal_path("a/run.scored.jsonl.gz", Settings()) == "a/run.journal.sqlite"
    assert journal_path("a/run.scored.jsonl", settings_from(journal="b/j")) == "b/j"
    assert journal_path(SCORED, settings_from(journal="b/j")) == "b/j"
    for scored, journal in (
        (SCORED, None),
        ("-", None),
        ("a/run.scored.jsonl", "s3://bucket/rl/j/"),
    ):
        path = journal_path(scored, settings_from(journal=journal))
        assert path is not None
        assert Path(path).is_relative_to(state)
    assert journal_path(SCORED, settings_from(use_journal=False)) is None
    assert journal_path(SCORED, settings_from(judge="lexical")) is None


def test_outputs_share_no_journal():
    """Each output has a journal and a folder of segments of its own, also where names are alike,
    and the same again.
    """
    settings = settings_from(journal="s3://bucket/rl/j/")
    outputs = [
        SCORED,
        SCORED.replace("env", "env-2"),
        SCORED.removesuffix(".gz"),
        "run.scored.jsonl",
    ]
    assert len({journal_path(each, settings) for each in outputs}) == 4
    folders = [segments_folder(each, settings) for each in outputs]
    assert len(set(folders)) == 4
    assert all(
        folder is not None and folder.startswith("s3://bucket/rl/j/run-") for folder in folders
    )
    assert all(folder is not None and folder.endswith("/") for folder in folders)
    assert folders[0] == segments_folder(SCORED, settings_from(journal="s3://bucket/rl/j"))
    assert segments_folder(SCORED, settings_from(journal="local.sqlite")) is None
    assert segments_folder(SCORED, Settings()) is None


async def test_a_journal_is_known_once_it_was_opened():
    """What was never opened is not known; what was, is, as soon as it holds anything."""
    assert known_journal(SCORED, Settings()) is None
    async with open_journal(SCORED, new_run(Settings())) as journal:
        assert journal is not None
        journal.note_judge("m")
    assert str(known_journal(SCORED, Settings())) == journal_path(SCORED, Settings())


async def test_no_journal_where_none_is_kept():
    """Without a journal nothing is opened, and nothing is made."""
    async with open_journal(SCORED, new_run(settings_from(use_journal=False))) as journal:
        assert journal is None
    assert known_journal(SCORED, Settings()) is None


def test_what_one_machine_learns_another_one_knows(s3_bucket, state, monkeypatch):
    """Opened elsewhere, a journal on S3 holds what was recorded here; nothing new writes nothing
    new.
    """
    folder = f"s3://{s3_bucket.name}/rl/_genrm/journal/"
    run = new_run(settings_from(journal=folder))

    async def record():
        async with open_journal(SCORED, run) as journal:
            assert journal is not None
            await journal.record(b"\x01" * 32, "a-judge", GOOD)

    async def recall():
        async with open_journal(SCORED, run) as journal:
            assert journal is not None
            return verdict_in(journal, b"\x01" * 32)

    asyncio.run(record())
    segments = [found.identity for found in run.store.at(folder).iter_found()]
    assert len(segments) == 1
    monkeypatch.setenv("XDG_STATE_HOME", str(state) + "-elsewhere")
    known = asyncio.run(recall())
    assert known is not None
    assert known.result == GOOD.result
    assert [found.identity for found in run.store.at(folder).iter_found()] == segments


def test_verdicts_from_before_the_second_place_are_copied(s3_bucket):
    """A journal that was kept here only is copied whole as soon as a folder on S3 is named."""
    folder = f"s3://{s3_bucket.name}/rl/_genrm/journal/"
    scored = f"s3://{s3_bucket.name}/rl/run.scored.jsonl"

    async def open_it(settings, count):
        async with open_journal(scored, new_run(settings)) as journal:
            assert journal is not None
            for number in range(count):
                await journal.record(number.to_bytes(32, "big"), "a-judge", GOOD)

    asyncio.run(open_it(Settings(), 7))
    asyncio.run(open_it(settings_from(journal=folder, segment_calls=3), 0))
    assert len(list(new_run(Settings()).store.at(folder).iter_found())) == 3


@pytest.mark.parametrize(
    "says", ["access denied", pytest.param("cannot reach", marks=pytest.mark.slow)]
)
def test_a_second_place_that_cannot_be_read_ends_the_work_before_it_begins(
    disturbed_s3, says, monkeypatch
):
    """A journal whose copies cannot be listed is not opened: what they hold would be paid for
    twice.
    """
    disturbed_s3.rule(answer={"code": "AccessDenied"})
    url = disturbed_s3.url if says == "access denied" else "http://127.0.0.1:9"
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    run = new_run(settings_from(journal="s3://bucket/rl/j/"))

    async def open_it():
        async with open_journal(SCORED, run):
            pytest.fail("it was opened")

    with pytest.raises(StorageError, match=says):
        asyncio.run(open_it())


def test_a_journal_is_kept_where_somebody_is_asked():
    """One who grades a component is asked, beside the stand-in too; of rules and fields nothing is
    kept.
    """
    rubric = Component("care", "rubric", (("set", "therapeutic"),))
    total = TotalTable((("guard", 1.0),))
    safety = Component("guard", "rule", (("rule", "guard"),))
    assert journal_path(SCORED, settings_from(judge="lexical", components=(rubric,))) is not None
    assert journal_path(SCORED, settings_from(components=(safety,), total=total)) is None
    assert journal_path(SCORED, settings_from(components=(safety, rubric), total=total)) is not None
    assert journal_path(SCORED, settings_from(judge="lexical", components=(safety,))) is None
