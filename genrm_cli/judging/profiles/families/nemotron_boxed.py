r"""NVIDIA's Llama 3.3 Nemotron Super 49B GenRM: two roles, and numbers in `\boxed{}` between fences
of words.

Its model card has no role for a principle, and a chat template may drop an unknown role, so the
principle goes into the system turn. Its sampling is not published, so the server chooses the
temperature."""

import re
from functools import partial
from types import MappingProxyType

from genrm_cli.judging.profiles.answer import (
    Answer,
    Carrier,
    excerpt,
    make_failure,
    parse_decimal,
    parse_prose,
    pick_own,
)
from genrm_cli.judging.profiles.families import nemotron
from genrm_cli.judging.profiles.profile import ChatMessage, Profile
from genrm_cli.judging.requests import PairwisePrompt
from genrm_cli.verdicts import (
    MAX_RANKING,
    MAX_SCORE,
    MIN_RANKING,
    MIN_SCORE,
    Failure,
    FailureKind,
    Verdict,
)

_PRINCIPLE = "Judge the responses by this principle:\n"
# A fence ends at the next one: a number is complete even if the judge forgets to close its fence.
_FENCED = r"\[The Begin of {}\](.*?)(?=\[The (?:Begin|End) of |\Z)"
_SCORES = re.compile(_FENCED.format("Individual Scores?"), re.DOTALL)
RANKING = re.compile(_FENCED.format("Ranking Scores?"), re.DOTALL)
_BOX = re.compile(r"\\boxed\{([^{}]{0,60})\}")
FENCES = r"\[The (?:Begin|End) of [A-Za-z ]{0,40}\]"
# Only what can be a verdict: most answers to mathematical questions are boxed numbers.
_NUMBER = r"\s*\+?0*[1-6](?:\.[0-9]{0,9})?\s*"
_FORMS = (FENCES, rf"\\boxed\s*\{{{_NUMBER}(?:,{_NUMBER})?\}}")

_Numbers = tuple[float, ...]


def _render_messages(prompt: PairwisePrompt) -> list[ChatMessage]:
    history = list(prompt.conversation)
    if prompt.principle is not None:
        system = _PRINCIPLE + prompt.principle
        if history and history[0][0] in ("system", "developer"):
            system += "\n\n" + history.pop(0)[1]
        history.insert(0, ("system", system))
    return nemotron.render_messages(PairwisePrompt(history, prompt.response_1, prompt.response_2))


def _read(answer: Answer) -> Verdict | Failure:
    scores = read_boxes(answer, _SCORES, "Individual Scores", 2, (MIN_SCORE, MAX_SCORE))
    if isinstance(scores, Failure):
        return scores
    ranking = read_boxes(answer, RANKING, "Ranking Score", 1, (MIN_RANKING, MAX_RANKING))
    return ranking if isinstance(ranking, Failure) else Verdict(scores[0], scores[1], ranking[0])


def read_boxes(
    answer: Answer, fenced: re.Pattern[str], title: str, count: int, bounds: tuple[float, float]
) -> _Numbers | Failure:
    """Parse the last box in the last fence with this title. The judge's other boxes in such fences
    must agree.
    """
    *_, last = [None, *fenced.finditer(answer.text)]
    if last is None or not _BOX.search(last[1]):
        end = excerpt(answer.text[-40:])
        return make_failure(
            FailureKind.NO_VERDICT, rf"no \boxed{{}} under {title}; ends with {end}"
        )

    # The fence belongs to its box: many responses hold a box.
    boxes = [
        Carrier(fence.start(), fence.start(1) + box.end(), _read_box(box[1], title, count, bounds))
        for fence in fenced.finditer(answer.text)
        for box in _BOX.finditer(fence[1])
    ]
    own = pick_own(answer, boxes)
    return (
        own.result
        if isinstance(own, Carrier)
        else own or make_failure(FailureKind.NO_VERDICT, f"no {title}")
    )


def _read_box(box: str, title: str, count: int, bounds: tuple[float, float]) -> _Numbers | Failure:
    parts = box.split(",")
    decimals = map(parse_decimal, parts)
    numbers = tuple(number for number in decimals if number is not None)
    if not len(numbers) == count == len(parts):
        return make_failure(
            FailureKind.NO_VERDICT, f"{title}: {excerpt(box)} is not {count} number(s)"
        )
    low, high = bounds
    if not all(low <= number <= high for number in numbers):
        return make_failure(
            FailureKind.OUT_OF_RANGE, f"{title}: {excerpt(box)} is not within {low:g} to {high:g}"
        )
    return numbers


PROFILE = Profile(
    name="nemotron-boxed",
    models=(
        "*llama-3_3-nemotron-super-49b-genrm",
        "*llama-3_3-nemotron-super-49b-genrm-multilingual",
    ),
    version=2,
    about="NVIDIA Nemotron Super 49B GenRM with its roles response_1, response_2; boxed scores 1 "
    "to 5 and ranking "
    "1 to 6, unchanged",
    request_fields=MappingProxyType({"max_tokens": 16384}),
    render_messages=_render_messages,
    parse_reply=partial(parse_prose, read=_read),
    verdict_forms=_FORMS,
    markers=(),
)
