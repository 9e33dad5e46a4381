"""What a run may still spend."""

from genrm_cli.judging.pacing.policy import Budget
from genrm_cli.judging.requests import Reply


def spent(calls=0, prompt_tokens=0, completion_tokens=0, **limits):
    """Say which of the limits so much spending reaches."""
    budget = Budget(**limits)
    for _ in range(calls):
        budget.calls += 1
    budget.count_reply(Reply("", prompt_tokens=prompt_tokens, completion_tokens=completion_tokens))
    return budget.used_up()


def test_a_limit_is_reached_when_so_much_is_spent():
    """A limit names itself as soon as nothing is left of it; a limit of nothing is reached at
    once.
    """
    cases = [
        ((2, 0, 0), {"max_calls": 3}, None),
        ((3, 0, 0), {"max_calls": 3}, "max_calls"),
        ((0, 0, 0), {"max_calls": 0}, "max_calls"),
        ((0, 60, 39), {"max_tokens": 100}, None),
        ((0, 60, 40), {"max_tokens": 100}, "max_total_tokens"),
        ((0, 0, 0), {"max_tokens": 0}, "max_total_tokens"),
        (
            (0, 10**6, 10**6),
            {
                "max_cost": 10.1,
                "price_in": 2.0,
                "price_out": 8.0,
            },
            None,
        ),
        (
            (0, 10**6, 10**6),
            {
                "max_cost": 10.0,
                "price_in": 2.0,
                "price_out": 8.0,
            },
            "max_cost",
        ),
        ((0, 0, 0), {"max_cost": 0.0, "price_in": 2.0}, "max_cost"),
        ((5, 500, 500), {"max_calls": 6, "max_tokens": 1000}, "max_total_tokens"),
    ]
    for spending, limits, reached in cases:
        assert spent(*spending, **limits) == reached


def test_a_server_that_counts_no_tokens_spends_none():
    """Without usage in the replies, the token and cost limits are never reached; calls still
    count.
    """
    budget = Budget(max_tokens=1, max_cost=0.01, price_in=1e6)
    for _ in range(10):
        budget.calls += 1
        budget.count_reply(Reply("fine"))
    assert budget.calls == 10
    assert budget.cost == 0.0
    assert budget.used_up() is None
