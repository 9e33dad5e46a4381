"""Render answers as JSON."""

from typing import Any

from genrm_cli.groups.records import outcome_record
from genrm_cli.groups.results import ComparisonResult, RolloutScore
from genrm_cli.serve.answers import GroupAnswer

Json = dict[str, Any]


def response_record(id_: str, score: RolloutScore, answer: GroupAnswer) -> Json:
    """Return what a member is told about its own reward."""
    record: Json = {
        "id": id_,
        "reward": score.reward,
        "status": score.status,
        "reason": score.reason,
        "reason_text": score.reason_text,
        "base_score": score.numbers.base_score,
        "standard_error": score.standard_error,
        "advantage": score.numbers.advantage,
        "rank": score.numbers.rank,
        "comparisons": score.comparisons,
        "failed": score.failed,
    }
    if answer.rewards.columns:
        values = {name: column.values[score.index] for name, column in answer.rewards.columns.items()}
        record["components"] = values
    return record


def comparison_record(comparison: ComparisonResult, answer: GroupAnswer) -> Json:
    """Return one request about a group, its members by id."""
    shown = [answer.ids[index] for index in comparison.shown]
    record: Json = {"shown": shown, "repeat": comparison.repeat, "judge": comparison.judge}
    if comparison.component is not None:
        record["component"] = comparison.component
    return record | outcome_record(comparison.outcome, comparison.verdict)
