"""What a run may still spend, and how long it waits before a call is tried again."""

from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.judging.pacing.policy import MAX_RETRY_AFTER_S, Budget, CallPolicy

WAITS = st.integers(1, 10_000)


@given(WAITS, st.floats(0, 1), st.none() | st.floats(0, allow_infinity=True))
def test_waits_grow_within_their_bounds(waits, fraction, retry_after_s):
    """A wait is at least half of a bound that doubles up to the cap, plus what the server asked, at
    most 300 s.
    """
    bound_s = min(60.0, 0.5 * 2.0 ** min(waits - 1, 50))
    asked_s = min(retry_after_s or 0.0, MAX_RETRY_AFTER_S)
    wait_s = CallPolicy(1, 1, 5, base_s=0.5, cap_s=60).wait_s(waits, retry_after_s, fraction)
    assert bound_s / 2 <= wait_s - asked_s + 1e-9
    assert wait_s <= bound_s + asked_s + 1e-9


def test_a_limit_is_reached_when_so_much_is_spent():
    """A limit names itself as soon as nothing is left of it; a limit of nothing is reached at
    once.
    """
    million = {"prompt_tokens": 10**6, "completion_tokens": 10**6}
    million |= {"price_in": 2.0, "price_out": 8.0}
    cases = [
        (Budget(max_calls=3, calls=2), None),
        (Budget(max_calls=3, calls=3), "max_calls"),
        (Budget(max_calls=0), "max_calls"),
        (Budget(max_tokens=100, prompt_tokens=60, completion_tokens=39), None),
        (Budget(max_tokens=100, prompt_tokens=60, completion_tokens=40), "max_total_tokens"),
        (Budget(max_tokens=0), "max_total_tokens"),
        (Budget(max_cost=10.1, **million), None),
        (Budget(max_cost=10.0, **million), "max_cost"),
        (Budget(max_cost=0.0, price_in=2.0), "max_cost"),
        (Budget(max_calls=6, max_tokens=1000, calls=5, prompt_tokens=1000), "max_total_tokens"),
    ]
    for budget, reached in cases:
        assert budget.used_up() == reached
