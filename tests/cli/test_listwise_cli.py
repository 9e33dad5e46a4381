"""`--judging listwise`: all responses of a group in one call, from the command to the report."""

import json

import pytest


@pytest.fixture
def write_groups(genrm):
    """Write groups whose responses differ in length, the last the longest."""

    def write(groups=3, size=6, least=3, more=7):
        lines = [
            {"prompt": f"Why {group}?", "response": f"{group}.{n} " + "word " * (least + more * n)}
            for group in range(groups)
            for n in range(size)
        ]
        genrm.write("in.jsonl", lines)

    return write


@pytest.fixture
def score(call_judged):
    """Give a test a run on lists, without a probe."""

    def run(words="", code=0):
        lists = "score in.jsonl --judging listwise --no-probe"
        return call_judged(f"{lists} {words}").ended(code)

    return run


def ranks_of(lines):
    """Return the ranks of scored lines."""
    return [line["genrm"]["rank"] for line in lines]


def test_a_group_is_one_call_in_each_order(genrm, write_groups, score):
    """The longest wins, as this judge has it; errors come from the repeats, and nothing is asked
    twice.
    """
    write_groups()
    score("--repeats 3")
    assert genrm.metrics()["calls"] == 9
    lines = genrm.lines()
    assert ranks_of(lines) == [6, 5, 4, 3, 2, 1] * 3
    assert all(1 <= line["reward"] <= 5 for line in lines)
    records = genrm.lines("in.comparisons.jsonl")
    first = records[0]["group"]
    assert len({tuple(each["shown"]) for each in records if each["group"] == first}) == 3
    score("--repeats 4 --force")
    assert genrm.metrics()["calls"] == 3


def test_one_order_tells_nothing_of_noise(genrm, write_groups, score):
    """Standard errors and reliability are null, and the summary says what would show them; the
    plan is named as in the metrics.
    """
    write_groups()
    assert b"lists \xc3\x97 1" in score("--dry-run").out
    assert "set --repeats to 2" in score().err
    assert {line["genrm"]["standard_error"] for line in genrm.lines()} == {None}


def test_large_groups_are_split_into_lists_that_share_responses(genrm, write_groups, score):
    """Nine responses in lists of at most four take three lists, in at least two ways."""
    write_groups(2, 9)
    score("--list-size 4")
    assert genrm.metrics()["calls"] == 12
    ranks = ranks_of(genrm.lines()[:9])
    # With two groups, the effects of positions are not told from the qualities to the last rank.
    assert (set(ranks[:3]), set(ranks[-3:])) == ({9, 8, 7}, {3, 2, 1})


def test_lists_are_shortened_before_responses_are(genrm, write_groups, score):
    """Eight long responses do not fit: the lists have fewer, none loses text, and the dry run
    knows the number of calls.
    """
    write_groups(2, 8, least=1_500, more=1)
    plan = json.loads(score("--max-model-len 30000 --dry-run --json").out)["plan"]
    score("--max-model-len 30000")
    records = genrm.lines("in.comparisons.jsonl")
    assert {len(record["shown"]) for record in records} == {4}
    metrics = genrm.metrics()
    assert metrics["calls"] == len(records) == plan["calls"] == 8
    assert metrics["shortened_rollouts"] == 0
    assert all(line["reward"] is not None for line in genrm.lines())


def test_both_modes_are_previewed_for_a_chat_model(write_groups, call):
    """Calls, tokens and cost of the other mode stand beside the plan, unless the profile is that
    of a family of judges.
    """
    write_groups(2, 8)

    def plans(words):
        priced = f"validate in.jsonl --json --price-in 1 --price-out 2 --model m {words}"
        report = json.loads(call(priced).ended(0).out)
        return report["plan"], report["other_mode"]

    pairs, other_of_pairs = plans("")
    lists, other_of_lists = plans("--judging listwise")
    assert (pairs["calls"], lists["calls"]) == (16, 2)
    assert other_of_pairs == {"judging": "listwise", "plan": lists}
    assert other_of_lists == {"judging": "pairwise", "plan": pairs}
    assert lists["cost"] < pairs["cost"]
    assert plans("--profile nemotron")[1] is None
    shown = call("validate in.jsonl --model m").ended(0).out.decode()
    assert "With --judging listwise: 2 comparisons: 2 calls to make" in " ".join(shown.split())
