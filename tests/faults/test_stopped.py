import pytest


def check_partial(scoring, stopped_by):
    """Hold a stopped run to its word: marked as partial, some verdicts, and the rest not asked."""
    metrics = scoring.check_honest()
    assert metrics["partial"]
    assert metrics["stopped_by"] == stopped_by
    assert set(metrics["failures_by_kind"]) == {"not_asked"}
    assert metrics["verdicts"] + metrics["journal_hits"] == scoring.journaled()
    return metrics


def test_a_deadline_ends_the_run_with_what_it_has(scoring):
    """No call begins after --deadline, those in flight are waited for, and partial results are
    written: exit code 6.
    """
    scoring.server.behave(latency_s=0.3)
    finished = scoring.run("--deadline", 1.5, "--concurrency", 2).ended(6)
    assert "stopped by --deadline" in finished.err
    metrics = check_partial(scoring, "deadline")
    assert 1 <= metrics["verdicts"] < 16
    assert metrics["verdicts"] == scoring.server.stats()["requests"]
    assert scoring.server.stats()["abandoned"] == 0
    scoring.check_resumes()


@pytest.mark.parametrize("limit", ["total_tokens", "cost"])
def test_a_budget_of_tokens_or_money_is_overshot_by_the_calls_in_flight_at_most(scoring, limit):
    """Calls stop as soon as the tokens of the replies so far, or their price, reach the limit."""
    assert scoring.run("--no-journal").code == 0
    tokens = scoring.metrics["prompt_tokens"] + scoring.metrics["completion_tokens"]
    scoring.server.reset()
    prices = ("--price-in", 2, "--price-out", 2)
    limits = {
        "total_tokens": ("--max-total-tokens", tokens // 2),
        "cost": ("--max-cost", tokens, *prices),
    }
    limits["cost"] = ("--max-cost", f"{tokens / 1e6:.9f}", *prices)
    scoring.run(*limits[limit], "--concurrency", 2).ended(6)
    metrics = check_partial(scoring, f"max_{limit}")
    spent = metrics["prompt_tokens"] + metrics["completion_tokens"]
    assert tokens // 2 <= spent <= tokens // 2 + 2 * tokens // 8
    scoring.check_resumes()
