"""Render answers as JSON."""

from genrm_cli.groups.results import ComparisonResult, RolloutScore
from genrm_cli.scored.json_form import Json, to_json
from genrm_cli.scored.lines import outcome_record, result_of
from genrm_cli.serve.answers import GroupAnswer


def response_record(id_: str, score: RolloutScore, answer: GroupAnswer) -> Json:
    """Return the result of a member, as in its scored line."""
    return {"id": id_, **to_json(result_of(score, answer.rewards))}


def comparison_record(comparison: ComparisonResult, answer: GroupAnswer) -> Json:
    """Return one request about a group, its members by id."""
    shown = [answer.ids[index] for index in comparison.shown]
    record: Json = {"shown": shown, "repeat": comparison.repeat, "judge": comparison.judge}
    if comparison.component is not None:
        record["component"] = comparison.component
    return record | to_json(outcome_record(comparison.outcome, comparison.verdict))
