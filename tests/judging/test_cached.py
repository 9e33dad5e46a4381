"""The journal in front of a judge: nothing is asked twice, nothing is lost."""

import asyncio

import pytest
from opened_judge import ask_all, judge_pairs, with_judge
from polling import until
from stored_outcomes import count_verdicts

from genrm_cli.errors import JudgeError
from genrm_cli.judging.journal import Journal
from genrm_cli.verdicts import Verdict

UNREADABLE = {"content": "Both are fine."}


@pytest.fixture
def journal(tmp_path):
    """Open an empty journal."""
    with Journal(str(tmp_path / "run.sqlite")) as opened:
        yield opened


def test_what_the_journal_holds_is_not_asked_again(judge_server, journal):
    """A second run makes no call, and hears the same verdicts with what they once cost."""
    first = ask_all(judge_server, range(20), journal=journal)
    second = ask_all(judge_server, range(20), journal=journal)
    assert judge_server.stats()["requests"] == 20
    assert second.budget.calls == 0
    for place in range(20):
        before = first.outcomes[place]
        after = second.outcomes[place]
        assert [before.from_journal, after.from_journal] == [False, True]
        assert after.result == before.result
        assert after.reply_text == before.reply_text
        assert after.attempts == 1
        assert after.prompt_tokens == before.prompt_tokens > 0


def test_equal_questions_in_flight_are_asked_once(judge_server, journal):
    """Twenty comparisons of three questions make three calls; the others share the verdict and cost
    nothing.
    """
    judge_server.behave(latency_s=0.05)
    opened = ask_all(judge_server, [0, 1, 2] * 6, journal=journal)
    assert judge_server.stats()["requests"] == opened.budget.calls == 3
    assert all(isinstance(outcome.result, Verdict) for outcome in opened.outcomes.values())
    asked = [outcome.attempts for outcome in opened.outcomes.values() if not outcome.from_journal]
    assert asked == [1] * 3


def test_equal_questions_share_a_failure_too(judge_server, journal):
    """When the one that was asked fails, those that waited for it fail alike; the next run asks
    again.
    """
    judge_server.behave(fault=UNREADABLE, latency_s=0.05)
    assert ask_all(judge_server, [0] * 4, journal=journal).kinds() == {"no_verdict": 4}
    assert judge_server.stats()["requests"] == 1
    judge_server.behave()
    assert ask_all(judge_server, [0] * 4, journal=journal).kinds() == {None: 4}
    assert judge_server.stats()["requests"] == 2


def test_when_the_judge_is_given_up_those_who_wait_hear_of_it(judge_server, journal):
    """A run whose equal questions wait for one that is never answered ends with the reason, and
    does not hang.
    """
    judge_server.behave(fault={"status": 500})
    with pytest.raises(JudgeError, match="give_up_after"):
        ask_all(judge_server, [0, 1, 2, 3] * 5, journal=journal, retries=100, give_up_after_s=0.3)
    assert count_verdicts(journal) == 0


def test_a_cancelled_run_keeps_every_answer(judge_server, journal):
    """After a cancellation at any moment the journal holds every outcome that was reported, and no
    slot is missing.
    """
    judge_server.behave(latency_lognormal={"mean_s": 0.01, "sigma": 1.0})

    async def use(opened):
        told = []
        assert opened.journaled is not None
        for start, reported in ((0, 0), (50, 1), (100, 10)):
            run = asyncio.create_task(
                judge_pairs(range(start, start + 50), opened.journaled, told.append)
            )
            enough = len(told) + reported
            await until(lambda enough=enough: opened.pool.in_flight and len(told) >= enough)
            run.cancel()
            await asyncio.gather(run, return_exceptions=True)
            assert len(asyncio.all_tasks()) <= 2  # this test and the `wait_for` around it
            assert count_verdicts(journal) >= len(told)
            assert opened.pool.in_flight == 0

    with_judge(use, judge_server.base_url, journal=journal, concurrency=8)
    known = count_verdicts(journal)
    again = ask_all(judge_server, range(50, 100), journal=journal)
    assert again.kinds() == {None: 50}
    assert count_verdicts(journal) == known + again.budget.calls


def test_only_what_failed_is_asked_again(judge_server, journal):
    """With --only-failed verdicts are recalled, failures asked again, and what is new is not
    asked.
    """
    judge_server.behave(fault=UNREADABLE, fault_share=0.4)
    failed = ask_all(judge_server, range(30), journal=journal).kinds()["no_verdict"]
    assert 0 < failed < 30
    judge_server.behave()
    before = judge_server.stats()["requests"]
    second = ask_all(judge_server, range(40), journal=journal, only_failed=True)
    assert judge_server.stats()["requests"] - before == failed
    assert second.kinds() == {None: 30, "not_asked": 10}
