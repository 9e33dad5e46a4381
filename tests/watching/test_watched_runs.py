"""Watched runs of `genrm score` with a real judge that changes, and `genrm watch` over them."""

import json
from pathlib import Path
from typing import Any

import pytest
from genrm_process import Call, Genrm
from judge_server_fixture import JudgeServer

from genrm_cli.storage.store import Store
from genrm_cli.watching.history import Timelines, read_history
from genrm_cli.watching.sentinels import BASELINE_RUNS

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


def score_dumps(
    call: Call, genrm: Genrm, watched: tuple[str, ...], numbers: range
) -> list[dict[str, Any]]:
    """Score dumps, each in a run of its own; return what watching found."""
    found = []
    for number in numbers:
        call("score", write_dump(genrm.folder, number), *watched).ended(0)
        found.append(watch_of(genrm.folder, number))
    return found


@pytest.mark.slow
def test_a_judge_swapped_behind_its_url_stops_the_run_until_it_is_acknowledged(
    genrm: Genrm, call: Call, watched: tuple[str, ...], judge_server: JudgeServer
) -> None:
    """Ten runs are the baseline. Another judge under the same name is a look, and the next run a
    stop, with exit code 7 after the outputs are written. An acknowledgement begins anew.
    """
    first = score_dumps(call, genrm, watched, range(BASELINE_RUNS))
    assert [each["state"] for each in first] == ["blind"] * (BASELINE_RUNS - 1) + ["fine"]
    assert {each["calls"] for each in first} == {60}
    judge_server.behave(verdict="hash")
    (swapped,) = score_dumps(call, genrm, watched, range(20, 21))
    assert swapped["state"] == "look"
    stopped = call("score", write_dump(genrm.folder, 21), *watched, "--fail-on", "stop").ended(7)
    assert "departs from its own verdicts" in stopped.err
    assert (genrm.folder / "dump-21.scored.jsonl").exists()
    shown = call("watch", ".", "--fail-on", "stop").ended(7).out.decode()
    assert "sentinel_flips" in shown
    assert "state: stop" in shown
    for signal in ("sentinel_flips", "audits"):
        call("watch", ".", "--acknowledge", signal, "--reason", "a new judge").ended(0)
    (anew,) = score_dumps(call, genrm, watched, range(22, 23))
    assert anew["state"] == "blind"
    assert anew["reasons"] == [
        "no baseline yet: 1 of 10 runs of the sentinels, 13 of 20 dumps",
    ]


def test_the_command_shows_figures_with_intervals_from_the_second_dump(
    genrm: Genrm, call: Call, watched: tuple[str, ...]
) -> None:
    """While the watch is blind, its figures can be read; no figure has a state without a
    baseline.
    """
    score_dumps(call, genrm, watched, range(1))
    assert b"95 % intervals" not in call("watch", ".").ended(0).out
    score_dumps(call, genrm, watched, range(1, 2))
    lines = call("watch", ".").ended(0).out.decode().splitlines()
    row = next(line for line in lines if line.startswith("length_effect"))
    assert row.endswith("2 of 20   -")
    failures = next(line for line in lines if line.startswith("failures"))
    assert "0.0 % (0.0 to " in failures
    assert failures.endswith("fine")


def test_an_acknowledgement_names_one_judge_of_several(
    genrm: Genrm, call: Call, watched: tuple[str, ...]
) -> None:
    """With two judges in the folder, the command asks which one, and the file names it."""
    score_dumps(call, genrm, watched, range(1))
    call("score", write_dump(genrm.folder, 1), "--judge", "lexical").ended(0)
    words = ("--acknowledge", "position", "--reason", "as meant")
    asked = call("watch", ".", *words).ended(2)
    assert "'lexical" in asked.err
    judges = [each["judge"] for each in json.loads(call("watch", ".", "--json").out)["dumps"]]
    call("watch", ".", *words, "--of-judge", judges[0]).ended(0)
    (written,) = genrm.folder.glob("*.acknowledged.json")
    assert json.loads(written.read_text())["judge"] == judges[0] != judges[1]


def test_dumps_of_one_run_share_the_calls_about_sentinels(
    genrm: Genrm, call: Call, watched: tuple[str, ...]
) -> None:
    """Three files in one run: 60 calls about sentinels, not 180, and one identity of them."""
    names = [write_dump(genrm.folder, number) for number in (1, 2, 3)]
    assert call("score", *names, *watched).code == 0
    found = [watch_of(genrm.folder, number) for number in (1, 2, 3)]
    assert sum(each["calls"] for each in found) == 60
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


