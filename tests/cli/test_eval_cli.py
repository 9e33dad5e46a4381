import json
import signal

import pytest
from markupsafe import escape
from s3_objects import get, put

PAIRS = "labelled-pairs.jsonl"
EVAL = "eval pairs.jsonl --no-probe"


@pytest.fixture
def write_pairs(genrm):
    """Write pairs whose better answer is the longer one."""

    def write(count):
        pair = {"chosen": "good " * 9, "rejected": "bad", "subset": "s"}
        return genrm.write("pairs.jsonl", [{"prompt": f"Q{n}?", **pair} for n in range(count)])

    return write


@pytest.fixture
def write_grid(genrm):
    """Write a grid."""
    return (genrm.folder / "grid.toml").write_text


def test_a_person_gets_tables(genrm, call):
    """Without --json stdout holds the figures with their intervals, overall and by category."""
    genrm.sample(PAIRS)
    finished = call(f"eval {PAIRS} --offline").ended(0)
    out = finished.out.decode()
    texts = ("accuracy", "95 % interval", "flip rate", "28 pairs on 12 lines", "science", "(none)")
    assert [text for text in texts if text not in out] == []
    assert "built-in lexical baseline" in finished.err
    assert genrm.names() == {PAIRS}


def test_a_machine_gets_one_object_and_a_file(genrm, call_judged, write_pairs):
    """--json prints what -o writes, in one line; the probe is not among the calls."""
    write_pairs(5)
    finished = call_judged("eval pairs.jsonl --json -o m.json").ended(0)
    assert finished.out.count(b"\n") == 1
    printed = json.loads(finished.out)
    assert printed == genrm.json("m.json")
    assert (printed["figures"]["accuracy"]["value"], printed["calls"]) == (1.0, 10)
    assert "10 comparisons: 10 calls to make" in finished.err
    assert genrm.names() == {"pairs.jsonl", "m.json", "m.journal.sqlite"}


def test_a_dry_run_counts_the_calls_that_are_left(genrm, call_judged, judge_server, write_pairs):
    """--dry-run of eval asks nothing, writes nothing, and counts what the journal holds."""
    write_pairs(2)
    judge = f"{EVAL} -o out.json"
    assert json.loads(call_judged(f"{judge} --dry-run --json").ended(0).out)["calls"] == 4
    assert genrm.names() == {"pairs.jsonl"}
    assert judge_server.stats()["requests"] == 0
    call_judged(judge).ended(0)
    write_pairs(3)
    planned = call_judged(f"{judge} --dry-run").ended(0).out
    assert b"6 comparisons, 4 of them answered in an earlier run: 2 calls to make, " in planned


def test_pairs_come_through_a_pipe_and_the_result_goes_into_one(genrm, call):
    """`-` is stdin, `-o -` is stdout; then no table is in the way."""
    data = genrm.sample(PAIRS).read_bytes()
    finished = call("eval - -o - --quiet --offline", stdin=data).ended(0)
    assert finished.err == ""
    assert json.loads(finished.out)["figures"]["pairs"] == 28


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_keeps_what_was_paid_for(genrm, call, judge_server, write_pairs, sent):
    """Ctrl-C and SIGTERM end with 130 and no result; the same command then asks only what is
    missing.
    """
    write_pairs(4)
    judge_server.behave(script=[{}, {}, {}, {"hang": True}])
    words = (f"{EVAL} -o m.json --concurrency 1", *judge_server.flags)
    process = genrm.start(*words)
    judge_server.wait_until(lambda stats: stats["requests"] == 4)
    process.send_signal(sent)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert b"interrupted" in err
    assert "m.json" not in genrm.names()
    judge_server.reset()
    call(*words).ended(0)
    assert judge_server.stats()["requests"] == 8 - 3


def test_pairs_and_results_may_lie_on_s3(call, genrm, s3_bucket):
    """Both are read and written there; a result outside rl/ is refused without --any-prefix."""
    put(s3_bucket, "rl/pairs.jsonl", genrm.sample(PAIRS).read_bytes())
    root = f"s3://{s3_bucket.name}"
    call(f"eval --offline {root}/rl/pairs.jsonl -o {root}/rl/m.json").ended(0)
    assert json.loads(get(s3_bucket, "rl/m.json"))["figures"]["pairs"] == 28
    finished = call(f"eval --offline {root}/rl/pairs.jsonl -o {root}/m.json").ended(2)
    assert finished.out == b""
    assert "--any-prefix" in finished.err


def test_cells_share_their_calls_and_go_on(genrm, call_judged, write_pairs, write_grid):
    """Two repeats ask only for the second one; the same command again asks nothing."""
    write_pairs(4)
    write_grid("[axes]\nrepeats = [1, 2]\n")
    grid = f"{EVAL} --profile nemotron --grid grid.toml -o out.json"
    plans = json.loads(call_judged(f"{grid} --dry-run --json").ended(0).out)
    assert list(plans) == ["repeats 1", "repeats 2"]
    done = call_judged(f"{grid} --page out.html").ended(0)
    found = genrm.json("out.json")
    assert [(cell["calls"], cell["journal_hits"]) for cell in found["cells"]] == [(8, 0), (8, 8)]
    assert found["answer"] in done.out.decode()
    page = genrm.text("out.html")
    assert escape(found["answer"]) in page
    assert page.count('class="dot"') == len(found["options"]) == 4
    again = json.loads(call_judged(f"{grid} --force --json").ended(0).out)
    assert [cell["calls"] for cell in again["cells"]] == [0, 0]
    assert again["cost_unit"] == "tokens"


def test_a_cell_that_fails_leaves_the_others(genrm, call_judged, write_pairs, write_grid):
    """Its reason is in the result and its exit code is that of the command."""
    write_pairs(1)
    gone = 'name = "gone"\njudge_id = "gone"\nbase_url = ["http://127.0.0.1:9/v1"]\n'
    write_grid(f'[[cell]]\nname = "good"\n[[cell]]\n{gone}')
    words = f"{EVAL} --profile nemotron --give-up-after 0.1 --retries 0 --grid grid.toml"
    call_judged(words, "-o", "out.json").ended(6)
    found = genrm.json("out.json")
    assert [cell["name"] for cell in found["cells"]] == ["good"]
    assert [(cell["name"], cell["exit_code"]) for cell in found["failed"]] == [("gone", 6)]


def test_cells_that_the_probe_refuses_say_why(call_judged, judge_server, write_pairs):
    """Each is told of by its name, with what is wrong with the judge's reply."""
    write_pairs(1)
    judge_server.behave(fault={"content": "Both are nice."})
    done = call_judged("eval pairs.jsonl --compare-modes").ended(4)
    for mode in ("pairwise", "listwise"):
        assert f"judging {mode}: the judge cannot be used" in done.err
    assert "Both are nice" in done.err
