import itertools
import json
import math
import os
import random
import re
import shlex
from typing import Any

import pytest
from genrm_process import COMMAND, make_rollouts
from processes import start_process

LEXICAL = ("--judge", "lexical")


def metrics_of(finished):
    """Return the metrics of the only input from what --json printed."""
    metrics: dict[str, Any] = json.loads(finished.out)["results"][0]["metrics"]
    return metrics


def test_a_trial_scores_the_first_groups_and_leaves_the_rest_unscored(genrm, call):
    """All lines are written; those after the first N comparable groups say why they have no reward;
    exit code 0.
    """
    alone = {"prompt": "Alone?", "completion": "Yes."}
    genrm.write("in.jsonl", [alone, *make_rollouts(groups=4, size=2)])
    finished = call("score in.jsonl --limit 2 --json --offline").ended(0)
    assert "a trial (--limit 2): 2 groups not scored" in finished.err
    metrics = metrics_of(finished)
    assert metrics["limit"] == 2
    assert metrics["groups_left_out"] == 2
    assert metrics["unscored_share"] == 0.0
    lines = genrm.lines("in.scored.jsonl")
    assert len(lines) == 9
    assert all(line["reward"] is not None for line in lines[1:5])
    assert [line["reward"] for line in lines[5:]] == [None] * 4
    assert {line["genrm"]["reason"] for line in lines[5:]} == {"not_in_trial"}


def test_a_full_run_goes_on_where_a_trial_ended(genrm, call, judge_server):
    """After a trial its outputs are due, a dry run counts the calls that are left, and a run makes
    exactly those.
    """
    genrm.rollouts(3, 2)
    judge = (*judge_server.flags, "--no-probe")
    assert metrics_of(call("score in.jsonl --limit 1 --json", *judge))["calls"] == 2
    dry = json.loads(call("score in.jsonl --dry-run --json", *judge).out)
    assert dry["results"][0]["reason"] == "it is a trial (limit=1)"
    assert dry["results"][0]["plan"]["calls"] == dry["plan"]["calls"] == 4
    full = metrics_of(call("score in.jsonl --json", *judge))
    assert full["calls"] == 4
    assert full["journal_hits"] == 2
    assert full["limit"] is None
    assert full["unscored"] == 0


def test_a_trial_never_replaces_a_full_result(genrm, call):
    """A trial over an input that was scored in full is refused; --force replaces the result."""
    genrm.rollouts()
    call("score in.jsonl --offline").ended(0)
    before = (genrm.folder / "in.scored.jsonl").read_bytes()
    refused = call("score in.jsonl --limit 1 --offline").ended(2)
    assert "a full run, which a trial (--limit) must not replace" in refused.err
    assert (genrm.folder / "in.scored.jsonl").read_bytes() == before
    call("score in.jsonl --limit 1 --force --offline").ended(0)


def test_fewer_verdicts_never_replace_more_unasked(genrm, call):
    """A run with fewer rings over the same file finds it up to date, and is refused if it would
    also change what rewards are; one with as many or more goes on; --force replaces the result.
    """
    genrm.rollouts(3, 6)
    call("score in.jsonl --ring-k 2 --offline").ended(0)
    before = (genrm.folder / "in.scored.jsonl").read_bytes()
    current = call("score in.jsonl --offline").ended(0)
    has = "it has --ring-k 2, 36 verdicts, which is more than these settings ask for"
    assert f"in.jsonl is up to date ({has}): in.scored.jsonl; use --force" in current.err
    refused = call("score in.jsonl --advantage unit --offline").ended(2)
    assert "it has 36 verdicts, and these settings ask for 18 of them" in refused.err
    assert "--force" in refused.err
    assert (genrm.folder / "in.scored.jsonl").read_bytes() == before
    call("score in.jsonl --ring-k 2 --advantage unit --offline").ended(0)
    call("score in.jsonl --ring-k 2.5 --offline").ended(0)
    call("score in.jsonl --force --offline").ended(0)
    assert genrm.metrics()["ring_k"] == 1


