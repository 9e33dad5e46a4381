"""What a run will cost, before it is paid for."""

import asyncio
from dataclasses import replace

import pytest

from genrm_cli.jobs.context import new_run
from genrm_cli.jobs.estimate import (
    ASSUMED_REPLY_TOKENS,
    RunEstimate,
    estimate_rest,
)
from genrm_cli.judging.journal import Journal
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.settings import settings_from
from genrm_cli.verdicts import Outcome, Verdict


def estimate(metrics, journal=None, **settings):
    """Estimate a run with these counts."""
    return estimate_rest(
        replace(new_run(settings_from(**{"model": "m"} | settings)), metrics=metrics), journal
    )


def plan(planned, known=0, chars=0, journal=None, **settings):
    """Estimate a run of which this many requests are known, with instructions of no length."""
    metrics = RunMetrics(comparisons_planned=planned, known=known, prompt_chars=chars)
    return estimate(metrics, journal, **settings)


@pytest.fixture
def journal(tmp_path):
    """Open a journal of three verdicts: two of a server that counts tokens, and one of a server
    that does not.
    """
    outcomes = [
        Outcome(Verdict(3, 3, 3), prompt_tokens=1000, completion_tokens=200, latency_s=2.0),
        Outcome(Verdict(3, 3, 3), prompt_tokens=1000, completion_tokens=400, latency_s=3.0),
        Outcome(Verdict(3, 3, 3), latency_s=4.0),
    ]

    async def record():
        await asyncio.gather(
            *(journal.record(bytes([n]), "m", outcome) for n, outcome in enumerate(outcomes))
        )

    with Journal(str(tmp_path / "run.sqlite")) as journal:
        asyncio.run(record())
        yield journal


def test_tokens_are_estimated_from_text_lengths():
    """Without verdicts, four characters are a token, and a reply is that of a judge that
    reasons.
    """
    assert plan(100, chars=600_000) == RunEstimate(
        planned=100,
        calls=100,
        most_calls=200,
        tokens_in=150_000,
        tokens_out=100 * ASSUMED_REPLY_TOKENS,
        tokens_from="text lengths, 1,500 a reply",
        cost=None,
    )


def own_profile(path, content, request=""):
    """Write a profile with one message."""
    path.write_text(
        f'{request}[[messages]]\nrole = "user"\ncontent = "{content}{{response_1}}{{response_2}}"\n'
        '[verdict]\npattern = \'(?P<label>[AB])\'\nlabels = { A = "better", B = "worse" }\n'
    )
    return str(path)


def test_a_reply_is_no_longer_than_the_profile_allows(tmp_path):
    """`max_tokens` of a profile's `[request]` limits the estimate, and --max-reply-tokens overrides
    it.
    """
    profile = own_profile(tmp_path / "terse.toml", "", "[request]\nmax_tokens = 12\n")
    assert plan(100, profile=profile).tokens_out == 1_200
    assert plan(100, profile=profile, max_reply_tokens=40).tokens_out == 4_000


def test_only_what_is_left_is_estimated():
    """Comparisons that the journal knows cost nothing: of the texts only the share that is left
    counts.
    """
    left = plan(100, known=75, chars=600_000)
    assert left.calls == 25
    assert left.tokens_in == 37_500
    assert left.tokens_out == 25 * ASSUMED_REPLY_TOKENS


def test_prices_make_a_cost():
    """A million tokens in at 2 and 150,000 out at 10 are 3.50; one price alone is enough."""
    assert plan(100, chars=4_000_000, price_in=2.0, price_out=10.0).cost == 3.5
    assert plan(100, chars=4_000_000, price_in=2.0).cost == 2.0


def test_the_journal_knows_better(journal):
    """As soon as there are verdicts whose server counted tokens, their mean is the estimate."""
    known = plan(10, known=3, chars=4_000, journal=journal, price_out=1000.0)
    assert known.tokens_from == "the journal"
    assert known.calls == 7
    assert known.tokens_in == 7_000
    assert known.tokens_out == 2_100
    assert known.cost == 2.1
