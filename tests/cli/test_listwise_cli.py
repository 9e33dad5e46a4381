"""`--judging listwise`: all responses of a group in one call, from the command to the report."""

import json

import pytest
from genrm_process import read_lines

FLAGS = ("--model", "m", "--judging", "listwise")


def write_groups(genrm, groups=3, n=6):
    """Write groups whose responses differ in length, the last the longest."""
    lines = [
        {"prompt": f"Why {group}?", "response": f"{group}.{place} " + "word " * (3 + 7 * place)}
        for group in range(groups)
        for place in range(n)
    ]
    genrm.write("in.jsonl", lines)


def scored(genrm, judge_server, *flags):
    """Score, and return the metrics and the scored lines."""
    base_url = ("--base-url", judge_server.base_url)
    genrm.run("score", "in.jsonl", *base_url, *FLAGS, *flags).ended(0)
    metrics = json.loads((genrm.folder / "in.metrics.json").read_bytes())
    return metrics, read_lines(genrm.folder / "in.scored.jsonl")


def test_a_group_is_one_call_in_each_order(genrm, judge_server):
    """The longest wins, as this judge has it; errors come from the repeats, and nothing is asked
    twice.
    """
    write_groups(genrm)
    metrics, lines = scored(genrm, judge_server, "--repeats", 3, "--no-probe")
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
    again, _ = scored(genrm, judge_server, "--repeats", 4, "--no-probe", "--force")
    assert again["calls"] == 3


def test_one_order_tells_nothing_of_noise(genrm, judge_server):
    """Standard errors and reliability are null, and the summary says what would show them; the
    plan is named as in the metrics.
    """
    write_groups(genrm)
    base_url = ("--base-url", judge_server.base_url)
    planned = genrm.run("score", "in.jsonl", *base_url, *FLAGS, "--dry-run").ended(0)
    assert "lists × 1" in planned.out.decode()
    finished = genrm.run("score", "in.jsonl", *base_url, *FLAGS, "--no-probe").ended(0)
    assert "set --repeats to 2" in finished.err
    lines = read_lines(genrm.folder / "in.scored.jsonl")
    assert {line["genrm"]["standard_error"] for line in lines} == {None}


def test_large_groups_are_split_into_lists_that_share_responses(genrm, judge_server):
    """Nine responses in lists of at most four take three lists, in at least two ways."""
    write_groups(genrm, groups=2, n=9)
    metrics, lines = scored(genrm, judge_server, "--list-size", 4, "--no-probe")
    assert metrics["calls"] == 12
    ranks = [line["genrm"]["rank"] for line in lines[:9]]
    # With two groups, the effects of positions are not told from the qualities to the last rank.
    assert set(ranks[:3]) == {9, 8, 7}
    assert set(ranks[-3:]) == {3, 2, 1}


def test_a_reply_that_leaves_a_response_out_counts_for_the_others(genrm, judge_server):
    """It is asked again; then the grades that it has count."""
    write_groups(genrm, groups=1, n=3)
    judge_server.behave(leaves_out_last=True)
    metrics, lines = scored(genrm, judge_server, "--no-probe", "--reask", 1, "--max-unscored", 1)
    assert metrics["calls"] == 2
    assert sorted(line["genrm"]["status"] for line in lines) == ["scored", "scored", "unscored"]


def test_the_probe_asks_for_lists(genrm, judge_server):
    """A judge that follows the responses passes, in both orders."""
    write_groups(genrm)
    metrics, _ = scored(genrm, judge_server)
    assert metrics["judge"]["probe"] == "passed"


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--both-orders",), "--repeats shows a list in several orders"),
        (("--compat", "nemo-gym"), "omit --judging listwise"),
        (("--profile", "mt-bench"), "the profile mt-bench does not show lists"),
        (("--goal", "best"), "--goal best needs judges that compare pairs"),
    ],
)
def test_what_needs_pairs_is_refused(genrm, judge_server, flags, says):
    """Before anything is asked, with what to omit."""
    write_groups(genrm, groups=1)
    base_url = ("--base-url", judge_server.base_url)
    finished = genrm.run("score", "in.jsonl", *base_url, *FLAGS, *flags).ended(2)
    assert says in finished.err
    assert judge_server.stats()["requests"] == 0


def test_the_baseline_compares_pairs_only(genrm):
    """Lists are not silently judged as pairs."""
    write_groups(genrm, groups=1)
    finished = genrm.run("score", "in.jsonl", "--offline", "--judging", "listwise").ended(2)
    assert "the built-in baseline compares pairs only; omit --judging listwise" in finished.err
