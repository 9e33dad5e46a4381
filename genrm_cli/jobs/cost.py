"""Estimate the cost of a run before it is paid for."""

from typing import Any

from genrm_cli.groups.check import judge_specs
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.pacing.policy import cost_of
from genrm_cli.judging.profiles.profile import GradingProfile, Profile, render_messages
from genrm_cli.judging.requests import ListwisePrompt, PairwisePrompt, Prompt
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.settings import Settings

LARGE_GROUP = 100_000
"""Comparisons of one group above which a user should reconsider the plan."""
CHARS_PER_TOKEN = 4
_NOTHING_SHOWN: dict[type, Prompt] = {
    Profile: PairwisePrompt([("user", "")], "", ""),
    GradingProfile: ListwisePrompt([("user", "")], ("",)),
}
ASSUMED_REPLY_TOKENS = 1_500  # of a reasoning judge; replaced by the journal's mean


def cost_of_run(metrics: RunMetrics, settings: Settings, journal: Journal | None) -> dict[str, Any]:
    """Return the calls, tokens and cost that remain, JSON-ready.

    A judge with two turns takes two calls. Tokens are estimates: 4 characters of the prompts a token, and for
    replies the mean of the journal, else 1,500 a call, or less where the settings or the profile limit a
    reply. Retries are not included.
    `cost` is null without prices.
    """
    left = metrics.planned - metrics.known
    share = left / metrics.planned if metrics.planned else 0.0
    calls = max(metrics.planned, metrics.planned_calls) - max(metrics.known, metrics.known_calls)
    a_reply = _reply_tokens(settings)
    means = journal.mean_tokens() if journal is not None else None
    if means is not None:
        tokens_in, tokens_out = means[0] * left, means[1] * left
    else:
        chars = metrics.prompt_chars + metrics.planned_calls * _instruction_chars(settings)
        tokens_in = chars / CHARS_PER_TOKEN * share
        tokens_out = float(a_reply * calls)
    priced = settings.limits.price_in or settings.limits.price_out
    return {
        "planned": metrics.planned,
        "known": metrics.known,
        "calls": calls,
        "tokens_in": round(tokens_in),
        "tokens_out": round(tokens_out),
        "tokens_from": "the journal" if means is not None else f"text lengths, {a_reply:,} a reply",
        "cost": round(cost_of(tokens_in, tokens_out, settings.limits.price_in, settings.limits.price_out), 4)
        if priced
        else None,
    }


def _instruction_chars(settings: Settings) -> float:
    """Return the characters that profiles add to a conversation and responses; the mean over several judges."""
    profiles = [spec.profile for spec in judge_specs(settings) if spec.profile is not None]
    added = [
        sum(len(message["content"]) for message in render_messages(profile, _NOTHING_SHOWN[type(profile)]))
        for profile in profiles
        if type(profile) in _NOTHING_SHOWN
    ]
    return sum(added) / len(added) if added else 0.0


def _reply_tokens(settings: Settings) -> int:
    """Return the assumed tokens of a reply, no more than a judge may write; the mean over several judges."""
    limits = [
        spec.config.judge.max_reply_tokens or spec.profile.request_fields.get("max_tokens")
        for spec in judge_specs(settings)
        if spec.profile is not None
    ]
    tokens = [min(ASSUMED_REPLY_TOKENS, limit) for limit in limits if isinstance(limit, int)]
    assumed = [*tokens, *[ASSUMED_REPLY_TOKENS] * (len(limits) - len(tokens))]
    return round(sum(assumed) / len(assumed)) if assumed else ASSUMED_REPLY_TOKENS
