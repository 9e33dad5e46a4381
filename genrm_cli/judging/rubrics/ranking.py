"""Ranked rubrics: a judge sorts the responses of a group into tiers, best first, in one call."""

from collections.abc import Sequence
from functools import partial

from genrm_cli.judging.profiles.answer import excerpt, make_failure, parse_decimal
from genrm_cli.judging.profiles.json_objects import Pairs
from genrm_cli.judging.profiles.profile import GradingProfile, Message
from genrm_cli.judging.requests import ListwisePrompt, Reply
from genrm_cli.judging.rubrics.graded import (
    SESSION,
    find_intruder,
    find_member,
    find_miscount,
    parse_object,
    render_graded,
    request_object,
)
from genrm_cli.judging.rubrics.rubric_sets import Rubric, RubricSet
from genrm_cli.verdicts import Failure, FailureKind, Grades

FORM_VERSION = 2
"""Increased whenever the prompt or its parsing changes, for any set."""

_TASK = f"""\
You are an impartial judge. Below are a conversation between a user and an assistant, and several responses to it, \
numbered from 0. Rank the responses by the evaluation plan. Their numbers, their length and their confidence are not \
merits.

{SESSION} If there is a BACKGROUND, it says what the responses were to achieve and to keep to."""
_PLAN = "Weigh these together. Responses between which you see no difference that matters are equal."
_CLOSING = """\
Sort all {count} responses into tiers, the best first; responses that are equal share a tier, and each number \
stands in exactly one tier. Answer with one JSON object in this form and nothing else:
{{"reasoning": "<why, in brief>", "tiers": [[<numbers of the best>], [<numbers of the next>], ...]}}"""
_TIERS = {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}


def ranking_profile(rubric_set: RubricSet) -> GradingProfile:
    """Make the profile that ranks the responses of a group by all rubrics of a set together.

    Prompts hold the non-empty responses, shuffled by the caller. Grades have one value per response, in the order
    shown, 0 to 1 with 1 the best; the mean is 0.5.
    """
    return GradingProfile(
        name=f"rubric-rank-{rubric_set.name}",
        version=rubric_set.version + FORM_VERSION - 1,
        about=f"all responses of a group ranked in one call; {rubric_set.about}",
        request_fields=request_object("ranking", {"reasoning": {"type": "string"}, "tiers": _TIERS}),
        render_messages=partial(_render_messages, rubric_set),
        parse_reply=_parse_reply,
        whole_group=True,
    )


def grades_of_single() -> Grades:
    """Return the grade of a single response, for which no judge is asked: 1."""
    return Grades(values_of_tiers([[0]]))


def values_of_tiers(tiers: Sequence[Sequence[int]]) -> tuple[float, ...]:
    """Return the values of responses 0 to m - 1 from their tiers, best first; 1 for a sole response.

    Source: 1 - p / (m - 1), p the mean of the ranks (from 0) that the tier occupies.
    """
    count = sum(map(len, tiers))
    values = [1.0] * count
    before = 0
    for tier in tiers:
        for index in tier:
            values[index] = 1.0 - (before + (len(tier) - 1) / 2) / max(count - 1, 1)
        before += len(tier)
    return tuple(values)


def _render_messages(rubric_set: RubricSet, prompt: ListwisePrompt) -> list[Message]:
    plan = "\n\n".join([*map(_render_rubric, rubric_set.rubrics), _PLAN])
    return render_graded(prompt, _TASK, plan, _CLOSING.format(count=len(prompt.responses)))


def _render_rubric(rubric: Rubric) -> str:
    direction = "more of it is better" if rubric.positive else "less of it is better"
    return f"{rubric.title} ({direction})\n{rubric.description}"


def _parse_reply(reply: Reply, prompt: ListwisePrompt) -> Grades | Failure:
    return parse_object(reply, prompt, ("tiers",), (), partial(_read_tiers, len(prompt.responses)))


def _read_tiers(count: int, pairs: Pairs) -> Grades | Failure:
    if intruder := find_intruder(pairs, ("tiers",), ()):
        return intruder
    tiers = find_member(pairs, "tiers", list)
    if isinstance(tiers, Failure):
        return tiers
    read: list[list[float]] = []
    for tier in tiers:
        numbers = _read_tier(tier)
        if numbers is None:
            return make_failure(FailureKind.NO_VERDICT, f"a tier is not a list of numbers: {excerpt(tier)}")
        read.append(numbers)
    if miscount := find_miscount([index for tier in read for index in tier], count):
        return miscount
    return Grades(values_of_tiers([[int(index) for index in tier] for tier in read]))


def _read_tier(tier: object) -> list[float] | None:
    if not isinstance(tier, list):
        return None
    numbers = [parse_decimal(index) if isinstance(index, str) else index for index in tier]
    read = [number for number in numbers if isinstance(number, float)]
    return read if len(read) == len(numbers) else None
