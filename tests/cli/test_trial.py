"""`--limit` and `--quick`: a run on the first groups, and the whole run after it."""

import itertools
import json
import math
import random
import re
import shlex

import pytest
from genrm_process import make_rollouts
from terminals import on_terminal


def metrics_of(finished):
    """Return the metrics of the only input from what --json printed."""
    return json.loads(finished.out)["results"][0]["metrics"]


def test_a_trial_scores_the_first_groups_and_leaves_the_rest_unscored(genrm, call):
    """All lines are written; those after the first N comparable groups say why they have no reward;
    exit code 0.
    """
    alone = {"prompt": "Alone?", "completion": "Yes."}
    genrm.write("in.jsonl", [alone, *make_rollouts(groups=4, size=2)])
    finished = call("score in.jsonl --limit 2 --json --offline").ended(0)
    assert "a trial (--limit 2): 2 groups not scored" in finished.err
    metrics = metrics_of(finished)
    assert metrics | {"limit": 2, "groups_left_out": 2, "unscored_share": 0.0} == metrics
    lines = genrm.lines()
    assert [line["reward"] is None for line in lines] == [True] + [False] * 4 + [True] * 4
    assert {line["genrm"]["reason"] for line in lines[5:]} == {"not_in_trial"}


def test_a_full_run_goes_on_where_a_trial_ended(genrm, call_judged):
    """After a trial its outputs are due, a dry run counts the calls that are left, and a run makes
    exactly those.
    """
    genrm.rollouts(3, 2)
    score = "score in.jsonl --no-probe --json"
    assert metrics_of(call_judged(f"{score} --limit 1"))["calls"] == 2
    dry = json.loads(call_judged(f"{score} --dry-run").out)
    assert dry["results"][0]["reason"] == "it is a trial (limit=1)"
    assert dry["results"][0]["plan"]["calls"] == dry["plan"]["calls"] == 4
    full = metrics_of(call_judged(score))
    assert full | {"calls": 4, "journal_hits": 2, "limit": None, "unscored": 0} == full


def test_a_trial_never_replaces_a_full_result(genrm, call):
    """A trial over an input that was scored in full is refused; --force replaces the result."""
    genrm.rollouts()
    call("score in.jsonl --offline").ended(0)
    before = genrm.text("in.scored.jsonl")
    refused = call("score in.jsonl --limit 1 --offline").ended(2)
    assert "a full run, which a trial (--limit) must not replace" in refused.err
    assert genrm.text("in.scored.jsonl") == before
    call("score in.jsonl --limit 1 --force --offline").ended(0)


def test_fewer_verdicts_never_replace_more_unasked(genrm, call):
    """A run with fewer rings over the same file finds it up to date, and is refused if it would
    also change what rewards are; one with as many or more goes on; --force replaces the result.
    """
    genrm.rollouts(3, 6)
    call("score in.jsonl --ring-k 2 --offline").ended(0)
    before = genrm.text("in.scored.jsonl")
    current = call("score in.jsonl --offline").ended(0)
    has = "it has --ring-k 2, 36 verdicts, which is more than these settings ask for"
    assert f"in.jsonl is up to date ({has}): in.scored.jsonl; use --force" in current.err
    refused = call("score in.jsonl --advantage unit --offline").ended(2)
    assert "it has 36 verdicts, and these settings ask for 18 of them" in refused.err
    assert "--force" in refused.err
    assert genrm.text("in.scored.jsonl") == before
    for words in ("--ring-k 2 --advantage unit", "--ring-k 2.5", "--force"):
        call(f"score in.jsonl --offline {words}").ended(0)
    assert genrm.metrics()["ring_k"] == 1


def test_a_dry_run_says_which_file_cannot_be_read(genrm, call):
    """A dry run reads the files: one without a rollout has failed, with 3, and the others have
    their cost.
    """
    genrm.rollouts(1, 3, name="good.jsonl")
    (genrm.folder / "bad.jsonl").write_text("<html>")
    judge = "--base-url http://127.0.0.1:9/v1 --model m --price-in 1 --price-out 1"
    out = call(f"score good.jsonl bad.jsonl --dry-run {judge}").ended(3).out.decode()
    assert re.search(r"  3 comparisons: 3 calls to make, .* cost about 0\.01\n", out)
    assert "failed: bad.jsonl: HTML or XML" in out
    lexical = call("score good.jsonl --dry-run --offline")
    assert b"3 comparisons: 0 calls to make\n" in lexical.out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"), [((), "1 scored"), (("--min-age", "60"), "1 skipped")]
)
def test_a_new_file_in_a_folder_is_scored_on_a_terminal(genrm, options, said):
    """Where a person watches, a file is never too new, unless --min-age says so."""
    genrm.rollouts()
    words = ("score", ".", "--offline", *options)
    [shown] = on_terminal(genrm, [(genrm.folder, words, 80)])
    assert said in shown


QUICK = "score in.jsonl --no-probe --price-in 1 --price-out 2 --quick --json"


