"""`genrm simulate`: a budget is planned before it is spent."""

import json

import pytest
from genrm_process import Call, Genrm, make_rollouts

from genrm_cli.simulation.world import JudgeModel

COST = {
    "format": 1,
    "judge_idx": 0,
    "attempts": 1,
    "latency_s": 0.1,
    "prompt_tokens": 1,
    "completion_tokens": 1,
}
QUICK = ("simulate", "--n", "6", "--groups", "60")


def test_a_table_says_what_calls_buy(call: Call) -> None:
    """A row for each strategy, estimator and number of calls; nothing on stderr."""
    finished = call(
        *QUICK, "--calls", "6", "--calls", "12", "--strategy", "circular", "--strategy", "ring"
    )
    assert (finished.code, finished.err) == (0, "")
    lines = finished.out.decode().splitlines()
    rows = [line.split()[:3] for line in lines[1:13]]
    assert rows == [
        [strategy, estimator, calls]
        for strategy in ("circular", "ring")
        for calls in ("6", "12")
        for estimator in ("simple_tiebreaker", "combined", "adaptive")
    ]
    assert "60 groups of 6, seed 0" in finished.out.decode()


def test_the_json_holds_everything(call: Call) -> None:
    """The judge with all its numbers, and the figures with their errors; the same in every run."""
    arguments = (*QUICK, "--strategy", "all_pairs", "--seed", "5", "--json")
    finished = call(*arguments)
    result = json.loads(finished.out)
    assert result["judge"]["noise"] == JudgeModel().noise
    assert (result["seed"], result["n"]) == (5, 6)
    assert [row["calls"] for row in result["figures"]] == [15, 15, 15, 30, 30, 30]
    assert all(0 < row["correlation_error"] < 0.1 for row in result["figures"])
    assert call(*arguments).out == finished.out


def test_recorded_verdicts_are_replayed(genrm: Genrm, call: Call) -> None:
    """A run of all pairs in both orders gives the table of plans and estimators, without a call."""
    genrm.write("in.jsonl", make_rollouts(groups=6, size=5))
    dense = ("--strategy", "all_pairs", "--both-orders", "--quiet")
    assert call("score", "in.jsonl", "--judge", "lexical", *dense).code == 0
    replay = ("simulate", "--replay", "in.comparisons.jsonl")
    shown = call(*replay)
    assert (shown.code, shown.err) == (0, "")
    assert "6 groups of 5" in shown.out.decode()
    assert "Left out" not in shown.out.decode()
    (judge,) = json.loads(call(*replay, "--calls", "5", "--strategy", "ring", "--json").out)[
        "judges"
    ]
    assert [(row["estimator"], row["calls"]) for row in judge["figures"]] == [
        ("simple_tiebreaker", 5),
        ("combined", 5),
        ("adaptive", 5),
    ]
    (row,) = json.loads(call(*replay, "--goal", "best", "--calls", "6", "--json").out)["figures"]
    assert (row["calls"], row["equal_calls"]["value"]) == (6, 3)
    assert "rings with as much" in call(*replay, "--goal", "pair").out.decode()
    assert "--goal needs --replay" in call("simulate", "--goal", "best").err
    for of_simulation in ("--n", "--groups"):
        refused = call(*replay, of_simulation, "2")
        assert refused.err.startswith("genrm: error: --replay uses recorded verdicts")
    assert call("score", "in.jsonl", "--judge", "lexical", "--force", "--quiet").code == 0
    sparse = call(*replay).ended(2)
    assert "--strategy all_pairs --both-orders" in sparse.err


def test_a_judge_without_dense_groups_is_named(genrm: Genrm, call: Call) -> None:
    """It is left out of the replay of the others, and the output says so."""
    scores = {"score_1": 4, "score_2": 2, "ranking": 2, "failure": None} | COST
    pairs = [(i, j) for i in range(4) for j in range(4) if i != j]
    judged = [
        {"group": group, "i": i, "j": j, "judge": "dense", **scores}
        for group in "01"
        for i, j in pairs
    ]
    genrm.write("both.jsonl", [*judged, judged[0] | {"judge": "sparse"}])
    replay = ("simulate", "--replay", "both.jsonl", "--calls", "4", "--strategy", "ring")
    assert "both orders: sparse." in call(*replay).out.decode()
    assert json.loads(call(*replay, "--json").out)["left_out_judges"] == ["sparse"]


def test_prices_make_a_table_of_panels(genrm: Genrm, call: Call) -> None:
    """`--price` names judges of the file; a judge that it does not hold, and a price that is none,
    are refused.
    """
    scores = {"score_1": 4, "score_2": 3, "ranking": 3, "failure": None} | COST
    pairs = [(i, j) for i in range(4) for j in range(4) if i != j]
    lines = [
        {
            "group": group,
            "i": i,
            "j": j,
            "judge": judge,
            **scores,
            "score_1": 1 + (i + int(group)) % 4,
        }
        for judge in ("dear", "cheap")
        for group in "0123"
        for i, j in pairs
    ]
    genrm.write("both.jsonl", lines)
    replay = ("simulate", "--replay", "both.jsonl", "--price", "dear=20")
    finished = call(*replay, "--price", "cheap=1", "--json").ended(0)
    rows = json.loads(finished.out)["figures"]
    assert [(row["second"], row["rings"], row["cost"]) for row in rows] == [
        (None, 1.0, 80.0),
        ("cheap", 1.0, 86.0),
    ]
    assert "and on all pairs" in call(*replay, "--price", "cheap=1").out.decode()
    for arguments, message in (
        ((*replay, "--price", "other=1"), "holds no verdict of 'other'"),
        ((*replay, "--price", "cheap"), "--price 'cheap' is not a judge with the price"),
        (("simulate", "--price", "dear=1"), "--price needs --replay"),
        (replay, "--price needs two judges or more, of different prices"),
        ((*replay, "--price", "cheap=20"), "--price needs two judges or more, of different prices"),
        ((*replay, "--price", "cheap=1", "--calls", "9"), "--price sets the plans"),
    ):
        refused = call(*arguments).ended(2)
        assert message in " ".join(refused.err.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--strategy", "rings"), "--strategy: 'rings' is not one of circular"),
        (
            ("--calls", "5", "--strategy", "all_pairs"),
            "5 calls per group are too few for all_pairs with 16 rollouts",
        ),
    ],
)
def test_bad_arguments_are_errors_of_one_line(
    call: Call, arguments: tuple[str, ...], message: str
) -> None:
    """Exit code 2, what was found and what was expected, no table."""
    finished = call("simulate", *arguments)
    assert (finished.code, finished.out) == (2, b"")
    assert message in finished.err
    assert len(finished.err.splitlines()) == 1
