"""Scored lines and comparison records as JSON."""

from collections.abc import Sequence

from genrm_cli.groups.line_records import ComparisonRecord, ScoredLine
from genrm_cli.groups.plan import RewardPlan
from genrm_cli.json_types import Record
from genrm_cli.rollouts.formats import Score
from genrm_cli.scored.json_form import to_json


def line_json(line: ScoredLine, rewards: RewardPlan) -> Record:
    """Return a scored line as JSON, with its reward."""
    written = to_json(line)
    # A reward of one part explains itself, unless a gate replaced it.
    if line.total is not None and rewards.settings.total is None and not line.total.gated_by:
        del written["total"]
    return written


def scores_of(lines: Sequence[ScoredLine], rewards: RewardPlan) -> list[Score]:
    """Return rewards and `genrm` objects, as formats write them into lines."""
    return [score_of(line_json(line, rewards)) for line in lines]


def score_of(written: Record) -> Score:
    """Return the reward and the `genrm` object of a scored line as JSON."""
    # Formats decide where a line has its reward; it stands once in a line.
    return Score(written.pop("reward"), written)


def comparison_json(comparison: ComparisonRecord, *, with_reply: bool) -> Record:
    """Return one line of the comparisons file as JSON; with replies, a request without one has
    `null`.
    """
    return ({"reply": None} if with_reply else {}) | to_json(comparison)
