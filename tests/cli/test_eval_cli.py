import json
import re
import signal
from typing import Any

import pytest
from genrm_process import Call, Genrm, Json
from judge_server_fixture import JudgeServer

LEXICAL = ("--judge", "lexical")
PAIRS = "labelled-pairs.jsonl"


def judge(server: JudgeServer, *more: object) -> tuple[object, ...]:
    """Name a judge on the command line."""
    return ("--base-url", server.base_url, "--model", "m", *more)


def make_pairs(count: int) -> list[Json]:
    """Make pairs whose better answer is the longer one."""
    return [{"prompt": f"Q{n}?", "chosen": "good " * 9, "rejected": "bad", "subset": "s"} for n in range(count)]


def test_a_person_gets_tables(genrm: Genrm, call: Call) -> None:
    """Without --json stdout holds the figures with their intervals, overall and by category."""
    genrm.sample(PAIRS)
    finished = call("eval", PAIRS, *LEXICAL)
    assert finished.code == 0, finished.err
    out = finished.out.decode()
    for text in ("accuracy", "95 % interval", "flip rate", "28 pairs on 12 lines", "science", "(none)"):
        assert text in out
    assert "built-in lexical baseline" in finished.err
    assert genrm.names() == {PAIRS}


def test_a_machine_gets_one_object_and_a_file(genrm: Genrm, call: Call, judge_server: JudgeServer) -> None:
    """--json prints what -o writes, in one line; the probe is not among the calls."""
    genrm.write("pairs.jsonl", make_pairs(5))
    finished = call("eval", "pairs.jsonl", "--json", "-o", "m.json", *judge(judge_server))
    assert finished.code == 0, finished.err
    assert finished.out.count(b"\n") == 1
    printed = json.loads(finished.out)
    assert printed == json.loads((genrm.folder / "m.json").read_bytes())
    assert printed["figures"]["accuracy"]["value"] == 1.0
    assert printed["calls"] == 10
    assert "10 comparisons: 10 calls to make" in finished.err
    assert genrm.names() == {"pairs.jsonl", "m.json", "m.journal.sqlite"}


def test_recorded_replies_are_measured_without_a_call(genrm: Genrm, call: Call) -> None:
    """Each reply is read in its own order by the profile; JudgeBench counts a win and a tie as right."""
    pairs = [{"id": f"p{number}", **pair} for number, pair in enumerate(make_pairs(4))]
    genrm.write("pairs.jsonl", pairs)
    said = {
        "p0": ("[[A>B]]", "[[B>A]]"),
        "p1": ("[[A>B]]", "[[A=B]]"),
        "p2": ("[[A>B]]", "[[A>B]]"),
        "p3": ("?", "[[B>>A]]"),
    }
    replies = [
        {"id": name, "chosen_first": number == 0, "reply": text}
        for name, texts in said.items()
        for number, text in enumerate(texts)
    ]
    genrm.write("replies.jsonl", replies)
    options = ("--replies", "replies.jsonl", "--profile", "arena-hard", "--json")
    finished = call("eval", "pairs.jsonl", *options)
    assert finished.code == 0, finished.err
    result = json.loads(finished.out)
    figures = result["figures"]
    assert (figures["judgebench_accuracy"]["value"], figures["consistent_accuracy"]["value"]) == (0.75, 1 / 3)
    assert (figures["failures_by_kind"], result["calls"]) == ({"no_verdict": 1}, 0)
    genrm.write("replies.jsonl", [*replies[:1], replies[1] | {"reply": None}])
    partial = call("eval", "pairs.jsonl", *options)
    assert json.loads(partial.out)["figures"]["not_asked"] == 7
    assert "7 judgements without a recorded reply left out" in partial.err
    genrm.write("replies.jsonl", [*replies, replies[0]])
    repeated = call("eval", "pairs.jsonl", *options)
    assert (repeated.code, "line 9: a second reply for 'p0'" in repeated.err) == (3, True)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"id": "p0", "reply": "[[A>B]]"}, "line 1: no recorded reply; expected id, chosen_first and reply"),
        ({"id": "p0", "chosen_first": "yes", "reply": "[[A>B]]"}, "chosen_first is 'yes', not true or false"),
        ({"pair_id": "p0", "label": "C", "judgments": []}, "label is 'C', not 'A>B' or 'B>A'"),
        ({"pair_id": "p0", "label": "A>B", "judgments": ["text"]}, "line 1: no recorded reply"),
        ({"id": "p0", "chosen_first": True, "reply": None}, "--replies has no reply to any of the pairs: its ids must"),
        ({"id": "other", "chosen_first": True, "reply": "?"}, "its ids, such as 'other', must match .* such as 'p0'"),
    ],
)
def test_what_is_no_recorded_reply_is_refused(genrm: Genrm, call: Call, line: dict[str, Any], message: str) -> None:
    """The error names the line and what is wrong with it, or the ids that do not match."""
    genrm.write("pairs.jsonl", [{"id": "p0", **pair} for pair in make_pairs(1)])
    genrm.write("replies.jsonl", [line])
    finished = call("eval", "pairs.jsonl", "--replies", "replies.jsonl", "--profile", "arena-hard")
    assert finished.code in (2, 3)
    assert re.search(message, " ".join(finished.err.split()))


