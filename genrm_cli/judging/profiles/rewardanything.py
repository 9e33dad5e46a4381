"""RewardAnything: all responses of a group in one call, a score for each, and their order."""

import itertools
import math
from functools import partial

from genrm_cli.judging.profiles.answer import excerpt, make_failure, parse_answer
from genrm_cli.judging.profiles.json_objects import Pairs, iter_objects
from genrm_cli.judging.profiles.profile import GradingProfile, Message
from genrm_cli.judging.profiles.sampling import THINKING
from genrm_cli.judging.profiles.sections import render_lineup
from genrm_cli.judging.verdict import MAX_SCORE, MIN_SCORE, Failure, FailureKind, Grades, Lineup, Reply

_KEYS = ("scores", "best-to-worst")
_CLOSING = """\
Judge how well each response follows the evaluation plan, and only that. Score each from 1 (very poor) to 5 \
(excellent), and order them from best to worst. Answer with one JSON object in this form, with every response in \
both of its parts, and nothing after it:
{"scores": {"model-1": 4, "model-2": 2}, "best-to-worst": ["model-1", "model-2"]}"""


def _names(lineup: Lineup) -> list[str]:
    return [f"model-{number}" for number in range(1, len(lineup.responses) + 1)]


def _render_messages(lineup: Lineup) -> list[Message]:
    return render_lineup(lineup, _names(lineup), _CLOSING)


def _parse_reply(reply: Reply, lineup: Lineup) -> Grades | Failure:
    return parse_answer(reply, partial(_read, _names(lineup)))


def _read(names: list[str], answer: str, cut_off: bool) -> Grades | Failure:
    del cut_off  # an object that is closed is complete
    found = [dict(found.pairs) for found in iter_objects(answer, _KEYS) if found.pairs is not None]
    objects = [members for members in found if "scores" in members]
    if not objects:
        return make_failure(FailureKind.NO_VERDICT, f"no object with scores; ends with {excerpt(answer[-40:])}")
    grades = _read_scores(names, objects[-1]["scores"])
    if isinstance(grades, Failure):
        return grades
    if any(_read_scores(names, other["scores"]) not in (grades, None) for other in objects):
        return make_failure(FailureKind.AMBIGUOUS, "two objects with scores, which differ")
    return _contradiction(names, grades, objects[-1].get("best-to-worst")) or grades


def _read_scores(names: list[str], scores: object) -> Grades | Failure:
    if not isinstance(scores, tuple) or sorted(str(name) for name, _ in _pairs(scores)) != sorted(names):
        return make_failure(FailureKind.NO_VERDICT, f"the scores are not one each for {names[0]} to {names[-1]}")
    values = {str(name): value for name, value in _pairs(scores)}
    numbers = [value for name in names if isinstance(value := values[name], float) and math.isfinite(value)]
    if len(numbers) != len(names):
        return make_failure(FailureKind.NO_VERDICT, "a score is not a number")
    if not all(MIN_SCORE <= number <= MAX_SCORE for number in numbers):
        return make_failure(FailureKind.OUT_OF_RANGE, f"a score is not within {MIN_SCORE:g} to {MAX_SCORE:g}")
    return Grades(tuple(numbers))


def _pairs(members: tuple[object, ...]) -> Pairs:
    return tuple(member for member in members if isinstance(member, tuple) and len(member) == 2)


def _contradiction(names: list[str], grades: Grades, order: object) -> Failure | None:
    """Look for a response that is ordered before one with a higher score, or an order that is none."""
    if order is None:
        return None
    if not isinstance(order, list) or sorted(map(str, order)) != sorted(names):
        return make_failure(FailureKind.NO_VERDICT, "best-to-worst does not name each response once")
    ordered = [grades.values[names.index(str(name))] for name in order]
    if any(after > before for before, after in itertools.pairwise(ordered)):
        return make_failure(FailureKind.AMBIGUOUS, "scores and best-to-worst contradict each other")
    return None


PROFILE = GradingProfile(
    name="rewardanything",
    version=1,
    about="RewardAnything, all responses of a group in one call; scores 1 to 5 as they are",
    request_fields=THINKING,
    render_messages=_render_messages,
    parse_reply=_parse_reply,
    whole_group=True,
)
