import json
import re
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
    assert "m prefers new to old: 100.0 % win rate on prompts like these (63.2 to 100.0)." in out
    assert "48 comparisons: 48 calls to make" in ended.err
    assert genrm.names() == {*files, "together.journal.sqlite"}


def test_a_second_run_and_score_ask_nothing_again(
    genrm: Genrm, call: Call, judge_server: JudgeServer
) -> None:
    """Verdicts are in the journal of `genrm score --together`: each command finds those of the
    other.
    """
    files = write_policies(genrm, prompts=12)
    first = ranked(call, *files, *judge_server.flags)
    assert (first["calls"], first["known"]) == (3 * 12 * 2, 0)
    again = ranked(call, *files, *judge_server.flags)
    assert (again["calls"], again["known"], again["policies"]) == (0, 72, first["policies"])
    judge_server.behave()
    flags = ("--together", "--strategy", "all_pairs", "--both-orders", "--json")
    scored = json.loads(call("score", *files, *judge_server.flags, *flags).out)
    assert scored["results"][0]["metrics"]["calls"] == 0
    assert [row["name"] for row in first["policies"]] == ["strong", "middle", "weak"]
    assert first["format"] == 1


def test_verdicts_of_score_are_used_again(
    genrm: Genrm, call: Call, judge_server: JudgeServer
) -> None:
    """Only pairs and orders that `genrm score` has not asked about are asked for; its output is
    ranked as it is, without a call.
    """
    lines = [
        {"prompt": f"Q{n}?", "response": f"{words} {n}", "info": {"model": name}}
        for n in range(24)
        for name, words in QUALITY.items()
    ]
    genrm.write("models.jsonl", lines)
    assert call("score", "models.jsonl", *judge_server.flags, "--no-probe").code == 0
    scored = (genrm.folder / "models.scored.jsonl").read_bytes()
    asked = judge_server.stats()["requests"]
    field = ("--policy-field", "info.model")
    read = ranked(call, "models.scored.jsonl", *field)
    assert (read["calls"], read["n_verdicts"], read["judge"]) == (0, asked, "m")
    assert [row["name"] for row in read["policies"]] == ["strong", "middle", "weak"]
    assert judge_server.stats()["requests"] == asked
    full = ranked(call, "models.jsonl", *field, *judge_server.flags)
    assert (full["calls"], full["known"], full["n_verdicts"]) == (144 - asked, asked, 144)
    assert [row["name"] for row in full["policies"]] == ["strong", "middle", "weak"]
    assert (genrm.folder / "models.scored.jsonl").read_bytes() == scored


def test_the_plan_is_told_before_it_is_paid_for(
    genrm: Genrm, call: Call, judge_server: JudgeServer
) -> None:
    """--dry-run makes no call and writes nothing."""
    files = write_policies(genrm)
    before = genrm.names()
    planned = ranked(call, *files, *judge_server.flags, "--dry-run")
    assert planned["calls"] == 144
    assert judge_server.stats()["requests"] == 0
    assert genrm.names() == before


