"""How long to wait before a call is tried again."""

from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.judging.pacing.policy import MAX_RETRY_AFTER_S, CallPolicy

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