def test_a_dry_run_says_which_file_cannot_be_read(genrm, call):
    """A dry run reads the files: one without a rollout has failed, with 3, and the others have
    their cost.
    """
    genrm.rollouts(1, 3, name="good.jsonl")
    (genrm.folder / "bad.jsonl").write_text("<html>")
    prices = ["--price-in", "1", "--price-out", "1"]
    judge = ["--base-url", "http://127.0.0.1:9/v1", "--model", "m"]
    finished = call("score good.jsonl bad.jsonl --dry-run", *judge, *prices).ended(3)
    out = finished.out.decode()
    assert re.search(r"  3 comparisons: 3 calls to make, .* cost about 0\.01\n", out)
    assert "failed: bad.jsonl: HTML or XML" in out
    lexical = call("score good.jsonl --dry-run --offline").out.decode()
    assert "3 comparisons: 0 calls to make\n" in lexical


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "code"),
    [
        ((), "1 scored"),
        (("--min-age", "60"), "1 skipped"),
    ],
)
def test_a_new_file_in_a_folder_is_scored_on_a_terminal(genrm, options, code):
    """Where a person watches, a file is never too new, unless --min-age says so."""
    genrm.rollouts()
    ours, theirs = os.openpty()
    command = [*COMMAND, "score", ".", *LEXICAL, *options]
    child = start_process(
        command, stderr=theirs, cwd=genrm.folder, env=genrm.environment(TERM="dumb")
    )
    os.close(theirs)
    said = b""
    while chunk := _read(ours):
        said += chunk
    os.close(ours)
    assert child.wait(60) == 0, said
    assert code in said.decode()


def _read(terminal):
    try:
        return os.read(terminal, 65_536)
    except OSError:  # the other end is closed
        return b""


QUICK = ["--no-probe", "--price-in", "1", "--price-out", "2", "--quick", "--json"]


def test_a_quick_trial_recommends_the_whole_run(genrm, call, judge_server):
    """It scores 30 groups in two rings and says mode, rings, reliability and cost; the whole run
    asks for the rest only.
    """
    genrm.rollouts(32, 5)
    judge = (*judge_server.flags, "--profile", "nemotron")
    finished = call("score in.jsonl", *judge, *QUICK).ended(0)
    advice = json.loads(finished.out)["recommendation"]
    assert advice["mode"] == "pairwise, as in the trial"
    assert re.fullmatch(r"--ring-k [0-9.]+( as expected, .* to be sure)?", advice["rings"])
    expected = r"0\.8\d \(0\.\d\d to 0\.\d\d\) expected; 0\.\d\d \(.*\) in 30 groups of the trial"
    assert re.fullmatch(expected, advice["reliability"])
    assert "cost about" in advice["cost"]
    assert "the trial recommends for the whole run:\n  mode " in finished.err
    assert finished.err.splitlines()[-2] == advice["next"]
    command = shlex.split(advice["next"].removeprefix("next: genrm "))
    asked = judge_server.stats()["requests"]
    call(*command).ended(0)
    rings = float(command[command.index("--ring-k") + 1])
    assert rings <= 2
    assert judge_server.stats()["requests"] - asked == 2 * int(5 * rings)


@pytest.mark.parametrize(
    ("given", "other", "requests"),
    [("pairwise", "listwise", 300 + 20), ("listwise", "pairwise", 60 + 100)],
)
def test_a_quick_trial_tries_both_modes_of_a_chat_model(
    genrm, call, judge_server, given, other, requests
):
    """Ten groups in the other mode show whether both agree, and which has less left to pay; only
    their verdicts are kept.
    """
    genrm.rollouts(32, 5)
    finished = call("score in.jsonl", *judge_server.flags, "--judging", given, *QUICK).ended(0)
    assert f"trying --judging {other} on up to 10 groups" in finished.err
    assert judge_server.stats()["requests"] == requests
    advice = json.loads(finished.out)["recommendation"]
    beyond = r"rewards of both modes correlate by 1\.00 \(1\.00 to 1\.00\) beyond their noise"
    # Of 32 groups, 30 are paid.
    expected = f"{given}, as in the trial; {beyond}, and {other} does not cost clearly less"
    assert re.fullmatch(expected, advice["mode"])
    assert ("repeats" in advice) == (given == "listwise")
    suffixes = ("scored.jsonl", "comparisons.jsonl", "metrics.json", "journal.sqlite", "jsonl")
    assert genrm.names() == {f"in.{suffix}" for suffix in suffixes}


def test_a_mode_that_is_paid_for_is_kept(genrm, call, judge_server):
    """Of six groups, a trial asks about all in both modes: neither has anything left to pay."""
    genrm.rollouts(6, 5)
    finished = call("score in.jsonl", *judge_server.flags, *QUICK).ended(0)
    mode = json.loads(finished.out)["recommendation"]["mode"]
    assert mode.startswith("pairwise, as in the trial; rewards of both modes correlate")


def test_a_quick_trial_that_shows_nothing_recommends_no_count(genrm, call, judge_server):
    """With one small group, the reliability is unknown and says what would show it."""
    genrm.rollouts(1, 2)
    judge = (*judge_server.flags, "--profile", "nemotron")
    advice = json.loads(call("score in.jsonl", *judge, *QUICK).ended(0).out)["recommendation"]
    assert advice.keys() == {"mode", "rings", "reliability", "cost", "next"}
    assert advice["next"].startswith("next: genrm report ")
    assert advice["reliability"].startswith("unknown: groups of fewer than 4 rollouts")


