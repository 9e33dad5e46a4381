"""The scored lines and the comparisons of a served group."""

from collections.abc import Sequence
from typing import Any

import orjson

from genrm_cli.groups.plan import GroupPlan
from genrm_cli.groups.results import GroupRewards
from genrm_cli.rollouts.formats import Score, recognise
from genrm_cli.scored.lines import comparison_json, scored_line
from genrm_cli.serve.cohorts.cohort import Member
from genrm_cli.storage.encoding.records import render_record

_OF_COMPARE = "response_objs"


def scored_lines(members: Sequence[Member], rewards: GroupRewards, plan: GroupPlan) -> bytes:
    """Return the lines of a group in its order, each with its reward; a compare request is one line."""
    scores = [scored_line(score, rewards, plan).as_score() for score in rewards.scores]
    if members and isinstance(members[0].line.get(_OF_COMPARE), dict):  # one response of a compare request
        whole = {**members[0].line, _OF_COMPARE: [member.line[_OF_COMPARE] for member in members]}
        return _annotated(whole, scores)
    return b"".join(_annotated({**member.line}, [score]) for member, score in zip(members, scores, strict=True))


def _annotated(line: dict[str, Any], scores: Sequence[Score]) -> bytes:
    recognise(line).annotate(line, scores)
    return render_record(line)


def comparison_lines(rewards: GroupRewards, plan: GroupPlan) -> bytes:
    """Return the lines of a group in the comparisons file."""
    return b"".join(
        orjson.dumps(comparison_json(each, with_reply=plan.keep_replies), option=orjson.OPT_APPEND_NEWLINE)
        for each in rewards.comparisons
    )
