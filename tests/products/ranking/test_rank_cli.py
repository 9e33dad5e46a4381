import json
import signal
from typing import Any

import pytest
from genrm_process import Call, Genrm, Json
from judge_server_fixture import JudgeServer

QUALITY = {"weak": "bad", "middle": "good bad", "strong": "good good good"}


def write_policies(genrm: Genrm, prompts: int = 24, **responses: str) -> list[str]:
    """Write a file of rollouts for each policy, all on the same prompts; return their names."""
    for name, words in (responses or QUALITY).items():
        genrm.write(
            f"{name}.jsonl",
            [{"prompt": f"Q{n}?", "response": f"{words} {n}"} for n in range(prompts)],
        )
    return [f"{name}.jsonl" for name in responses or QUALITY]


def ranked(call: Call, *arguments: Any) -> Json:
    """Return what `genrm rank --json` prints."""
    ended = call("rank", *arguments, "--json")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def test_two_files_become_a_sentence(genrm: Genrm, call: Call, judge_server: JudgeServer) -> None:
    """The table names both policies, and the sentence below it says which one the judge prefers,
    and how surely.
    """
    files = write_policies(genrm, old="bad", new="good good good")
    ended = call("rank", *files, *judge_server.flags).ended(0)
    out = ended.out.decode()
    assert "m prefers new to old: 100.0 % win rate on prompts like these (63.3 to 100.0)." in out
    assert "2 policies, 24 prompts, 24 pairs: shows differences from 29.8 points" in ended.err
    assert "48 comparisons: 48 calls to make" in ended.err
    once = call("rank", *files, *judge_server.flags, "--one-look").ended(0)
    assert "100.0 % win rate on prompts like these (84.9 to 100.0)." in once.out.decode()
    assert "shows differences from 21.7 points" in once.err


def test_a_second_run_and_score_ask_nothing_again(
    genrm: Genrm, call: Call, judge_server: JudgeServer
) -> None:
    """Verdicts are in the journal of `genrm score --together`: each command finds those of the
    other.
    """
    files = write_policies(genrm)
    first = ranked(call, *files, *judge_server.flags)
    assert (first["calls"], first["known"]) == (3 * 24 * 2, 0)
    again = ranked(call, *files, *judge_server.flags)
    assert (again["calls"], again["known"], again["policies"]) == (0, 144, first["policies"])
    judge_server.behave()
    flags = ("--together", "--strategy", "all_pairs", "--both-orders", "--json")
    scored = json.loads(call("score", *files, *judge_server.flags, *flags).out)
    assert scored["results"][0]["metrics"]["calls"] == 0
    assert [row["name"] for row in first["policies"]] == ["strong", "middle", "weak"]
    assert first["format"] == 1


def test_verdicts_of_score_are_used_again(
    genrm: Genrm, call: Call, judge_server: JudgeServer
) -> None:
    """Only pairs and orders that `genrm score` has not asked about are asked for."""
    lines = [
        {"prompt": f"Q{n}?", "response": f"{words} {n}", "info": {"model": name}}
        for n in range(24)
        for name, words in QUALITY.items()
    ]
    genrm.write("models.jsonl", lines)
    assert call("score", "models.jsonl", *judge_server.flags).code == 0
    full = ranked(call, "models.jsonl", "--policy-field", "info.model", *judge_server.flags)
    assert (full["calls"], full["known"], full["n_verdicts"]) == (72, 72, 144)
    assert [row["name"] for row in full["policies"]] == ["strong", "middle", "weak"]


def test_the_plan_is_told_before_it_is_paid_for(
    genrm: Genrm, call: Call, judge_server: JudgeServer
) -> None:
    """--dry-run makes no call and writes nothing."""
    files = write_policies(genrm)
    before = genrm.names()
    planned = ranked(call, *files, *judge_server.flags, "--dry-run")
    assert planned["estimate"]["calls"] == 144
    assert judge_server.stats()["requests"] == 0
    assert genrm.names() == before


def test_a_baseline_and_steps(genrm: Genrm, call: Call) -> None:
    """A baseline meets every other policy; steps are in the order of their numbers, against the
    first.
    """
    files = write_policies(genrm)
    against = ranked(call, *files, "--baseline", "middle", "--offline")
    assert {row["a"] for row in against["pairs"]} == {"middle"}
    lines = [
        {"prompt": f"Q{n}?", "response": f"{n} Q{n} " * step, "step": step}
        for step in (10, 9, 100)
        for n in range(22)
    ]
    genrm.write("steps.jsonl", lines)
    curve = ranked(call, "steps.jsonl", "--over", "step", "--offline")
    assert [row["name"] for row in curve["policies"]] == ["9", "10", "100"]
    assert (curve["baseline"], curve["over"], curve["policies"][0]["elo"]) == ("9", "step", 0.0)