@pytest.fixture
def quick(call_judged, judge_server):
    """Make a quick trial; return its advice, what it said, and how many calls it made."""

    def run(words="--profile nemotron"):
        finished = call_judged(f"{QUICK} {words}").ended(0)
        advice = json.loads(finished.out)["recommendation"]
        return advice, finished.err, judge_server.stats()["requests"]

    return run


def pasted(advice):
    """Return the words of the command that an advice proposes."""
    return shlex.split(advice["next"].removeprefix("next: genrm "))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "other", "requests"),
    [
        pytest.param("pairwise", "listwise", 300 + 20, marks=pytest.mark.slow),
        ("listwise", "pairwise", 60 + 100),
    ],
)
def test_a_quick_trial_tries_both_modes_of_a_chat_model(genrm, quick, given, other, requests):
    """Ten groups in the other mode show whether both agree, and which has less left to pay; only
    their verdicts are kept.
    """
    genrm.rollouts(32, 5)
    advice, said, asked = quick(f"--judging {given}")
    assert f"trying --judging {other} on up to 10 groups" in said
    assert asked == requests
    beyond = "rewards of both modes correlate by 1.00 (1.00 to 1.00) beyond their noise"
    # Of 32 groups, 30 are paid.
    dear = f"{other} does not cost clearly less"
    assert advice["mode"] == f"{given}, as in the trial; {beyond}, and {dear}"
    assert ("repeats" in advice) == (given == "listwise")
    suffixes = ("scored.jsonl", "comparisons.jsonl", "metrics.json", "journal.sqlite", "jsonl")
    assert genrm.names() == {f"in.{suffix}" for suffix in suffixes}


def test_a_mode_that_is_paid_for_is_kept(genrm, quick):
    """Of six groups, a trial asks about all in both modes: neither has anything left to pay."""
    genrm.rollouts(6, 5)
    advice, said, _ = quick("")
    mode = "pairwise, as in the trial; rewards of both modes correlate"
    assert advice["mode"].startswith(mode)
    assert f"the trial recommends for the whole run:\n  mode         {mode}" in said
    assert said.splitlines()[-2] == advice["next"]


def test_a_quick_trial_that_shows_nothing_recommends_no_count(genrm, quick):
    """With one small group, the reliability is unknown and says what would show it."""
    genrm.rollouts(1, 2)
    advice = quick()[0]
    assert advice.keys() == {"mode", "rings", "reliability", "cost", "next"}
    assert advice["next"].startswith("next: genrm report ")
    assert advice["reliability"].startswith("unknown: groups of fewer than 4 rollouts")


@pytest.mark.parametrize("judging", ["pairwise", "listwise"])
def test_a_plain_run_after_a_trial_of_all_groups_keeps_it(
    genrm, call_judged, judge_server, judging
):
    """The command without the advice makes no call and replaces nothing, with pairs and with lists;
    once the file has grown, it is due.
    """
    rollouts = make_rollouts(groups=3, size=5)
    genrm.write("in.jsonl", rollouts)
    score = f"score in.jsonl --no-probe --judging {judging}"
    call_judged(f"{score} --quick").ended(0)
    assert not any("trial" in reason for reason in genrm.metrics()["because"])
    before = genrm.text("in.scored.jsonl")
    asked = judge_server.stats()["requests"]
    assert "in.jsonl is up to date (it has --" in call_judged(score).ended(0).err
    assert judge_server.stats()["requests"] == asked
    assert genrm.text("in.scored.jsonl") == before
    genrm.write("in.jsonl", [*rollouts, *({**each, "prompt": "new"} for each in rollouts[:5])])
    assert "1 scored" in call_judged(score).ended(0).err


@pytest.mark.parametrize(
    ("sizes", "least"),
    [
        pytest.param((5,), 4, marks=pytest.mark.slow),
        pytest.param((4, 5, 6, 8), 17, marks=pytest.mark.weekly),
    ],
    ids=["five", "twenty"],
)
def test_what_trials_promise_holds_for_the_whole_file(
    genrm, call, quick, judge_server, sizes, least
):
    """The line to paste, run on the rest, has a reliability within the promised range for four of
    five judges at least, and for 17 of 20 judges and group sizes.
    """
    kept = []
    for size, noise in itertools.product(sizes, (0.3, 0.6, 1.0, 1.5, 2.5)):
        judge_server.behave(verdict=f"noisy:{noise}")
        rng = random.Random(f"{size} {noise}")
        texts = [
            {"prompt": f"Of {size}, {noise}: {group}?", "completion": "a" * length}
            for group in range(90)
            for length in [round(300 * math.exp(rng.gauss(0, 1))) for _ in range(size)]
        ]
        genrm.write("in.jsonl", texts)
        advice = quick("--profile nemotron --force")[0]
        promised = re.match(r"[0-9.]+ \(([0-9.]+) to ([0-9.]+)\)", advice["reliability"])
        call(*pasted(advice)).ended(0)
        found = genrm.metrics()["reliability"]["mean"]
        kept.append(float(promised[1]) <= found <= float(promised[2]))
    assert sum(kept) >= least, kept
