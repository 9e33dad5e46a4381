import json
import signal

import pytest
from markupsafe import escape

LEXICAL = ("--judge", "lexical")
PAIRS = "labelled-pairs.jsonl"


def make_pairs(count):
    """Make pairs whose better answer is the longer one."""
    return [
        {
            "prompt": f"Q{n}?",
            "chosen": "good " * 9,
            "rejected": "bad",
            "subset": "s",
        }
        for n in range(count)
    ]


@pytest.mark.parametrize(
    "command",
    [
        f"eval {PAIRS} --judge lexical -o x.parquet",
        "score rollouts.jsonl --model m --requests-to x.parquet",
        "collect samples --scripted-policy good -o x.parquet",
    ],
)
def test_a_table_is_not_promised_where_json_is_written(command, genrm, call):
    """The name is refused before anything is asked, with the names to choose from."""
    genrm.sample(PAIRS)
    genrm.sample("rollouts.jsonl")
    ended = call(*command.split()).ended(2)
    assert "x.parquet" in ended.err
    assert ".jsonl" in ended.err
    assert "x.parquet" not in genrm.names()


def test_a_person_gets_tables(genrm, call):
    """Without --json stdout holds the figures with their intervals, overall and by category."""
    genrm.sample(PAIRS)
    finished = call("eval --offline", PAIRS).ended(0)
    out = finished.out.decode()
    for text in (
        "accuracy",
        "95 % interval",
        "flip rate",
        "28 pairs on 12 lines",
        "science",
        "(none)",
    ):
        assert text in out
    assert "built-in lexical baseline" in finished.err
    assert genrm.names() == {PAIRS}


def test_a_machine_gets_one_object_and_a_file(genrm, call, judge_server):
    """--json prints what -o writes, in one line; the probe is not among the calls."""
    genrm.write("pairs.jsonl", make_pairs(5))
    finished = call("eval pairs.jsonl --json -o m.json", *judge_server.flags).ended(0)
    assert finished.out.count(b"\n") == 1
    printed = json.loads(finished.out)
    assert printed == genrm.json("m.json")
    assert printed["figures"]["accuracy"]["value"] == 1.0
    assert printed["calls"] == 10
    assert "10 comparisons: 10 calls to make" in finished.err
    assert genrm.names() == {"pairs.jsonl", "m.json", "m.journal.sqlite"}


def test_a_dry_run_counts_the_calls_that_are_left(genrm, call, judge_server):
    """--dry-run of eval asks nothing, writes nothing, and counts what the journal holds."""
    genrm.write("pairs.jsonl", make_pairs(2))
    judge = ("pairs.jsonl", *judge_server.flags, "--no-probe", "-o", "out.json")
    assert json.loads(call("eval --dry-run --json", *judge).ended(0).out)["calls"] == 4
    assert genrm.names() == {"pairs.jsonl"}
    assert judge_server.stats()["requests"] == 0
    call("eval", *judge).ended(0)
    genrm.write("pairs.jsonl", make_pairs(3))
    planned = call("eval --dry-run", *judge).ended(0).out.decode()
    assert "6 comparisons, 4 of them answered in an earlier run: 2 calls to make, " in planned


def test_pairs_come_through_a_pipe_and_the_result_goes_into_one(genrm, call):
    """`-` is stdin, `-o -` is stdout; then no table is in the way."""
    finished = call("eval - -o - --quiet --offline", stdin=genrm.sample(PAIRS).read_bytes()).ended(
        0
    )
    assert finished.err == ""
    assert json.loads(finished.out)["figures"]["pairs"] == 28


