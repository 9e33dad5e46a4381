import pytest

from genrm_cli.verdicts import Reason

# Lines of sample_data/bad-lines.jsonl that are no rollouts, with a word of the reason that each
# must get.
BAD_LINES = {
    4: "not JSON",
    5: "list",
    6: "colour",
    7: "not JSON",
    9: "not JSON",
    18: "not JSON",
}
UNSCORED = {(1, 0): Reason.NO_RESPONSE, (2, 0): Reason.ALONE, (2, 1): Reason.ALONE}


def test_bad_lines_go_to_the_rejects_with_number_and_reason(genrm, call):
    """Each kind of bad line is rejected by its number in the file, blank lines counted; the rest is
    scored. Rollouts without a reward keep their lines and say why.
    """
    genrm.sample("bad-lines.jsonl")
    finished = call("score bad-lines.jsonl --max-unscored 1 --offline").ended(0)
    rejects = genrm.lines("bad-lines.rejects.jsonl")
    assert [reject["line"] for reject in rejects] == list(BAD_LINES)
    for reject in rejects:
        assert BAD_LINES[reject["line"]] in reject["reason"]
        assert reject["text"]
    metrics = genrm.metrics("bad-lines")
    counts = {"lines": 17, "rejected_lines": 6, "scored": 8, "single": 0, "unscored": 3}
    assert metrics | counts | {"duplicate_rollouts": 1} == metrics
    assert "genrm: warning: 6 lines rejected: `genrm validate` says which and why." in finished.err
    assert "duplicate rollout" in finished.err
    reasons = {}
    for line in genrm.lines("bad-lines.scored.jsonl"):
        assert (line["reward"] is None) == (line["genrm"]["status"] == "unscored")
        if line["reward"] is None:
            place = (line["_ng_task_index"], line["_ng_rollout_index"])
            reasons[place] = line["genrm"]["reason"]
    assert reasons == UNSCORED


@pytest.mark.parametrize(("name", "said"), [("bad-lines", "line 4"), ("twice", "line 2")])
def test_strict_refuses_before_any_call(genrm, call_judged, judge_server, name, said):
    """--strict ends with 3 for bad lines and duplicates, names them, writes nothing and asks
    nothing.
    """
    genrm.sample("bad-lines.jsonl")
    index = {"_ng_task_index": 1, "_ng_rollout_index": 1}
    genrm.write("twice.jsonl", [{**index, "prompt": "Why?", "completion": "So."}] * 2)
    before = genrm.names()
    assert said in call_judged(f"score --strict {name}.jsonl").ended(3).err
    assert genrm.names() == before
    assert judge_server.stats()["requests"] == 0


@pytest.mark.parametrize("content", [b"", b"\n \n\r\n", b"\xef\xbb\xbf"])
def test_an_empty_input_has_no_rollouts(genrm, call, content):
    """A user who names it is told with 3; in a folder, it is a warning, and its outputs are
    honest.
    """
    (genrm.folder / "in.jsonl").write_bytes(content)
    named = call("score in.jsonl --offline").ended(3)
    assert "in.jsonl: it contains no rollouts" in named.err
    assert genrm.names() == {"in.jsonl"}
    assert "no rollouts" in call("score . --offline").ended(0).err
    assert {"in.scored.jsonl", "in.comparisons.jsonl"} < genrm.names()
    metrics = genrm.metrics()
    assert metrics["rollouts"] == metrics["reward"]["count"] == 0
    assert metrics["reward"]["mean"] is metrics["first_place_win_rate"] is None


@pytest.mark.parametrize(
    ("words", "reward", "status"),
    [
        ("", None, "unscored"),
        ("--default-score 2.5", 2.5, "single"),
        ("--compat nemo-gym", 3.0, "single"),
    ],
)
def test_groups_of_one_are_single_and_the_judge_is_not_asked(
    genrm, call_judged, judge_server, words, reward, status
):
    """Without a group of two nothing is asked, not even a probe, and only the user's own default is
    a reward.
    """
    genrm.rollouts(3, 1)
    finished = call_judged(f"score in.jsonl {words}").ended(0 if words else 6)
    assert "nothing to compare" in finished.err
    for line in genrm.lines():
        assert (line["reward"], line["genrm"]["status"]) == (reward, status)
        assert line["genrm"]["advantage"] == (None if reward is None else 0.0)
    assert genrm.metrics()["reward"]["count"] == 0
    assert judge_server.stats()["requests"] == 0


@pytest.mark.parametrize("name", ["missing.jsonl", "folder/missing.jsonl"])
def test_an_input_that_cannot_be_read_ends_with_3(genrm, call, name):
    """A missing file is named in the line before the last, and nothing is written."""
    finished = call(f"score -o out.jsonl --offline {name}").ended(3)
    error, done = finished.err.splitlines()
    assert error.startswith(f"genrm: error: {name}")
    assert done.startswith("genrm: failed: 1 file: 1 failed; ")
    assert done.endswith("; exit 3")
    assert genrm.names() == set()


@pytest.mark.parametrize("output", ["missing/out.jsonl", "in.jsonl/out.jsonl", "folder"])
def test_an_output_that_cannot_be_written_ends_with_5_before_any_call(
    genrm, call_judged, judge_server, output
):
    """No folder, a file in its place, or a folder in the file's: code 5, one error, no call,
    nothing left.
    """
    genrm.rollouts()
    (genrm.folder / "folder").mkdir()
    finished = call_judged(f"score in.jsonl -o {output}").ended(5)
    error, done = finished.err.splitlines()
    assert error.startswith("genrm: error: ")
    assert done.endswith("; exit 5")
    assert genrm.names() == {"in.jsonl", "folder"}
    assert judge_server.stats()["requests"] == 0
