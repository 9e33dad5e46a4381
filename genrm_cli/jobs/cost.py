"""What a run will cost, before it is paid for."""

from typing import Any

from genrm_cli.judging.journal import Journal
from genrm_cli.judging.pacing.budget import cost_of
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.settings import Settings

CHARS_PER_TOKEN = 4
ASSUMED_REPLY_TOKENS = 1_500  # a reasoning judge; what its own replies take is used as soon as the journal knows


def plan_of(tally: RunMetrics, settings: Settings, journal: Journal | None) -> dict[str, Any]:
    """Return the calls, tokens and cost that a run still has before it.

    A judge that is asked in two turns takes two calls. Tokens are estimates: 4 characters of conversation and
    responses a token, and for replies the mean of the journal, else 1,500 a call, or as many as a reply may have.
    Re-askings are not foreseen. `cost` is null without prices.
    """
    left = tally.planned - tally.known
    share = left / tally.planned if tally.planned else 0.0
    calls = round(share * max(tally.planned, tally.planned_calls))  # of a panel, as if all judges had as much left
    a_reply = min(ASSUMED_REPLY_TOKENS, settings.judge.max_reply_tokens or ASSUMED_REPLY_TOKENS)
    means = journal.mean_tokens() if journal is not None else None
    if means is not None:
        tokens_in, tokens_out = means[0] * left, means[1] * left
    else:
        tokens_in = tally.exhibit_chars / CHARS_PER_TOKEN * share
        tokens_out = float(a_reply * calls)
    priced = settings.limits.price_in or settings.limits.price_out
    return {
        "planned": tally.planned,
        "known": tally.known,
        "calls": calls,
        "tokens_in": round(tokens_in),
        "tokens_out": round(tokens_out),
        "tokens_from": "the journal" if means is not None else f"text lengths, {a_reply:,} a reply",
        "cost": round(cost_of(tokens_in, tokens_out, settings.limits.price_in, settings.limits.price_out), 4)
        if priced
        else None,
    }
