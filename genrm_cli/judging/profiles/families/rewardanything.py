"""RewardAnything: one call scores and orders all responses of a group."""

import itertools
import math
from functools import partial

from genrm_cli.judging.profiles.answer import (
    THINK,
    Answer,
    Carrier,
    excerpt,
    make_failure,
    open_thought,
    parse_answer,
    pick_own,
)
from genrm_cli.judging.profiles.json_objects import Pairs, iter_objects, key_form, text_without
from genrm_cli.judging.profiles.profile import THINKING, ChatMessage, GradingProfile
from genrm_cli.judging.profiles.prompt import render_listwise
from genrm_cli.judging.requests import ListwisePrompt, Reply
from genrm_cli.verdicts import MAX_SCORE, MIN_SCORE, Failure, FailureKind, Grades

_KEYS = ("scores", "best-to-worst")
_CLOSING = """\
Judge how well each response follows the evaluation plan, and only that. Score each from 1 (very \
poor) to 5 (excellent), and order them from best to worst. Answer with one JSON object in this \
form, with every response in both of its parts, and nothing after it:
"""


def _names(prompt: ListwisePrompt) -> list[str]:
    return [f"model-{number}" for number in range(1, len(prompt.responses) + 1)]


def _render_messages(prompt: ListwisePrompt) -> list[ChatMessage]:
    names = _names(prompt)  # all of them: small judges copy the form literally
    scores = ", ".join(f'"{name}": <1 to 5>' for name in names)
    order = ", ".join(f'"<{name} or another>"' for name in names)
    form = f'{{"scores": {{{scores}}}, "best-to-worst": [{order}]}}'
    return render_listwise(prompt, names, _CLOSING + form)


def _parse_reply(reply: Reply, prompt: ListwisePrompt) -> Grades | Failure:
    return parse_answer(reply, prompt, partial(_read, _names(prompt)))


def _read(names: list[str], answer: Answer) -> Grades | Failure:
    objects = list(iter_objects(answer.text, _KEYS))
    if THINK in text_without(
        answer.text, [found for found in objects if _values_of("scores", found.pairs)]
    ):
        return open_thought()
    own = pick_own(answer, _find_scores(names, answer.text))
    if own is None:
        return make_failure(
            FailureKind.NO_VERDICT, f"no object with scores; ends with {excerpt(answer.text[-40:])}"
        )
    if isinstance(own, Failure):
        return own
    torn = (found for found in objects if found.pairs is None and found.start > own.start)
    if any(answer.text.find('"scores"', found.start, found.end) >= 0 for found in torn):
        return make_failure(FailureKind.AMBIGUOUS, "scores, then others that cannot be read")
    return own.result


def _find_scores(names: list[str], text: str) -> list[Carrier[Grades]]:
    return [
        Carrier(found.start, found.end, _read_object(names, found.pairs))
        for found in iter_objects(text, _KEYS)
        if found.pairs is not None and _values_of("scores", found.pairs)
    ]


def _read_object(names: list[str], pairs: Pairs) -> Grades | Failure:
    given = [_read_scores(names, scores) for scores in _values_of("scores", pairs)]
    grades = given[-1]
    if isinstance(grades, Failure):
        return grades
    if any(other != grades for other in given):
        return make_failure(FailureKind.AMBIGUOUS, "scores are given more than once, and differ")
    contradictions = (
        _contradiction(names, grades, order) for order in _values_of("best-to-worst", pairs)
    )
    return next(filter(None, contradictions), grades)


def _values_of(key: str, pairs: Pairs | None) -> list[object]:
    return [value for name, value in pairs or () if name == key]


def _read_scores(names: list[str], scores: object) -> Grades | Failure:
    if not isinstance(scores, tuple) or sorted(str(name) for name, _ in _pairs(scores)) != sorted(
        names
    ):
        return make_failure(
            FailureKind.NO_VERDICT, f"the scores are not one each for {names[0]} to {names[-1]}"
        )
    values = {str(name): value for name, value in _pairs(scores)}
    ordered = [values[name] for name in names]
    numbers = [value for value in ordered if isinstance(value, float) and math.isfinite(value)]
    if len(numbers) != len(names):
        return make_failure(FailureKind.NO_VERDICT, "a score is not a number")
    if not all(MIN_SCORE <= number <= MAX_SCORE for number in numbers):
        return make_failure(
            FailureKind.OUT_OF_RANGE, f"a score is not within {MIN_SCORE:g} to {MAX_SCORE:g}"
        )
    return Grades(tuple(numbers))


def _pairs(members: tuple[object, ...]) -> Pairs:
    return tuple(member for member in members if isinstance(member, tuple) and len(member) == 2)


def _contradiction(names: list[str], grades: Grades, order: object) -> Failure | None:
    """Return a failure if the order is invalid or puts a response before one with a higher
    score.
    """
    if order is None:
        return None
    ordered_names = (
        order if isinstance(order, list) and all(isinstance(name, str) for name in order) else []
    )
    if sorted(ordered_names) != sorted(names):
        return make_failure(
            FailureKind.NO_VERDICT, "best-to-worst does not name each response once"
        )
    ordered = [grades.values[names.index(name)] for name in ordered_names]
    if any(after > before for before, after in itertools.pairwise(ordered)):
        return make_failure(FailureKind.AMBIGUOUS, "scores and best-to-worst contradict each other")
    return None


PROFILE = GradingProfile(
    name="rewardanything",
    models=("rewardanything*",),
    version=2,
    about="RewardAnything, all responses of a group in one call; scores 1 to 5, unchanged",
    request_fields=THINKING,
    takes_reference=True,
    render_messages=_render_messages,
    parse_reply=_parse_reply,
    verdict_forms=(key_form((*_KEYS, r"model-\d+")),),
    whole_group=True,
)