def test_a_trial_of_all_groups_keeps_its_reliability(genrm, call, judge_server):
    """Of a file of few groups it recommends no fewer rings than it asked: the whole run makes no
    call, and knows the same of the judge.
    """
    genrm.rollouts(6, 8)
    judge = (*judge_server.flags, "--profile", "nemotron")
    finished = call("score in.jsonl", *judge, *QUICK).ended(0)
    tried = genrm.metrics()["reliability"]["mean"]
    advice = json.loads(finished.out)["recommendation"]
    assert advice["rings"].startswith("--ring-k 2")
    assert not any("trial" in reason for reason in genrm.metrics()["because"])
    assert advice["next"].startswith("next: genrm ")
    assert finished.err.splitlines()[-2] == advice["next"]
    asked = judge_server.stats()["requests"]
    call("score in.jsonl --ring-k 2", *judge).ended(0)
    assert judge_server.stats()["requests"] == asked
    assert genrm.metrics()["reliability"]["mean"] == tried


@pytest.mark.parametrize("judging", ["pairwise", "listwise"])
def test_a_plain_run_after_a_trial_of_all_groups_keeps_it(genrm, call, judge_server, judging):
    """The command without the advice makes no call and replaces nothing, with pairs and with lists;
    once the file has grown, it is due.
    """
    rollouts = make_rollouts(groups=3, size=5)
    genrm.write("in.jsonl", rollouts)
    judge = (*judge_server.flags, "--no-probe", "--judging", judging)
    call("score in.jsonl --quick", *judge).ended(0)
    before = (genrm.folder / "in.scored.jsonl").read_bytes()
    asked = judge_server.stats()["requests"]
    plain = call("score in.jsonl", *judge).ended(0)
    assert "in.jsonl is up to date (it has --" in plain.err
    assert judge_server.stats()["requests"] == asked
    assert (genrm.folder / "in.scored.jsonl").read_bytes() == before
    genrm.write("in.jsonl", [*rollouts, *({**each, "prompt": "new"} for each in rollouts[:5])])
    assert "1 scored" in call("score in.jsonl", *judge).ended(0).err


@pytest.mark.parametrize(
    ("sizes", "least"),
    [
        pytest.param((5,), 4, marks=pytest.mark.slow),
        pytest.param((4, 5, 6, 8), 17, marks=pytest.mark.weekly),
    ],
    ids=["five", "twenty"],
)
def test_what_trials_promise_holds_for_the_whole_file(genrm, call, judge_server, sizes, least):
    """The line to paste, run on the rest, has a reliability within the promised range for four of
    five judges at least, and for 17 of 20 judges and group sizes.
    """
    kept = []
    for size, noise in itertools.product(sizes, (0.3, 0.6, 1.0, 1.5, 2.5)):
        judge_server.behave(verdict=f"noisy:{noise}")
        rng = random.Random(f"{size} {noise}")
        stem = f"of-{size}-{noise}"
        texts = [
            {"prompt": f"{stem} {group}?", "completion": "a" * length}
            for group in range(90)
            for length in [round(300 * math.exp(rng.gauss(0, 1))) for _ in range(size)]
        ]
        genrm.write(f"{stem}.jsonl", texts)
        flags = (*judge_server.flags, "--profile", "nemotron", *QUICK)
        advice = json.loads(call("score", f"{stem}.jsonl", *flags).ended(0).out)["recommendation"]
        promised = re.match(r"[0-9.]+ \(([0-9.]+) to ([0-9.]+)\)", advice["reliability"])
        call(*shlex.split(advice["next"].removeprefix("next: genrm "))).ended(0)
        found = genrm.metrics(stem)["reliability"]["mean"]
        kept.append(float(promised[1]) <= found <= float(promised[2]))
    assert sum(kept) >= least, kept


def test_a_quick_trial_is_of_one_file(genrm, call):
    """Several files, and a dry run, are refused before any call."""
    for name in ("a.jsonl", "b.jsonl"):
        genrm.rollouts(1, 2, name=name)
    several = call("score a.jsonl b.jsonl --quick --offline").ended(2)
    assert several.err == "genrm: error: --quick takes one file; name one.\n"
    dry = call("score a.jsonl --quick --dry-run --offline").ended(2)
    assert dry.err == "genrm: error: --quick has no effect with --dry-run; omit it.\n"
