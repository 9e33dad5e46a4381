"""A judge that repeats hostile candidates word for word gives the rewards that it gives without."""

import json

import pytest
from genrm_process import Call, Genrm, Json, read_lines
from hostile_texts import TEXTS
from judge_server_fixture import JudgeServer

MODEL = "nvidia/Qwen3-Nemotron-235B-A22B-GenRM-2603"
# A thought that is opened in an analysis after one was closed there makes the reply unreadable, which is a failure
# and no verdict: not what is shown here. A lone end of a thought is a blank response.
CHOSEN = [text for text in TEXTS if "<think>" not in text and text != "</think>"]
GROUP_SIZE = 7


def hostile_lines() -> list[Json]:
    """Make groups of hostile responses; their prompts are hostile, too."""
    return [
        {"prompt": f"Question {number // GROUP_SIZE}? {CHOSEN[number // GROUP_SIZE]}", "completion": text}
        for number, text in enumerate(CHOSEN)
    ]


@pytest.fixture
def judged(genrm: Genrm, call: Call, judge_server: JudgeServer) -> tuple[Genrm, Call, tuple[object, ...]]:
    """Write the input, and give a test the command with a judge."""
    genrm.write("in.jsonl", hostile_lines())
    return genrm, call, ("--base-url", judge_server.base_url, "--model", MODEL, "--no-journal")


@pytest.mark.parametrize("profile", ["nemotron", "nemotron-plain"])
def test_quoting_changes_no_reward(
    judged: tuple[Genrm, Call, tuple[object, ...]], judge_server: JudgeServer, profile: str
) -> None:
    """Every comparison gets a verdict, and each reward is that of a judge which quotes nothing."""
    genrm, call, judge = judged
    rewards = []
    for quotes in (None, "in thoughts"):
        judge_server.behave(quotes=quotes)
        output = genrm.folder / f"{quotes}.jsonl"
        finished = call("score", "in.jsonl", *judge, "--profile", profile, "-o", output, "--keep-replies")
        assert finished.code == 0, finished.err
        rewards.append([line["reward"] for line in read_lines(output)])
        assert None not in rewards[-1]
        records = read_lines(genrm.folder / f"{quotes}.comparisons.jsonl")
        assert all(record["failure"] is None for record in records)
        assert all(("I follow neither." in record["reply"]) == bool(quotes) for record in records)
    assert rewards[0] == rewards[1]
    assert len(set(rewards[0])) > 5


def expected_changes(text: str) -> int:
    """Count the ends of markers in a text."""
    return text.count("[===") + text.count("===]")


def test_kept_replies_say_what_was_neutralised(judged: tuple[Genrm, Call, tuple[object, ...]]) -> None:
    """Each record counts the places in which the judge was shown something else than what the line holds."""
    genrm, call, judge = judged
    assert call("score", "in.jsonl", *judge, "--profile", "nemotron-plain", "--keep-replies").code == 0
    records = read_lines(genrm.folder / "in.comparisons.jsonl")
    lines = hostile_lines()
    seen = 0
    for number, record in enumerate(records):
        group = number // GROUP_SIZE * GROUP_SIZE
        texts = {
            "conversation": lines[group]["prompt"],
            "response_1": lines[group + record["i"]]["completion"],
            "response_2": lines[group + record["j"]]["completion"],
        }
        changes = {name: count for name, text in texts.items() if (count := expected_changes(text))}
        assert record.get("neutralised", {}) == changes, json.dumps(record)
        assert "neutralised" not in record or changes
        seen += "neutralised" in record
    assert seen > 2


@pytest.mark.parametrize(
    "arguments",
    [("--profile", "nemotron", "--keep-replies"), ("--profile", "nemotron-plain")],
    ids=["roles", "no replies"],
)
def test_where_nothing_is_changed_or_kept_nothing_is_said(
    judged: tuple[Genrm, Call, tuple[object, ...]], arguments: tuple[str, ...]
) -> None:
    """Roles keep the texts apart and leave them as they are; without --keep-replies the records are as before."""
    genrm, call, judge = judged
    assert call("score", "in.jsonl", *judge, *arguments).code == 0
    assert not any("neutralised" in record for record in read_lines(genrm.folder / "in.comparisons.jsonl"))


Asked = tuple[object, ...]
Said = dict[Asked, tuple[object, str | None]]


def said_of(judged: tuple[Genrm, Call, tuple[object, ...]], options: tuple[str, ...], name: str) -> Said:
    """Return for each question the verdict or the grades, None without any, and the kind of its failure."""
    genrm, call, judge = judged
    finished = call("score", "in.jsonl", *judge, *options, "--max-unscored", "1", "-o", genrm.folder / f"{name}.jsonl")
    assert finished.code == 0, finished.err
    said: Said = {}
    for record in read_lines(genrm.folder / f"{name}.comparisons.jsonl"):
        asked = (record.get("component"), record["group"], record["i"], record["j"], str(record.get("shown")))
        numbers = record.get("grades") or [record[key] for key in ("score_1", "score_2", "ranking")]
        failure = record["failure"]
        said[asked] = (None if failure else numbers, failure and failure["kind"])
    return said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "least"),
    [
        pytest.param(("--profile", "nemotron"), 0.7, marks=pytest.mark.slow),
        (("--profile", "nemotron-plain"), 0.7),
        pytest.param(("--profile", "rewardanything"), 0.5, marks=pytest.mark.slow),
        pytest.param(("--profile", "nemotron-principle"), 0.8, marks=pytest.mark.slow),
        pytest.param(
            ("--component", "rubric:helpfulness", "--component", "rubric_rank:helpfulness"), 0.8, marks=pytest.mark.slow
        ),
    ],
    ids=["nemotron", "nemotron-plain", "rewardanything", "nemotron-principle", "rubrics"],
)
def test_no_quotation_is_read_as_the_verdict(
    judged: tuple[Genrm, Call, tuple[object, ...]],
    judge_server: JudgeServer,
    options: tuple[str, ...],
    least: float,
) -> None:
    """Quoted after the verdict, around it and in part: each question gets the judge's own verdict, or none."""
    plain = said_of(judged, options, "plain")
    for quotes in ("after", "around", "in part"):
        judge_server.behave(quotes=quotes)
        quoted = said_of(judged, options, quotes)
        assert quoted.keys() == plain.keys()
        assert {kind for _, kind in quoted.values()} <= {None, "ambiguous", "no_verdict"}
        read = {asked: verdict for asked, (verdict, kind) in quoted.items() if kind is None}
        assert read == {asked: plain[asked][0] for asked in read}
        assert least * len(plain) <= len(read)
