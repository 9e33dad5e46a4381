r"""NVIDIA's Llama 3.3 Nemotron Super 49B GenRM: two roles, and numbers in `\boxed{}` between fences
of words.

Its model card has no role for a principle, and a chat template may drop an unknown role, so the
principle goes into the system turn. Its sampling is not published, so the server chooses the
temperature."""

import math
import re
from functools import partial
from types import MappingProxyType

from genrm_cli.judging.profiles.answer import (
    Answer,
    Carrier,
    attempt,
    excerpt,
    out_of_range,
    parse_number,
    parse_prose,
    pick_own,
    unreadable,
)
from genrm_cli.judging.profiles.families import nemotron
from genrm_cli.judging.profiles.profile import ChatMessage, Profile
from genrm_cli.judging.requests import PairwisePrompt
from genrm_cli.texts.late_pattern import late_pattern
from genrm_cli.verdicts import MAX_RANKING, MAX_SCORE, MIN_RANKING, MIN_SCORE, Verdict

_PRINCIPLE = "Judge the responses by this principle:\n"
# A fence ends at the next one: a number is complete even if the judge forgets to close its fence.
_FENCED = r"\[The Begin of {}\](.*?)(?=\[The (?:Begin|End) of |\Z)"
_SCORES = late_pattern(_FENCED.format("Individual Scores?"), re.DOTALL)
RANKING = late_pattern(_FENCED.format("Ranking Scores?"), re.DOTALL)
_BOX = late_pattern(r"\\boxed\{([^{}]{0,60})\}")
FENCES = r"\[The (?:Begin|End) of [A-Za-z ]{0,40}\]"
# Only what can be a verdict: most answers to mathematical questions are boxed numbers.
_NUMBER = r"\s*\+?0*[1-6](?:\.[0-9]{0,9})?\s*"
_FORMS = (FENCES, rf"\\boxed\s*\{{{_NUMBER}(?:,{_NUMBER})?\}}")


def _render_messages(prompt: PairwisePrompt) -> list[ChatMessage]:
    history = list(prompt.conversation)
    if prompt.principle is not None:
        system = _PRINCIPLE + prompt.principle
        if history and history[0][0] in ("system", "developer"):
            system += "\n\n" + history.pop(0)[1]
        history.insert(0, ("system", system))
    return nemotron.render_messages(PairwisePrompt(history, prompt.response_1, prompt.response_2))


def _read(answer: Answer) -> Verdict:
    score_1, score_2 = read_boxes(answer, _SCORES, "Individual Scores", 2, (MIN_SCORE, MAX_SCORE))
    (ranking,) = read_boxes(answer, RANKING, "Ranking Score", 1, (MIN_RANKING, MAX_RANKING))
    return Verdict(score_1, score_2, ranking)


def read_boxes(
    answer: Answer, fenced: re.Pattern[str], title: str, count: int, bounds: tuple[float, float]
) -> tuple[float, ...]:
    """Parse the last box in the last fence with this title. The judge's other boxes in such fences
    must agree.
    """
    fences = list(fenced.finditer(answer.text))
    # An own fence without a box says that the boxes before it are quotations.
    if fences and not _BOX.search(fences[-1][1]):
        fences = []
    # The fence belongs to its box: many responses hold a box.
    boxes = [
        Carrier(
            fence.start(),
            fence.start(1) + box.end(),
            attempt(_read_box, box[1], title, count, bounds),
        )
        for fence in fences
        for box in _BOX.finditer(fence[1])
    ]
    # Only the ranking ends the answer.
    closing = f"[The End of {title}]" if fenced is RANKING else None
    return pick_own(answer, boxes, rf"no \boxed{{}} under {title}", closing=closing).parsed


def _read_box(box: str, title: str, count: int, bounds: tuple[float, float]) -> tuple[float, ...]:
    decimals = map(parse_number, box.split(","))
    numbers = [math.nan if number is None else number for number in decimals]
    if len(numbers) != count or math.nan in numbers:
        raise unreadable(f"{title}: {excerpt(box)} is not {count} number(s)")
    for number in numbers:
        if not bounds[0] <= number <= bounds[1]:
            raise out_of_range(title, number, *bounds)
    return tuple(numbers)


PROFILE = Profile(
    name="nemotron-boxed",
    models=(
        "*llama-3_3-nemotron-super-49b-genrm",
        "*llama-3_3-nemotron-super-49b-genrm-multilingual",
    ),
    version=3,
    about="NVIDIA Nemotron Super 49B GenRM with its roles response_1, response_2; boxed scores 1 "
    "to 5 and ranking "
    "1 to 6, unchanged",
    request_fields=MappingProxyType({"max_tokens": 16384}),
    render_messages=_render_messages,
    parse_reply=partial(parse_prose, read=_read),
    verdict_forms=_FORMS,
    markers=(),
)
