"""Watched runs of `genrm score` with a real judge that changes, and `genrm watch` over them."""

import json
from pathlib import Path
from typing import Any

import pytest
from genrm_process import Call, Genrm
from judge_server_fixture import JudgeServer

WORDS = "one two three four five six seven eight nine ten"


@pytest.fixture
def watched(genrm: Genrm, judge_server: JudgeServer) -> tuple[str, ...]:
    """Write 60 sentinels and settings; return the flags of a watched run. The judge prefers the
    longer response.
    """
    pairs = [
        {"prompt": f"Say {n}.", "chosen": WORDS[: 20 + n % 20], "rejected": WORDS[: 1 + n % 9]}
        for n in range(60)
    ]
    (genrm.folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    (genrm.folder / "watch.toml").write_text('[watch]\nsentinels = "pairs.jsonl"\n')
    return ("--config", "watch.toml", *judge_server.flags, "--no-probe")


def write_dump(folder: Path, number: int) -> str:
    """Write a dump of ten groups of four; return its name."""
    groups = [
        {
            "prompt": f"Dump {number}, question {group}",
            "responses": [WORDS[: 5 + 7 * place] for place in range(4)],
        }
        for group in range(10)
    ]
    name = f"dump-{number}.jsonl"
    (folder / name).write_text("".join(json.dumps(group) + "\n" for group in groups))
    return name


def watch_of(folder: Path, number: int) -> dict[str, Any]:
    """Return what watching found in a dump, from its metrics."""
    found: dict[str, Any] = json.loads((folder / f"dump-{number}.metrics.json").read_text())[
        "watch"
    ]
    return found


def test_a_judge_swapped_behind_its_url_stops_the_run(
    genrm: Genrm, call: Call, watched: tuple[str, ...], judge_server: JudgeServer
) -> None:
    """Two fine dumps, then another judge under the same name: exit code 7 after the outputs are
    written.
    """
    for number in (1, 2):
        assert (
            call("score", write_dump(genrm.folder, number), *watched, "--fail-on", "stop").code == 0
        )
        assert watch_of(genrm.folder, number)["state"] == "fine"
    assert [len(watch_of(genrm.folder, number)["sentinels"]) for number in (1, 2)] == [5, 1]
    assert watch_of(genrm.folder, 1)["calls"] == 300
    judge_server.behave(verdict="hash")
    swapped = call("score", write_dump(genrm.folder, 3), *watched, "--fail-on", "stop").ended(7)
    assert "departs from its own verdicts" in swapped.err
    found = watch_of(genrm.folder, 3)
    assert (found["state"], found["calls"]) == ("stop", 60 + 2 * 60)
    assert (genrm.folder / "dump-3.scored.jsonl").exists()
    course = call("watch", ".", "--json")
    assert [dump["state"] for dump in json.loads(course.out)["dumps"]] == ["fine", "fine", "stop"]
    assert call("watch", ".", "--fail-on", "stop").code == 7


def test_an_acknowledged_judge_is_armed_again(
    genrm: Genrm, call: Call, watched: tuple[str, ...], judge_server: JudgeServer
) -> None:
    """After `--acknowledge`, the next run asks five times and is fine with the new judge."""
    call("score", write_dump(genrm.folder, 1), *watched)
    judge_server.behave(verdict="hash")
    call("score", write_dump(genrm.folder, 2), *watched)
    call("watch", ".", "--acknowledge", "sentinel_flips", "--reason", "a new judge").ended(0)
    assert call("score", write_dump(genrm.folder, 3), *watched, "--fail-on", "look").code == 0
    assert len(watch_of(genrm.folder, 3)["sentinels"]) == 5


def test_dumps_of_one_run_share_the_calls_about_sentinels(
    genrm: Genrm, call: Call, watched: tuple[str, ...]
) -> None:
    """Three files in one run: 300 calls about sentinels, not 900, and one identity of these
    calls.
    """
    names = [write_dump(genrm.folder, number) for number in (1, 2, 3)]
    assert call("score", *names, *watched).code == 0
    found = [watch_of(genrm.folder, number) for number in (1, 2, 3)]
    assert sum(each["calls"] for each in found) == 300
    assert len({each["asked"] for each in found}) == 1


def test_audits_and_canaries_are_asked_and_counted(
    genrm: Genrm, call: Call, watched: tuple[str, ...], judge_server: JudgeServer
) -> None:
    """An auditor answers pairs of half the groups; a judge that prefers the longer falls for an
    added courtesy.
    """
    auditor = (
        f'[watch.auditor]\nmodel = "other"\nbase_url = "{judge_server.base_url}"\nshare = 1.0\n'
    )
    (genrm.folder / "watch.toml").write_text(f"[watch]\ncanaries = 1.0\n{auditor}")
    assert call("score", write_dump(genrm.folder, 1), *watched).code == 0
    found = watch_of(genrm.folder, 1)
    assert (
        sum(bad for bad, _ in found["audits"])
        == 0
        < sum(count for _, count in found["audits"])
        <= 10
    )
    assert (found["audit_length"], found["look_at"]) == (0.0, [])
    won, count = map(sum, zip(*found["canaries"].values(), strict=True))
    assert won == count > 0


def test_a_watch_that_sees_nothing_says_blind(
    genrm: Genrm, call: Call, watched: tuple[str, ...]
) -> None:
    """An unreadable history is never fine, and `--fail-on look` refuses it."""
    call("score", write_dump(genrm.folder, 1), *watched)
    (genrm.folder / "torn.metrics.json").write_text('{"format": 1')
    torn = call("score", write_dump(genrm.folder, 2), *watched, "--fail-on", "look").ended(7)
    assert "torn.metrics.json cannot be read as part of the history" in torn.err


def test_the_page_of_a_course_needs_no_script(
    genrm: Genrm, call: Call, watched: tuple[str, ...]
) -> None:
    """`genrm watch --page` writes the state, the charts and the dumps as one file."""
    call("score", write_dump(genrm.folder, 1), *watched)
    assert call("watch", ".", "--page", "course.html").code == 0
    page = (genrm.folder / "course.html").read_text()
    assert "<script" not in page
    assert "dump-1.scored.jsonl" in page
    assert "<svg" in page


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ('[watch]\nsentinel = "x"', "unknown key 'sentinel'"),
        ('[watch]\nsentinels = "nowhere.jsonl"', "nowhere.jsonl"),
        ("[watch]\ncanaries = 2", "canaries"),
        ("[watch.auditor]\nshare = 0.1", "model is missing"),
        ("[watch.auditor]\nmodel = 'x'\nweight = 2", "unknown key 'weight'"),
    ],
)
def test_a_wrong_table_is_refused(
    genrm: Genrm,
    call: Call,
    watched: tuple[str, ...],
    judge_server: JudgeServer,
    table: str,
    words: str,
) -> None:
    """The message names what is wrong with `[watch]`, before a call is paid."""
    (genrm.folder / "watch.toml").write_text(table)
    refused = call("score", write_dump(genrm.folder, 1), *watched)
    assert refused.code in (2, 3)
    assert words in refused.err
    assert judge_server.stats()["requests"] == 0


def test_a_run_of_another_judge_leaves_the_baseline(
    genrm: Genrm, call: Call, watched: tuple[str, ...]
) -> None:
    """After a run of another judge in the folder, the first one is still armed: it asks once."""
    call("score", write_dump(genrm.folder, 1), *watched).ended(0)
    call("score", write_dump(genrm.folder, 2), "--judge", "lexical").ended(0)
    call("score", write_dump(genrm.folder, 3), *watched).ended(0)
    found = watch_of(genrm.folder, 3)
    assert (found["state"], len(found["sentinels"])) == ("fine", 1)


def test_the_command_is_blind_with_an_unreadable_history(
    genrm: Genrm, call: Call, watched: tuple[str, ...]
) -> None:
    """A damaged metrics file makes a fine course blind, and its name is a reason."""
    call("score", write_dump(genrm.folder, 1), *watched).ended(0)
    (genrm.folder / "dump-2.metrics.json").write_text("{")
    shown = json.loads(call("watch", ".", "--json", "--fail-on", "look").ended(7).out)
    assert shown["state"] == "blind"
    assert "dump-2.metrics.json" in shown["dumps"][-1]["reasons"][-1]
