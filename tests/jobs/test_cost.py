"""What a run will cost, before it is paid for."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.jobs.cost import ASSUMED_REPLY_TOKENS, cost_of_run
from genrm_cli.judging.journal import Journal
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.settings import settings_from
from genrm_cli.verdicts import Outcome, Verdict


def plan(planned: int, known: int = 0, chars: int = 0, journal: Journal | None = None, **given: Any) -> dict[str, Any]:
    """Plan a run with these counts."""
    return cost_of_run(RunMetrics(planned=planned, known=known, prompt_chars=chars), settings_from(**given), journal)


def test_tokens_are_estimated_from_text_lengths() -> None:
    """Until a judge has told, four characters are a token, and a reply is that of a judge that reasons."""
    assert plan(100, chars=600_000) == {
        "planned": 100, "known": 0, "calls": 100, "tokens_in": 150_000,
        "tokens_out": 100 * ASSUMED_REPLY_TOKENS, "tokens_from": "text lengths, 1,500 a reply", "cost": None,
    }  # fmt: skip


def test_the_instructions_of_a_profile_are_read_with_every_call(tmp_path: Path) -> None:
    """What a profile adds to the texts counts once for each call."""
    own = tmp_path / "long.toml"
    own.write_text(
        f'[[messages]]\nrole = "user"\ncontent = "{"judge " * 500}{{response_1}}{{response_2}}"\n'
        '[verdict]\npattern = \'(?P<label>[AB])\'\nlabels = { A = "better", B = "worse" }\n'
    )
    metrics = RunMetrics(planned=100, planned_calls=100, prompt_chars=80_000)
    settings = settings_from(model="m", profile=str(own))
    assert cost_of_run(metrics, settings, None)["tokens_in"] == (80_000 + 100 * 3_000) / 4


def test_a_reply_is_no_longer_than_the_profile_allows(tmp_path: Path) -> None:
    """`max_tokens` of a profile's `[request]` limits the estimate, and --max-reply-tokens overrides it."""
    own = tmp_path / "terse.toml"
    own.write_text(
        '[request]\nmax_tokens = 12\n[[messages]]\nrole = "user"\ncontent = "{response_1} {response_2}"\n'
        '[verdict]\npattern = \'(?P<label>[AB])\'\nlabels = { A = "better", B = "worse" }\n'
    )
    given: dict[str, Any] = {"model": "m", "profile": str(own)}
    assert plan(100, **given)["tokens_out"] == 1_200
    assert plan(100, max_reply_tokens=40, **given)["tokens_out"] == 4_000


def test_only_what_is_left_is_estimated() -> None:
    """Comparisons that the journal knows cost nothing: of the texts only the share that is left counts."""
    left = plan(100, known=75, chars=600_000)
    assert (left["calls"], left["tokens_in"], left["tokens_out"]) == (25, 37_500, 25 * ASSUMED_REPLY_TOKENS)


@pytest.mark.parametrize("planned", [0, 50])
def test_nothing_left_costs_nothing(planned: int) -> None:
    """An input without comparisons, or with all of them in the journal, needs no call, no token and no money."""
    nothing = plan(planned, known=planned, chars=1_000, price_in=5.0, price_out=5.0)
    assert [nothing[name] for name in ("calls", "tokens_in", "tokens_out", "cost")] == [0, 0, 0, 0]


def test_prices_make_a_cost() -> None:
    """A million tokens in at 2 and 150,000 out at 10 are 3.50; one price alone is enough."""
    assert plan(100, chars=4_000_000, price_in=2.0, price_out=10.0)["cost"] == 3.5
    assert plan(100, chars=4_000_000, price_in=2.0)["cost"] == 2.0


def test_the_journal_knows_better(tmp_path: Path) -> None:
    """As soon as there are verdicts whose server counted tokens, their mean is the estimate."""

    async def record() -> None:
        outcomes = [Outcome(Verdict(3, 3, 3), prompt_tokens=1000, completion_tokens=tokens) for tokens in (200, 400)]
        uncounted = Outcome(Verdict(3, 3, 3))
        await asyncio.gather(
            *(journal.record(bytes([n]), "m", outcome) for n, outcome in enumerate([*outcomes, uncounted]))
        )

    with Journal(str(tmp_path / "run.sqlite")) as journal:
        assert plan(10, chars=4_000, journal=journal)["tokens_from"].startswith("text lengths")
        asyncio.run(record())
        known = plan(10, known=3, chars=4_000, journal=journal, price_out=1000.0)
    assert known["tokens_from"] == "the journal"
    assert (known["calls"], known["tokens_in"], known["tokens_out"], known["cost"]) == (7, 7_000, 2_100, 2.1)


@given(st.integers(0, 10**6), st.floats(0, 1), st.integers(0, 10**9))
def test_estimates_grow_with_what_is_left(planned: int, share: float, chars: int) -> None:
    """Knowing more never makes a run dearer, and no estimate is negative."""
    known = int(share * planned)
    all_left, some_left = plan(planned, 0, chars), plan(planned, known, chars)
    for name in ("calls", "tokens_in", "tokens_out"):
        assert 0 <= some_left[name] <= all_left[name]