def test_every_figure_of_a_ranking_is_printed(genrm: Genrm, call: Call) -> None:
    """Scored groups of three policies, one of which answers blank, equally to another, or not at
    all; every number of the table, of the pairs and of the sentence is the one counted by hand.
    """
    lines = []
    records = []
    # a beats b on 21 prompts of 24 and c on all; on three, b wins in the reverse order only.
    for n in range(24):
        key = f"g{n}"
        for index, (policy, text) in enumerate((("a", "one"), ("b", "four"), ("c", ""))):
            blank = policy == "c"
            lines.append(scored_line(f"Q{n}?", text * (n % 2 + 1), policy, key, index, blank=blank))
        records.append(compared(key, 0, 1, 5.0, 1.0))
        records.append(compared(key, 1, 0, 4.0, 2.0) if n < 3 else compared(key, 1, 0, 1.0, 5.0))
    genrm.write("x.scored.jsonl", lines)
    genrm.write("x.comparisons.jsonl", records)
    ended = call("rank", "x.scored.jsonl", "--policy-field", "policy").ended(0)
    rows = [re.split(r" {2,}", line.strip()) for line in ended.out.decode().splitlines()]
    table = {row[0]: row[1:] for row in rows if len(row) > 3}
    assert [table["a"][0], *table["a"][3:]] == ["96.9 %", "24"]
    assert [table["b"][0], *table["b"][3:]] == ["53.1 %", "24"]
    assert [table["c"][0], *table["c"][3:]] == ["0.0 %", "24"]
    assert table["a against b"][0] == "93.8 %"
    assert table["a against b"][2:] == ["24", "0", "0", "differs"]
    assert table["a against c"][0] == "100.0 %"
    assert table["a against c"][2:] == ["24", "0", "0", "differs"]
    assert ended.out.decode().splitlines()[-1] == "J prefers a to every other policy."
    assert "some policies never lost or never won" in ended.err
    found = ranked(call, "x.scored.jsonl", "--policy-field", "policy")
    assert [row["name"] for row in found["policies"]] == ["a", "b", "c"]
    assert (found["by_rule"], found["failed"]) == (96, 0)
    strengths = [row["strength"] for row in found["policies"]]
    assert sum(strengths) == pytest.approx(0, abs=1e-9)


def scored_line(
    prompt: str, text: str, policy: str, group: str, index: int, *, blank: bool
) -> Json:
    """Return a line as `genrm score` writes it."""
    genrm = {
        "status": "unscored" if blank else "scored",
        "reason": "blank" if blank else None,
        "reason_text": None,
        "base_score": None,
        "standard_error": None,
        "rank": None,
        "advantage": None,
        "comparisons": 2,
        "failed": 0,
        "format": 1,
        "reliability": None,
        "adjustments": dict.fromkeys(
            ("reasoning_bonus", "answer_bonus", "reasoning_length", "answer_length", "style"), 0.0
        ),
        "group": group,
        "group_size": 3,
        "index": index,
        "defaulted": 0,
        "judge": "J",
        "is_baseline": False,
    }
    reward = None if blank else 1.0
    return {
        "prompt": prompt,
        "response": text,
        "policy": policy,
        "reward": reward,
        "genrm": genrm,
    }


def compared(group: str, i: int, j: int, score_1: float, score_2: float) -> Json:
    """Return a comparison as `genrm score` writes it."""
    return {
        "format": 1,
        "group": group,
        "i": i,
        "j": j,
        "judge_idx": 0,
        "judge": "J",
        "score_1": score_1,
        "score_2": score_2,
        "ranking": 3.5,
        "failure": None,
        "attempts": 1,
        "latency_s": 0.1,
        "prompt_tokens": 1,
        "completion_tokens": 1,
    }


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
    found = ranked(call, "a.jsonl", "c.jsonl", "--offline")
    assert found["n_prompts"] == 1
    assert found["left_out"] == {
        "prompt without two policies": 19,
        "response that cannot be compared": 19,
    }


def test_files_that_were_scored_apart_are_refused(genrm: Genrm, call: Call) -> None:
    """No comparison joins their policies; files that were scored together are read."""
    for name in ("old", "new"):
        lines = [{"prompt": f"Q{n % 3}?", "response": f"{name} {n}"} for n in range(6)]
        genrm.write(f"{name}.jsonl", lines)
        call("score", f"{name}.jsonl", "--offline").ended(0)
    scored = ("old.scored.jsonl", "new.scored.jsonl")
    apart = call("rank", *scored).ended(2)
    assert "not scored together, so no comparison joins them; score them with --to" in apart.err
    call("score", "old.jsonl", "new.jsonl", "--together", "--offline", "--force").ended(0)
    assert ranked(call, *scored)["n_prompts"] == 3