def test_rules_decide_without_a_call(genrm: Genrm, call: Call, judge_server: JudgeServer) -> None:
    """Equal responses tie and blank ones lose, both without the judge; missing ones are left out
    and counted.
    """
    write_policies(genrm, prompts=20, a="good")
    half_blank = [f"good {n}" if n < 10 else "" for n in range(20)]
    for name, texts in (("b", half_blank), ("c", ["good", *[None] * 19])):
        lines = [{"prompt": f"Q{n}?", "response": text} for n, text in enumerate(texts)]
        genrm.write(f"{name}.jsonl", lines)
    found = ranked(call, "a.jsonl", "b.jsonl", *judge_server.flags, "--no-probe")
    assert (found["calls"], found["by_rule"], found["pairs"][0]["w"]) == (0, 40, 0.75)
    plan = ranked(call, "a.jsonl", "c.jsonl", "--offline", "--dry-run")
    assert plan["prompts"] == 1
    assert plan["left_out"]["missing response of c"] == 19


def test_samples_of_a_policy_meet_in_their_order(genrm: Genrm, call: Call) -> None:
    """A prompt that a file repeats has several samples: one by default, and with --samples each
    meets its like.
    """
    for name in ("a", "b"):
        lines = [{"prompt": f"Q{n % 5}?", "response": f"{name} {n}"} for n in range(15)]
        genrm.write(f"{name}.jsonl", lines)
    flags = ("a.jsonl", "b.jsonl", "--offline", "--samples")
    one, three = (ranked(call, *flags, count) for count in (1, 3))
    assert [(each["n_prompts"], each["n_verdicts"]) for each in (one, three)] == [(5, 10), (5, 30)]
    assert one["plan"]["left_out"] == {"response beyond 1 per prompt": 20}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ("old.jsonl", 3, "its only policy is 'old'"),
        ("old.jsonl other.jsonl", 3, "no prompt was answered by two of the policies"),
        ("old.jsonl new.jsonl --baseline x", 2, "the policies are new, old"),
        ("old.jsonl new.jsonl --policy-field x", 3, "has a value under --policy-field x"),
        ("old.jsonl new.jsonl --over prompt", 3, "expected numbers"),
        ("old.jsonl absent.jsonl", 3, "absent.jsonl: no such file"),
        ("old.jsonl new.jsonl --compat nemo-gym", 2, "which say nothing about policies; omit it"),
    ],
)
def test_what_cannot_be_ranked_is_refused(arguments, code, words, genrm: Genrm, call: Call) -> None:
    """The message says what was found and what to do, and the exit code is that of the kind of
    error.
    """
    write_policies(genrm, prompts=3, old="bad", new="good")
    genrm.write("other.jsonl", [{"prompt": "Another?", "response": "x"}])
    assert words in call("rank", *arguments.split(), "--offline").ended(code).err


def test_a_judge_that_fails_is_no_opinion(
    genrm: Genrm, call: Call, judge_server: JudgeServer
) -> None:
    """Failures are counted for nobody; too many of them end with 6, and without any verdict there
    is no table.
    """
    files = write_policies(genrm, prompts=4, old="bad", new="good good")
    judge_server.behave(script=[{"content": "no idea"}] * 3)
    flags = ("--no-probe", "--concurrency", 1)
    ended = call("rank", *files, *judge_server.flags, *flags, "--json")
    found = json.loads(ended.out)
    assert (ended.code, found["failed"], found["n_verdicts"]) == (6, 3, 5)
    assert "3 of 8 comparisons failed, more than --max-unscored 0.05 allows" in ended.err
    again = ("--max-calls", 1, "--json")
    stopped = call("rank", *files, *judge_server.flags, *flags, *again)
    assert (stopped.code, "--max-calls stopped the run" in stopped.err) == (6, True)


@pytest.mark.parametrize(("profile", "calls"), [("nemotron-principle", 20), ("rewardanything", 10)])
def test_judges_that_grade_responses_rank_policies(
    profile: str, calls: int, genrm: Genrm, call: Call, judge_server: JudgeServer
) -> None:
    """Each response is graded once, or all of a prompt in one call; a failed grade fails its pairs
    in both orders.
    """
    files = write_policies(genrm, prompts=10, old="bad", new="good good")
    judge_server.behave(script=[{"content": "no idea"}])
    flags = ["--no-probe", "--concurrency", "1", "--max-unscored", "1"]
    found = ranked(call, *files, *judge_server.flags, "--profile", profile, *flags)
    assert (found["calls"], found["failed"], found["n_verdicts"]) == (calls, 2, 18)


@pytest.mark.slow
def test_an_interrupted_ranking_continues(
    genrm: Genrm, call: Call, judge_server: JudgeServer
) -> None:
    """Ctrl-C ends with 130; the same command then asks only what is missing."""
    files = write_policies(genrm, prompts=4, old="bad", new="good")
    judge_server.behave(script=[{}, {}, {}, {"hang": True}])
    process = genrm.start("rank", *files, *judge_server.flags, "--no-probe", "--concurrency", 1)
    judge_server.wait_until(lambda stats: stats["requests"] == 4)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    judge_server.reset()
    assert ranked(call, *files, *judge_server.flags, "--no-probe")["known"] == 3


def test_a_page_shows_the_matrix(genrm: Genrm, call: Call) -> None:
    """--report writes a page with every pair, its names escaped."""
    files = write_policies(genrm, 3, **{"<b>": "good", "c": "bad"})
    call("rank", *files, "--offline", "--report", "page.html").ended(0)
    page = (genrm.folder / "page.html").read_text()
    found = [words in page for words in ("Row beats column", "&lt;b&gt;", "<b>")]
    assert found == [True, True, False]