def test_pairs_come_through_a_pipe_and_the_result_goes_into_one(genrm: Genrm, call: Call) -> None:
    """`-` is stdin, `-o -` is stdout; then no table is in the way."""
    finished = call("eval", "-", "-o", "-", *LEXICAL, "--quiet", stdin=genrm.sample(PAIRS).read_bytes())
    assert (finished.code, finished.err) == (0, "")
    assert json.loads(finished.out)["figures"]["pairs"] == 28


def test_two_results_are_compared(genrm: Genrm, call: Call, judge_server: JudgeServer) -> None:
    """--compare says which judge is better, with p, as text and as JSON; a judge is never better than itself."""
    genrm.write("pairs.jsonl", make_pairs(7))
    assert call("eval", "pairs.jsonl", "-o", "a.json", *judge(judge_server)).code == 0
    judge_server.behave(verdict={"score_1": 4, "score_2": 2, "ranking": 2})
    b = judge(judge_server, "--judge-id", "other", "--no-probe")
    assert call("eval", "pairs.jsonl", "-o", "b.json", *b).code == 0
    finished = call("eval", "--compare", "a.json", "b.json")
    assert (finished.code, finished.err) == (0, "")
    assert "A is better: p = 0.0156" in finished.out.decode()
    printed = json.loads(call("eval", "--compare", "b.json", "a.json", "--json").out)
    assert (printed["better"], printed["a_better"], printed["b_better"]) == ("b", 0, 7)
    assert "no significant difference" in call("eval", "--compare", "a.json", "a.json").out.decode()


@pytest.mark.parametrize("sent", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_an_interrupted_run_keeps_what_was_paid_for(
    genrm: Genrm, call: Call, judge_server: JudgeServer, sent: signal.Signals
) -> None:
    """Ctrl-C and SIGTERM end with 130 and no result; the same command then asks only what is missing."""
    genrm.write("pairs.jsonl", make_pairs(4))
    judge_server.behave(script=[{}, {}, {}, {"hang": True}])
    arguments = ("eval", "pairs.jsonl", "-o", "m.json", *judge(judge_server, "--no-probe", "--concurrency", 1))
    process = genrm.start(*arguments)
    judge_server.wait_until(lambda stats: stats["requests"] == 4)
    process.send_signal(sent)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert b"interrupted" in err
    assert not (genrm.folder / "m.json").exists()
    judge_server.reset()
    assert call(*arguments).code == 0
    assert judge_server.stats()["requests"] == 8 - 3


def test_pairs_and_results_may_lie_on_s3(call: Call, genrm: Genrm, s3_bucket: Any) -> None:
    """Both are read and written there; a result outside rl/ is refused without --any-prefix."""
    pairs, result = (f"s3://{s3_bucket.name}/rl/{name}" for name in ("pairs.jsonl", "m.json"))
    s3_bucket.client.put_object(Bucket=s3_bucket.name, Key="rl/pairs.jsonl", Body=genrm.sample(PAIRS).read_bytes())
    assert call("eval", pairs, "-o", result, *LEXICAL).code == 0
    finished = call("eval", "--compare", result, result, "--json")
    assert finished.code == 0, finished.err
    assert json.loads(finished.out)["pairs"] == 28
    finished = call("eval", pairs, "-o", f"s3://{s3_bucket.name}/m.json", *LEXICAL)
    assert (finished.code, finished.out) == (2, b"")
    assert "--any-prefix" in finished.err


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ((), 2, "--compare"),
        ((PAIRS,), 2, "--judge lexical"),
        ((PAIRS, "--compare", "a.json", "b.json"), 2, "--compare"),
        (("--compare", "a.json", "b.json", "-o", "c.json"), 2, "-o"),
        (("--compare", "a.json", "b.json"), 3, "a.json: no such file"),
        (("--compare", PAIRS, PAIRS), 3, PAIRS),
        ((PAIRS, *LEXICAL, "--json", "-o", "-"), 2, "stdout"),
        (("missing.jsonl", *LEXICAL), 3, "missing.jsonl"),
        ((PAIRS, *LEXICAL, "-o", "missing/out.json"), 5, "missing"),
    ],
)
def test_what_cannot_be_done_is_said(
    genrm: Genrm, call: Call, arguments: tuple[str, ...], code: int, says: str
) -> None:
    """Wrong combinations end with 2, unreadable input with 3, an output without a place with 5."""
    genrm.sample(PAIRS)
    finished = call("eval", *arguments)
    assert finished.code == code, finished.err
    assert says in finished.err
    assert finished.out == b""