def test_a_record_that_does_not_fit_is_left_out_and_named(
    genrm: Genrm, call: Call, watched: tuple[str, ...]
) -> None:
    """Its members have their types, but nothing could be computed with the others: the watch is
    blind and says why, and so are later runs, whatever the odd record is.
    """
    score_dumps(call, genrm, watched, range(2))
    good = json.loads((genrm.folder / "dump-1.metrics.json").read_text())
    odd = genrm.folder / "odd.metrics.json"
    for change, why in (
        ({"audits": [[1, 10]]}, "audits: found 1 strata; expected 5"),
        ({"audits": [[1, 10, 1]] * 5}, "audits: found [1, 10, 1]"),
        ({"canaries": {"courtesy": [5, 2]}}, "canaries: courtesy: found [5, 2]"),
        ({"sentinels": "+" * 59}, "sentinels: found 59 verdicts; expected 60"),
        ({"sentinels": "+" * 59 + "x"}, "sentinels: found 'x'"),
    ):
        odd.write_text(json.dumps({**good, "watch": {**good["watch"], **change}}))
        history = read_history([str(genrm.folder)], Store())
        assert len(history.records) == 2
        assert f"odd.metrics.json cannot be read as part of the history: watch: {why}" in str(
            history.problems
        )
        assert Timelines(history).worst == "blind"
    odd.unlink()
    word = {"judge": "gone", "signal": "gone", "reason": "", "time": good["time"]}
    (genrm.folder / "gone.acknowledged.json").write_text(json.dumps(word))
    call("score", write_dump(genrm.folder, 2), *watched).ended(0)
    assert b"signal: found 'gone'" in call("watch", ".", "--fail-on", "look").ended(7).out


def test_doubtful_records_of_a_history_are_said(
    genrm: Genrm, call: Call, watched: tuple[str, ...]
) -> None:
    """A partial record is left out, and a time in the future is named, by the next run and by the
    command; runs of one name in two folders are told apart.
    """
    score_dumps(call, genrm, watched, range(1))
    good = json.loads((genrm.folder / "dump-0.metrics.json").read_text())
    (genrm.folder / "late.metrics.json").write_text(json.dumps({**good, "time": "2999-01-01"}))
    (genrm.folder / "half.metrics.json").write_text(json.dumps({**good, "partial": True}))
    said = ("late.metrics.json: dated in the future", "half.metrics.json: partial results")
    scored = call("score", write_dump(genrm.folder, 1), *watched).ended(0)
    shown = call("watch", ".").ended(0)
    assert all(text in run.err for run in (scored, shown) for text in said)
    (genrm.folder / "b").mkdir()
    (genrm.folder / "b/x.metrics.json").write_text(
        json.dumps({**good, "output": "b/dump-0.scored.jsonl"})
    )
    lines = call("watch", ".").ended(0).out.decode().splitlines()
    assert sum(line.startswith("b/dump-0.scored.jsonl ") for line in lines) == 1
    assert any(line.startswith("dump-1 ") for line in lines)


def test_the_page_needs_no_script(genrm: Genrm, call: Call, watched: tuple[str, ...]) -> None:
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


def test_the_state_of_the_command_is_that_of_the_worst_judge(
    genrm: Genrm, call: Call, watched: tuple[str, ...], judge_server: JudgeServer
) -> None:
    """A judge that fails is a stop, also when a dump of another judge is the newest."""
    judge_server.behave(fault=[{"content": "No verdict."}])
    call("score", write_dump(genrm.folder, 1), *watched, "--max-unscored", "1").ended(0)
    call("score", write_dump(genrm.folder, 2), "--judge", "lexical").ended(0)
    shown = json.loads(call("watch", ".", "--json", "--fail-on", "stop").ended(7).out)
    assert shown["state"] == "stop"
    assert [each["state"] for each in shown["dumps"]] == ["stop", "blind"]


def test_the_command_is_blind_with_an_unreadable_history(
    genrm: Genrm, call: Call, watched: tuple[str, ...]
) -> None:
    """A damaged metrics file is a reason by its name."""
    call("score", write_dump(genrm.folder, 1), *watched).ended(0)
    (genrm.folder / "dump-2.metrics.json").write_text("{")
    shown = json.loads(call("watch", ".", "--json", "--fail-on", "look").ended(7).out)
    assert shown["state"] == "blind"
    assert "dump-2.metrics.json" in shown["dumps"][-1]["reasons"][-1]
    (genrm.folder / "dump-1.metrics.json").write_text("{}")
    refused = call("watch", ".").ended(3)
    assert "dump-1.metrics.json and 1 more cannot be read" in refused.err