@pytest.mark.parametrize(
    "sent", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
@pytest.mark.slow
def test_an_interrupted_run_keeps_what_was_paid_for(genrm, call, judge_server, sent):
    """Ctrl-C and SIGTERM end with 130 and no result; the same command then asks only what is
    missing.
    """
    genrm.write("pairs.jsonl", make_pairs(4))
    judge_server.behave(script=[{}, {}, {}, {"hang": True}])
    arguments = (
        "eval",
        "pairs.jsonl",
        "-o",
        "m.json",
        *judge_server.flags,
        "--no-probe",
        "--concurrency",
        1,
    )
    process = genrm.start(*arguments)
    judge_server.wait_until(lambda stats: stats["requests"] == 4)
    process.send_signal(sent)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert b"interrupted" in err
    assert not (genrm.folder / "m.json").exists()
    judge_server.reset()
    call(*arguments).ended(0)
    assert judge_server.stats()["requests"] == 8 - 3


def test_pairs_and_results_may_lie_on_s3(call, genrm, s3_bucket):
    """Both are read and written there; a result outside rl/ is refused without --any-prefix."""
    pairs, result = (f"s3://{s3_bucket.name}/rl/{name}" for name in ("pairs.jsonl", "m.json"))
    s3_bucket.client.put_object(
        Bucket=s3_bucket.name, Key="rl/pairs.jsonl", Body=genrm.sample(PAIRS).read_bytes()
    )
    call("eval --offline", pairs, "-o", result).ended(0)
    written = s3_bucket.client.get_object(Bucket=s3_bucket.name, Key="rl/m.json")["Body"].read()
    assert json.loads(written)["figures"]["pairs"] == 28
    finished = call("eval --offline", pairs, "-o", f"s3://{s3_bucket.name}/m.json").ended(2)
    assert finished.out == b""
    assert "--any-prefix" in finished.err


def test_what_cannot_be_done_is_said(genrm, call):
    """Wrong combinations end with 2, unreadable input with 3, an output without a place with 5."""
    cases = [
        ((PAIRS,), 2, "--judge lexical"),
        ((PAIRS, *LEXICAL, "--json", "-o", "-"), 2, "stdout"),
        (("missing.jsonl", *LEXICAL), 3, "missing.jsonl"),
        ((PAIRS, *LEXICAL, "-o", "missing/out.json"), 5, "missing"),
    ]
    for arguments, code, says in cases:
        genrm.sample(PAIRS)
        finished = call("eval", *arguments).ended(code)
        assert says in finished.err


def test_cells_share_their_calls_and_go_on(genrm, call, judge_server):
    """Two repeats ask only for the second one; the same command again asks nothing."""
    genrm.write(
        "pairs.jsonl",
        [{"prompt": f"Q{n}?", "chosen": f"right {n}", "rejected": "wrong"} for n in range(4)],
    )
    (genrm.folder / "grid.toml").write_text("[axes]\nrepeats = [1, 2]\n", encoding="utf-8")
    flags = ("eval", "pairs.jsonl", "--base-url", judge_server.base_url, "--model", "m")
    flags = (*flags, "--profile", "nemotron", "--no-probe", "--grid", "grid.toml")
    plans = json.loads(call(*flags, "-o", "out.json", "--dry-run", "--json").ended(0).out)
    assert list(plans) == ["repeats 1", "repeats 2"]
    done = call(*flags, "-o", "out.json", "--page", "out.html").ended(0)
    found = genrm.json("out.json")
    assert [(cell["calls"], cell["journal_hits"]) for cell in found["cells"]] == [(8, 0), (8, 8)]
    assert found["answer"] in done.out.decode()
    page = genrm.text("out.html")
    assert escape(found["answer"]) in page
    assert page.count('class="dot"') == len(found["options"]) == 4
    again = json.loads(call(*flags, "-o", "out.json", "--force", "--json").ended(0).out)
    assert [cell["calls"] for cell in again["cells"]] == [0, 0]
    assert again["cost_unit"] == "tokens"


def test_a_cell_that_fails_leaves_the_others(genrm, call, judge_server):
    """Its reason is in the result and its exit code is that of the command."""
    genrm.write("pairs.jsonl", [{"prompt": "Q?", "chosen": "right", "rejected": "wrong"}])
    gone = 'name = "gone"\njudge_id = "gone"\nbase_url = ["http://127.0.0.1:9/v1"]\n'
    grid = '[[cell]]\nname = "good"\n[[cell]]\n' + gone
    (genrm.folder / "grid.toml").write_text(grid, encoding="utf-8")
    flags = ("eval", "pairs.jsonl", "--base-url", judge_server.base_url, "--model", "m")
    flags = (*flags, "--profile", "nemotron", "--no-probe", "--give-up-after", "0.1")
    call(*flags, "--retries", "0", "--grid", "grid.toml", "-o", "out.json").ended(6)
    found = genrm.json("out.json")
    assert [cell["name"] for cell in found["cells"]] == ["good"]
    assert [(cell["name"], cell["exit_code"]) for cell in found["failed"]] == [("gone", 6)]


def test_cells_that_the_probe_refuses_say_why(genrm, call, judge_server):
    """Each is told of by its name, with what is wrong with the judge's reply."""
    genrm.write("pairs.jsonl", [{"prompt": "Q?", "chosen": "right", "rejected": "wrong"}])
    judge_server.behave(fault={"content": "Both are nice."})
    done = call("eval", "pairs.jsonl", *judge_server.flags, "--compare-modes").ended(4)
    for mode in ("pairwise", "listwise"):
        assert f"judging {mode}: the judge cannot be used" in done.err
    assert "Both are nice" in done.err


def test_a_grid_refuses_what_it_would_ignore_or_could_not_write(genrm, call, judge_server):
    """Before the first call: other outputs, and an output that exists."""
    genrm.write("pairs.jsonl", [{"prompt": "Q?", "chosen": "right", "rejected": "wrong"}])
    (genrm.folder / "grid.toml").write_text("[axes]\nrepeats = [1, 2]\n", encoding="utf-8")
    (genrm.folder / "out.json").write_text("{}", encoding="utf-8")
    flags = ("eval", "pairs.jsonl", *judge_server.flags, "--grid", "grid.toml")
    for other in ("--labels", "--requests-to"):
        done = call(*flags, other, "other").ended(2)
        assert "has no effect with" in done.err
        assert f"{other} other" in done.err or f"{other} has" in done.err
    for output in ("-o", "--page"):
        assert "out.json" in call(*flags, output, "out.json").ended(2).err
    assert "no effect without --grid" in call(*flags[:-2], "--page", "out.html").ended(2).err
    assert judge_server.stats()["requests"] == 0