def test_samples_of_a_policy_count_as_one_prompt(genrm: Genrm, call: Call) -> None:
    """A prompt that a file repeats has several responses of the policy; all of them meet, and the
    prompt is one observation.
    """
    for name in ("a", "b"):
        lines = [{"prompt": f"Q{n % 5}?", "response": f"{name} {n}"} for n in range(15)]
        genrm.write(f"{name}.jsonl", lines)
    found = ranked(call, "a.jsonl", "b.jsonl", "--offline")
    assert (found["n_prompts"], found["n_verdicts"]) == (5, 90)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ("old.jsonl", 3, "its only policy is 'old'"),
        ("old.jsonl other.jsonl", 3, "no prompt was answered by two of the policies"),
        ("old.jsonl new.jsonl --policy-field x", 3, "has a value under --policy-field x"),
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
    """Failures count for nobody; too many of them end with 6, and so does a limit."""
    files = write_policies(genrm, prompts=4, old="bad", new="good good")
    judge_server.behave(fault={"content": "no idea"}, fault_share=0.5)
    flags = ("--no-probe", "--concurrency", 1)
    ended = call("rank", *files, *judge_server.flags, *flags, "--json", "--no-journal")
    found = json.loads(ended.out)
    assert ended.code == 6
    assert found["failed"] > 0
    assert f"{found['failed']} of 8 comparisons failed, more than --max-unscored" in ended.err
    judge_server.reset()
    again = ("--max-calls", 1, "--json")
    stopped = call("rank", *files, *judge_server.flags, *flags, *again)
    assert (stopped.code, "--max-calls stopped the run" in stopped.err) == (6, True)


@pytest.mark.parametrize(("profile", "calls"), [("nemotron-principle", 20), ("rewardanything", 10)])
def test_judges_that_grade_responses_rank_policies(
    profile: str, calls: int, genrm: Genrm, call: Call, judge_server: JudgeServer
) -> None:
    """Each response is graded once, or all of a prompt in one call, which says who wins."""
    files = write_policies(genrm, prompts=10, old="bad", new="good good")
    flags = ["--no-probe", "--max-unscored", "1"]
    found = ranked(call, *files, *judge_server.flags, "--profile", profile, *flags)
    assert (found["calls"], found["pairs"][0]["n_prompts"]) == (calls, 10)
    assert [row["name"] for row in found["policies"]] == ["new", "old"]


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


def test_a_trial_leaves_nothing_out(genrm: Genrm, call: Call) -> None:
    """Prompts beyond --limit are not counted as left out of the ranking."""
    files = write_policies(genrm, prompts=9, old="bad", new="good good")
    found = ranked(call, *files, "--offline", "--limit", 4)
    assert (found["n_prompts"], found["left_out"]) == (4, {})


def test_many_pairs_are_counted_not_printed(genrm: Genrm, call: Call) -> None:
    """Of eleven policies, the pairs of the ten strongest fill the table; --json has all."""
    write_policies(genrm, 1, **{f"p{n:02}": "good " * n for n in range(1, 12)})
    files = [f"p{n:02}.jsonl" for n in range(1, 12)]
    out = call("rank", *files, "--offline").ended(0).out.decode()
    assert (out.count(" against p"), "10 more pairs: see" in out) == (45, True)
    found = ranked(call, *files, "--offline")
    assert len(found["pairs"]) == 55
    assert {found["policies"][0]["name"]} & {found["pairs"][0]["a"], found["pairs"][0]["b"]}


def test_a_page_shows_the_pairs(genrm: Genrm, call: Call, judge_server: JudgeServer) -> None:
    """--report writes a page of its own, without scripts or links, with every pair and its names
    escaped; it replaces no input, and without --force no page, which is said before the first call.
    """
    files = write_policies(genrm, 3, **{"<b>": "good", "c": "bad"})
    call("rank", *files, "--offline", "--report", "page.html").ended(0)
    page = (genrm.folder / "page.html").read_text()
    found = [words in page for words in ("wins of the first", "&lt;b&gt; against c", "<b>")]
    assert found == [True, True, False]
    assert not re.search("<nav|<script|<a ", page)
    for place, words in (("c.jsonl", "c.jsonl is an input"), ("page.html", "page.html exists")):
        again = call("rank", *files, *judge_server.flags, "--report", place).ended(2)
        assert words in again.err
    assert judge_server.stats()["requests"] == 0
