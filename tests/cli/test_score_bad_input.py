import pytest

from genrm_cli.verdicts import Reason

ALL_OUTPUTS = {"in.scored.jsonl", "in.metrics.json", "in.comparisons.jsonl"}
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


def test_bad_lines_go_to_the_rejects_with_number_and_reason(genrm, call):
    """Each kind of bad line is rejected by its number in the file, blank lines counted; the rest is
    scored.
    """
    genrm.sample("bad-lines.jsonl")
    finished = call("score bad-lines.jsonl --max-unscored 1 --offline").ended(0)
    rejects = genrm.lines("bad-lines.rejects.jsonl")
    assert [reject["line"] for reject in rejects] == list(BAD_LINES)
    for reject in rejects:
        assert BAD_LINES[reject["line"]] in reject["reason"]
        assert reject["text"]
    metrics = genrm.metrics("bad-lines")
    assert metrics["lines"] == 17
    assert metrics["rejected_lines"] == 6
    assert metrics["scored"] == 8
    assert metrics["single"] == 0
    assert metrics["unscored"] == 3
    assert metrics["duplicate_rollouts"] == 1
    assert "6 rejected lines" in finished.err
    assert "genrm: warning: 6 lines rejected: `genrm validate` says which and why." in finished.err
    assert "duplicate rollout" in finished.err


def test_rollouts_without_a_reward_say_why(genrm, call):
    """Unscored rollouts keep their lines, with `reward: null` and the reason."""
    genrm.sample("bad-lines.jsonl")
    call("score bad-lines.jsonl --max-unscored 1 --offline")
    reasons = {}
    for line in genrm.lines("bad-lines.scored.jsonl"):
        assert (line["reward"] is None) == (line["genrm"]["status"] == "unscored")
        if line["reward"] is None:
            reasons[line["_ng_task_index"], line["_ng_rollout_index"]] = line["genrm"]["reason"]
    assert reasons == {
        (1, 0): Reason.NO_RESPONSE,
        (2, 0): Reason.ALONE,
        (2, 1): Reason.ALONE,
    }


def test_strict_refuses_before_any_call(genrm, call, judge_server):
    """--strict ends with 3 for bad lines and duplicates, names them, writes nothing and asks
    nothing.
    """
    for name in ["bad-lines.jsonl", "twice.jsonl"]:
        genrm.sample("bad-lines.jsonl")
        line = {
            "_ng_task_index": 1,
            "_ng_rollout_index": 1,
            "prompt": "Why?",
            "completion": "So.",
        }
        genrm.write("twice.jsonl", [line, line])
        before = genrm.names()
        finished = call("score --strict", name, *judge_server.flags).ended(3)
        assert "line 4" in finished.err if name == "bad-lines.jsonl" else "line 2" in finished.err
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
    finished = call("score . --offline").ended(0)
    assert "no rollouts" in finished.err
    assert genrm.names() == {"in.jsonl"} | ALL_OUTPUTS
    metrics = genrm.metrics()
    assert metrics["rollouts"] == 0
    assert metrics["reward"]["count"] == 0
    assert metrics["reward"]["mean"] is None
    assert metrics["first_place_win_rate"] is None


def test_groups_of_one_are_single_and_the_judge_is_not_asked(genrm, call, judge_server):
    """Without a group of two nothing is asked, not even a probe, and only the user's own default is
    a reward.
    """
    genrm.rollouts(3, 1)
    rewards: dict[tuple[str, ...], tuple[object, ...]] = {
        (): (None, "unscored", None),
        ("--default-score", "3.0"): (3.0, "single", 0.0),
        ("--default-score", "2.5"): (2.5, "single", 0.0),
        ("--compat", "nemo-gym"): (3.0, "single", 0.0),
    }
    for flags, expected in rewards.items():
        finished = call("score in.jsonl", *judge_server.flags, *flags).ended(0 if flags else 6)
        assert "nothing to compare" in finished.err
        for line in genrm.lines("in.scored.jsonl"):
            assert (line["reward"], line["genrm"]["status"], line["genrm"]["advantage"]) == expected
        metrics = genrm.metrics()
        assert metrics["reward"]["count"] == 0
        assert metrics["reward"]["mean"] is None
    assert judge_server.stats()["requests"] == 0


def test_an_input_that_cannot_be_read_ends_with_3(genrm, call):
    """A missing file is named in the line before the last, and nothing is written."""
    for name in ["missing.jsonl", "folder/missing.jsonl"]:
        finished = call("score -o out.jsonl --offline", name).ended(3)
        error, done = finished.err.splitlines()
        assert error.startswith(f"genrm: error: {name}")
        assert done.startswith("genrm: failed: 1 file: 1 failed; ")
        assert done.endswith("; exit 3")
        assert genrm.names() == set()


@pytest.mark.parametrize("output", ["missing/out.jsonl", "in.jsonl/out.jsonl", "folder"])
def test_an_output_that_cannot_be_written_ends_with_5_before_any_call(
    genrm, call, judge_server, output
):
    """No folder, a file in its place, or a folder in the file's: code 5, one error, no call,
    nothing left.
    """
    genrm.rollouts()
    (genrm.folder / "folder").mkdir()
    finished = call("score in.jsonl", *judge_server.flags, "-o", output).ended(5)
    error, done = finished.err.splitlines()
    assert error.startswith("genrm: error: ")
    assert done.endswith("; exit 5")
    assert genrm.names() == {"in.jsonl", "folder"}
    assert judge_server.stats()["requests"] == 0


def test_wrong_usage_ends_with_2_and_says_what_to_do(genrm, call):
    """A flag that makes no sense is refused with code 2 in words that help; the input is
    untouched.
    """
    cases = [
        ((), "--judge lexical"),
        (("--base-url", "http://127.0.0.1:9/v1"), "--model"),
        (
            (
                "--judge",
                "lexical",
                "--base-url",
                "http://127.0.0.1:9/v1",
            ),
            "exclude",
        ),
        (("--base-url", "ftp://host/v1", "--model", "m"), "http"),
        (
            (
                "--base-url",
                "http://me:secret@host/v1",
                "--model",
                "m",
            ),
            "a user name or password",
        ),
        (("--judge", "lexcal"), "Did you mean lexical?"),
        (("--judge", "lexical", "--repeats", "0"), "--repeats"),
        (("--judge", "lexical", "--concurrency", "many"), "an integer"),
        (("--judge", "lexical", "--unscored", "nan"), "--unscored"),
        (
            (
                "--judge",
                "lexical",
                "--api-key-env",
                "NOT_SET",
            ),
            "NOT_SET",
        ),
        (
            (
                "--base-url",
                "http://127.0.0.1:9/v1",
                "--model",
                "m",
                "--profile",
                "nemotrn",
            ),
            "nemotron",
        ),
        (
            (
                "--judge",
                "lexical",
                "-o",
                "in.jsonl",
                "--force",
            ),
            "is the input",
        ),
        (("--judge", "lexical", "--colour"), "--colour"),
    ]
    for arguments, says in cases:
        path = genrm.rollouts()
        before = path.read_bytes()
        finished = call("score in.jsonl", *arguments).ended(2)
        assert says in finished.err
        assert "secret" not in finished.err
        assert genrm.names() == {"in.jsonl"}
        assert path.read_bytes() == before
