"""Claims: runs that share a journal share the work, and nobody waits for a run that is gone."""

import asyncio
from contextlib import ExitStack

import pytest
from opened_judge import open_judge, with_judge
from stored_outcomes import verdict_in

from genrm_cli.judging import claims
from genrm_cli.judging.journal import Journal
from genrm_cli.verdicts import Outcome, Verdict

KEY = b"\x01" * 32
OTHER = b"\x02" * 32


@pytest.fixture
def journals(tmp_path):
    """Open one journal twice, as two runs do."""
    with Journal(str(tmp_path / "j.sqlite")) as one, Journal(str(tmp_path / "j.sqlite")) as two:
        yield one, two


def age_claims(journal, by_s):
    """Make all claims older, as if their runs had not renewed them."""
    journal._file._connection.execute("UPDATE claims SET expires_at = expires_at - ?", (by_s,))


async def test_a_request_is_claimed_by_one_run(journals):
    """A second run is refused only the claims of the first; a run can repeat its own claim."""
    one, two = (journal.claims for journal in journals)
    assert await asyncio.gather(one.take(KEY), two.take(KEY), two.take(OTHER)) == [
        True,
        False,
        True,
    ]
    assert await one.take(KEY)
    assert two.is_taken(KEY)
    assert not two.is_taken(OTHER)


async def test_a_claim_ends_with_a_verdict_or_with_its_run(
    journals,
):
    """Others see at their next look that a verdict is there, or that the run has closed its
    journal.
    """
    one, two = journals
    assert await one.claims.take(KEY)
    assert await one.claims.take(OTHER)
    await one.record(KEY, "m", Outcome(Verdict(4, 2, 2)))
    assert not two.claims.is_taken(KEY)
    assert two.claims.is_taken(OTHER)
    one.close()
    assert await two.claims.take(OTHER)


@pytest.mark.parametrize(
    "by_s", [claims.EXPIRY_S + 1, -86_400.0], ids=["expired", "from before a restart"]
)
async def test_a_claim_that_is_not_renewed_is_free(journals, by_s):
    """A killed run, or one before the machine was restarted, keeps nothing from the others."""
    one, two = journals
    assert await one.claims.take(KEY)
    age_claims(one, by_s)
    assert not two.claims.is_taken(KEY)
    assert await two.claims.take(KEY)


@pytest.mark.slow
async def test_a_claim_is_renewed_while_it_is_held(journals):
    """A call may take longer than a claim lasts; what was given back is free after the next
    renewal.
    """
    one, two = journals
    assert await one.claims.take(KEY)
    assert await one.claims.take(OTHER)
    one.claims.give_back(OTHER)
    await asyncio.sleep(claims.EXPIRY_S + 1)
    assert two.claims.is_taken(KEY)
    assert not two.claims.is_taken(OTHER)


def share(judge_server, path, runs, pairs):
    """Let several runs with a journal each, all of the same file, ask the same at the same time."""
    shared = []

    async def run(journal):
        async with open_judge(judge_server.base_url, journal=journal) as opened:
            await opened.ask_all(range(pairs))
            shared.append(opened)

    async def run_all():
        with ExitStack() as stack:
            await asyncio.gather(
                *(run(stack.enter_context(Journal(str(path)))) for _ in range(runs))
            )

    asyncio.run(run_all())
    return shared


@pytest.mark.slow
def test_what_another_run_failed_at_is_asked_again(judge_server, tmp_path):
    """A run that waited for another one's verdict asks itself when that one gets none."""
    judge_server.behave(script=[{"status": 400}], latency_s=0.05)
    shared = share(judge_server, tmp_path / "j.sqlite", runs=2, pairs=1)
    assert judge_server.stats()["requests"] == 2
    assert sorted(str(*opened.kinds()) for opened in shared) == ["None", "refused"]


def test_nobody_waits_longer_than_a_call_may_take(judge_server, journals):
    """A run whose questions are claimed by one that never answers asks them itself after the call
    timeout.
    """
    one, two = journals

    async def use(opened):
        assert opened.journaled is not None
        request = opened.remote._trial
        assert await one.claims.take(request.key)
        slot = await opened.journaled.admit()
        assert slot is not None
        outcome = await opened.journaled.ask(request, slot)
        assert isinstance(outcome.result, Verdict)
        assert verdict_in(one, request.key) is not None

    opened = with_judge(use, judge_server.base_url, journal=two, call_timeout_s=0.5)
    assert opened.budget.calls == judge_server.stats()["requests"] == 1
