"""What a run may spend, in calls, tokens, money and time: kept to, and said."""

import pytest
from opened_judge import ask_all

from genrm_cli.judging.pacing.policy import Budget

UNREADABLE = {"content": "Both are fine."}


@pytest.mark.parametrize("max_calls", [0, 7, 20])
def test_no_more_calls_are_made_than_allowed(judge_server, max_calls):
    """So many calls, so many verdicts; the rest is not asked, and only then the run counts as
    stopped.
    """
    opened = ask_all(judge_server, range(20), budget=Budget(max_calls))
    assert judge_server.stats()["requests"] == max_calls
    kinds = {None: max_calls, "not_asked": 20 - max_calls}
    assert opened.kinds() == {kind: count for kind, count in kinds.items() if count}
    assert opened.pool.stopped_by == ("max_calls" if max_calls < 20 else None)


@pytest.mark.parametrize("concurrency", [1, 16])
@pytest.mark.parametrize(
    "behaviour",
    [
        {"fault": UNREADABLE, "fault_times": 2},
        {"fault": {"status": 500}, "fault_times": 2},
        {"fault": {"status": 429}, "fault_times": 1, "latency_s": 0.002},
    ],
)
def test_retries_do_not_overdraw(judge_server, behaviour, concurrency):
    """However many comparisons wait for a slot at once, the calls of all of them stay within the
    budget.
    """
    judge_server.behave(**behaviour)
    opened = ask_all(judge_server, range(60), budget=Budget(45), concurrency=concurrency)
    assert judge_server.stats()["requests"] == opened.budget.calls == 45
    assert sum(outcome.attempts for outcome in opened.outcomes.values()) == 45
    assert opened.pool.stopped_by == "max_calls"
    assert len(opened.outcomes) == 60


def test_a_budget_of_tokens_is_overshot_by_calls_in_flight_at_most(judge_server):
    """After the reply that reaches the limit no call is made but those under way."""
    judge_server.behave(latency_s=0.005)
    opened = ask_all(judge_server, range(100), budget=Budget(max_tokens=1000))
    used = opened.budget.prompt_tokens + opened.budget.completion_tokens
    of_one = used / opened.budget.calls
    assert 1000 <= used <= 1000 + 4 * of_one
    assert opened.pool.stopped_by == "max_total_tokens"


@pytest.mark.parametrize(
    "usage",
    [
        {},
        {"usage": None},
        {"usage": {"prompt_tokens": 0, "completion_tokens": 0}},
        {"usage": {"prompt_tokens": None}},
        {"usage": {"prompt_tokens": "40", "completion_tokens": "60"}},
        {"usage": {"prompt_tokens": 40.0, "completion_tokens": 60.0}},
        {"usage": {"prompt_tokens": 40, "completion_tokens": 1, "total_tokens": 100}},
    ],
)
@pytest.mark.parametrize("limit", [{"max_tokens": 1_000}, {"max_cost": 1.0}])
def test_a_budget_stops_whatever_usage_a_server_reports(judge_server, usage, limit):
    """Unknown is not 0: a reply without usage counts as estimated, and is reported so."""
    judge_server.behave(usage=usage)
    budget = Budget(**limit, price_in=1_000, price_out=1_000)
    opened = ask_all(judge_server, range(60), budget=budget)
    assert 0 < opened.budget.calls < 60
    assert opened.pool.stopped_by == ("max_total_tokens" if "max_tokens" in limit else "max_cost")
    is_reported = bool((usage.get("usage") or {}).get("prompt_tokens"))
    asked = [each for each in opened.outcomes.values() if each.attempts]
    assert [each.estimated_replies for each in asked] == [0 if is_reported else 1] * len(asked)


def test_a_deadline_lets_calls_in_flight_finish(judge_server):
    """Calls that were made before the deadline count; nothing is asked after it."""
    judge_server.behave(latency_s=0.3)
    opened = ask_all(judge_server, range(50), deadline=(0.6, 60))
    asked = judge_server.stats()["requests"]
    assert 4 <= asked < 50
    assert opened.kinds() == {None: asked, "not_asked": 50 - asked}
    assert opened.pool.stopped_by == "deadline"


def test_a_deadline_ends_calls_that_hang(judge_server):
    """After the grace nothing is waited for any more: calls that hang fail as timeouts."""
    judge_server.behave(fault={"hang": True})
    opened = ask_all(judge_server, range(10), deadline=(0.1, 0.3), call_timeout_s=600)
    assert opened.kinds() == {"timeout": 4, "not_asked": 6}


def test_a_deadline_ends_waits_before_a_retry(judge_server):
    """A comparison that was told to come back in five minutes does not hold up the end of a run."""
    judge_server.behave(fault={"status": 503, "headers": {"Retry-After": "300"}})
    assert ask_all(judge_server, range(3), deadline=(0.3, 10)).kinds() == {"http": 3}
