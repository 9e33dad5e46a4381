"""A judge that is asked twice: what the second turn costs, and what happens when it is not
reached.
"""

from functools import partial

import pytest
from opened_judge import ask_all
from stored_outcomes import count_verdicts

from genrm_cli.judging.journal import Journal
from genrm_cli.judging.pacing.policy import Budget

CUT_OFF = {"content": "Truth matt", "finish_reason": "length"}


ask = partial(ask_all, profile="brrm")


@pytest.mark.parametrize("concurrency", [1, 8])
def test_an_opinion_takes_two_calls(judge_server, concurrency):
    """Two calls, the tokens of both, the text of the second; neither is a retry."""
    opened = ask(judge_server, range(8), concurrency=concurrency)
    assert opened.kinds() == {None: 8}
    assert judge_server.stats()["requests"] == opened.budget.calls == 16
    for outcome in opened.outcomes.values():
        assert outcome.attempts == 2
        assert outcome.turns == 2
        assert outcome.reply_text is not None
        assert "boxed" in outcome.reply_text
    used = opened.budget.prompt_tokens + opened.budget.completion_tokens
    assert (
        sum(each.prompt_tokens + each.completion_tokens for each in opened.outcomes.values())
        == used
    )


@pytest.mark.parametrize("concurrency", [1, 16])
@pytest.mark.parametrize("max_calls", [1, 7, 40])
def test_a_budget_ends_between_comparisons_not_between_turns(judge_server, max_calls, concurrency):
    """Comparisons in progress finish within the budget: no first turn is paid for in vain, at any
    concurrency.
    """
    opened = ask(judge_server, range(20), budget=Budget(max_calls), concurrency=concurrency)
    answered = min(20, max_calls // 2)
    assert judge_server.stats()["requests"] == opened.budget.calls == 2 * answered
    kinds = {None: answered, "not_asked": 20 - answered}
    assert opened.kinds() == {kind: count for kind, count in kinds.items() if count}
    assert opened.pool.stopped_by == ("max_calls" if answered < 20 else None)


def test_at_the_deadline_no_second_turn_begins(judge_server):
    """What was only half asked is not asked, and costs what its first turn cost."""
    judge_server.behave(latency_s=0.3)
    opened = ask(judge_server, range(4), deadline=(0.1, 5.0), concurrency=2)
    assert opened.kinds() == {"not_asked": 4}
    assert judge_server.stats()["requests"] == 2
    assert sorted(outcome.attempts for outcome in opened.outcomes.values()) == [0, 0, 1, 1]
    assert opened.outcomes[0].result.detail == "not asked to the end: stopped by deadline"
    assert opened.budget.calls == 2


def test_a_first_turn_that_is_cut_off_has_no_second(judge_server):
    """No second turn rests on half an analysis."""
    judge_server.behave(fault=CUT_OFF)
    opened = ask(judge_server, range(1))
    assert opened.kinds() == {"truncated": 1}
    assert opened.outcomes[0].attempts == 1
    assert opened.outcomes[0].turns == 1
    assert "first of two turns" in opened.outcomes[0].result.detail


def test_what_was_half_asked_is_not_in_the_journal(judge_server, tmp_path):
    """A second run asks only this comparison, from the start; equal requests in flight are made
    once.
    """
    with Journal(str(tmp_path / "run.sqlite")) as journal:
        opened = ask(judge_server, range(6), journal=journal, budget=Budget(7), concurrency=2)
        assert opened.kinds() == {None: 3, "not_asked": 3}
        assert count_verdicts(journal) == 3
        opened = ask(judge_server, range(6), journal=journal, concurrency=2)
        assert opened.kinds() == {None: 6}
        assert count_verdicts(journal) == 6
        assert judge_server.stats()["requests"] == 12
    with Journal(str(tmp_path / "other.sqlite")) as journal:
        opened = ask(judge_server, [7, 7, 7], journal=journal, concurrency=3)
        assert opened.kinds() == {None: 3}
        assert opened.budget.calls == 2
