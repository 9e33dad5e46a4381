"""`--judging listwise`: all responses of a group in one call, from the command to the report."""

import json

import pytest
from genrm_process import read_lines

FLAGS = ["--model", "m", "--judging", "listwise"]


def write_groups(genrm, groups=3, n=6):
    """Write groups whose responses differ in length, the last the longest."""
    lines = [
        {"prompt": f"Why {group}?", "response": f"{group}.{place} " + "word " * (3 + 7 * place)}
        for group in range(groups)
        for place in range(n)
    ]
    genrm.write("in.jsonl", lines)


def scored(genrm, call, judge_server, *flags):
    """Score, and return the metrics and the scored lines."""
    base_url = ("--base-url", judge_server.base_url)
    call("score in.jsonl", *base_url, *FLAGS, *flags).ended(0)
    metrics = json.loads((genrm.folder / "in.metrics.json").read_bytes())
    return metrics, read_lines(genrm.folder / "in.scored.jsonl")


def test_a_group_is_one_call_in_each_order(genrm, call, judge_server):
    """The longest wins, as this judge has it; errors come from the repeats, and nothing is asked
    twice.
    """
    write_groups(genrm)
    metrics, lines = scored(genrm, call, judge_server, "--repeats", 3, "--no-probe")
    assert metrics["calls"] == 9
    for group in range(3):
        own = lines[6 * group : 6 * group + 6]
        assert [line["genrm"]["rank"] for line in own] == [6, 5, 4, 3, 2, 1]
        assert all(1 <= line["reward"] <= 5 for line in own)
    records = read_lines(genrm.folder / "in.comparisons.jsonl")
    orders = {
        tuple(record["shown"]) for record in records if record["group"] == records[0]["group"]
    }
    assert len(orders) == 3
    again, _ = scored(genrm, call, judge_server, "--repeats", 4, "--no-probe", "--force")
    assert again["calls"] == 3


def test_one_order_tells_nothing_of_noise(genrm, call, judge_server):
    """Standard errors and reliability are null, and the summary says what would show them; the
    plan is named as in the metrics.
    """
    write_groups(genrm)
    base_url = ("--base-url", judge_server.base_url)
    planned = call("score in.jsonl --dry-run", *base_url, *FLAGS).ended(0)
    assert "lists × 1" in planned.out.decode()
    finished = call("score in.jsonl --no-probe", *base_url, *FLAGS).ended(0)
    assert "set --repeats to 2" in finished.err
    lines = read_lines(genrm.folder / "in.scored.jsonl")
    assert {line["genrm"]["standard_error"] for line in lines} == {None}


def test_large_groups_are_split_into_lists_that_share_responses(genrm, call, judge_server):
    """Nine responses in lists of at most four take three lists, in at least two ways."""
    write_groups(genrm, groups=2, n=9)
    metrics, lines = scored(genrm, call, judge_server, "--list-size", 4, "--no-probe")
    assert metrics["calls"] == 12
    ranks = [line["genrm"]["rank"] for line in lines[:9]]
    # With two groups, the effects of positions are not told from the qualities to the last rank.
    assert set(ranks[:3]) == {9, 8, 7}
    assert set(ranks[-3:]) == {3, 2, 1}


def test_lists_are_shortened_before_responses_are(genrm, call, judge_server):
    """Eight long responses do not fit: the lists have fewer, none loses text, and the dry run
    knows the number of calls.
    """
    lines = [
        {"prompt": f"Why {group}?", "response": f"{group}.{place} " + "word " * (1_500 + place)}
        for group in range(2)
        for place in range(8)
    ]
    genrm.write("in.jsonl", lines)
    fits = ["--max-model-len", "30000", "--no-probe"]
    base_url = ("--base-url", judge_server.base_url)
    dry = call("score in.jsonl --dry-run --json", *base_url, *FLAGS, *fits).ended(0)
    metrics, scored_lines = scored(genrm, call, judge_server, *fits)
    records = read_lines(genrm.folder / "in.comparisons.jsonl")
    assert {len(record["shown"]) for record in records} == {4}
    assert metrics["calls"] == len(records) == json.loads(dry.out)["plan"]["calls"] == 8
    assert metrics["shortened_rollouts"] == 0
    assert all(line["reward"] is not None for line in scored_lines)


def test_both_modes_are_previewed_for_a_chat_model(genrm, call):
    """Calls, tokens and cost of the other mode stand beside the plan, unless the profile is that
    of a family of judges.
    """
    write_groups(genrm, groups=2, n=8)
    given = ["validate", "in.jsonl", "--json", "--price-in", "1", "--price-out", "2"]
    pairs = json.loads(call(*given, "--model", "m").ended(0).out)
    lists = json.loads(call(*given, *FLAGS).ended(0).out)
    assert (pairs["plan"]["calls"], lists["plan"]["calls"]) == (16, 2)
    assert pairs["other_mode"] == {"judging": "listwise", "plan": lists["plan"]}
    assert lists["other_mode"] == {"judging": "pairwise", "plan": pairs["plan"]}
    assert lists["plan"]["cost"] < pairs["plan"]["cost"]
    family = json.loads(call(*given, "--model", "m", "--profile", "nemotron").ended(0).out)
    assert family["other_mode"] is None
    shown = call("validate in.jsonl --model m").ended(0).out.decode()
    assert "With --judging listwise: 2 comparisons: 2 calls to make" in " ".join(shown.split())


def test_a_reply_that_leaves_a_response_out_counts_for_the_others(genrm, call, judge_server):
    """The grades that it has count."""
    write_groups(genrm, groups=1, n=3)
    judge_server.behave(leaves_out_last=True)
    options = ["--no-probe", "--max-unscored", "1", "--max-extra", "0"]
    metrics, lines = scored(genrm, call, judge_server, *options)
    assert metrics["calls"] == 1
    assert sorted(line["genrm"]["status"] for line in lines) == ["scored", "scored", "unscored"]


def test_the_probe_asks_for_lists(genrm, call, judge_server):
    """A judge that follows the responses passes, in both orders."""
    write_groups(genrm)
    metrics, _ = scored(genrm, call, judge_server)
    assert metrics["judge"]["probe"] == "passed"


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--both-orders",), "--both-orders has no effect without --judging pairwise"),
        (("--compat", "nemo-gym"), "--judging has no effect with --compat"),
        (("--profile", "mt-bench"), "the profile mt-bench does not show lists"),
        (("--goal", "best"), "--goal best needs judges that compare pairs"),
    ],
)
def test_what_needs_pairs_is_refused(genrm, call, judge_server, flags, says):
    """Before anything is asked, with what to omit."""
    write_groups(genrm, groups=1)
    base_url = ("--base-url", judge_server.base_url)
    finished = call("score in.jsonl", *base_url, *FLAGS, *flags).ended(2)
    assert says in finished.err
    assert judge_server.stats()["requests"] == 0


def test_the_baseline_compares_pairs_only(genrm, call):
    """Lists are not silently judged as pairs."""
    write_groups(genrm, groups=1)
    finished = call("score in.jsonl --offline --judging listwise").ended(2)
    assert "--judging has no effect with --judge lexical" in finished.err
