"""Any chat model, shown all responses of a list: a score for each, and the ranking.

The responses have labels instead of numbers, other ones in each list: no response can know its own,
nor that of another. A reply that leaves some of them out counts for the others; one that names an
unknown label, or one twice, counts for nothing.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.judging.profiles.answer import (
    UnreadableError,
    ambiguous,
    excerpt,
    out_of_range,
    parse_number,
    unreadable,
)
from genrm_cli.judging.profiles.json_objects import Pairs, key_form, parse_object
from genrm_cli.judging.profiles.profile import THINKING, ChatMessage, GradingProfile
from genrm_cli.judging.profiles.prompt import render_listwise
from genrm_cli.judging.requests import ListwisePrompt, Reply
from genrm_cli.verdicts import MAX_SCORE, MIN_SCORE, Failure, Grades

# Ten grades: with five, judges give the same one to half of a list.
_LOWEST = 1.0
_HIGHEST = 10.0
# The ranking breaks ties by less than half a grade, so that equal responses stay nearly equal. In
# simulation this never lost against the scores alone, with two to four grades in use.
_TIE_BREAK = 0.5
_CONSONANTS = "BCDFGHJKLMNPQRSTVWXZ"  # no vowels, so that no label is a word
_LABEL_TRIALS = 1000
_CLOSING = """\
First analyse each response by the evaluation plan, in a few sentences. Then compare them. Then \
give each a score from 1 (very poor) to 10 (excellent), and order all of them from best to worst; \
responses with equal scores are ordered, too. End with one JSON object in this form, with every \
label in both of its parts, and nothing after it:
"""


def list_labels(prompt: ListwisePrompt) -> list[str]:
    """Return one label for each response: none occurs in any shown text.

    They depend on all texts and their order: each repeat has others.
    """
    turns = [text for _, text in prompt.conversation]
    texts = [*turns, *prompt.responses]
    rng = Random(sha256("\0".join(texts).encode("utf-8", "surrogatepass")).digest())
    extras = [prompt.principle or "", prompt.background or "", prompt.reference or ""]
    shown = "\n".join([*texts, *extras]).upper()
    labels: list[str] = []
    for code in itertools.islice(_iter_codes(rng), _LABEL_TRIALS):
        if code not in labels and code not in shown:
            labels.append(code)
        if len(labels) == len(prompt.responses):
            return labels
    # A text that holds hundreds of codes was written to do so.
    return [f"RESPONSE-{code}" for code in range(1, len(prompt.responses) + 1)]


def _iter_codes(rng: Random) -> Iterator[str]:
    while True:
        # Only random() is guaranteed to give the same numbers in every version of Python.
        letters = [_CONSONANTS[int(rng.random() * len(_CONSONANTS))] for _ in range(2)]
        yield "".join(letters) + str(2 + int(rng.random() * 8))


def _render_messages(prompt: ListwisePrompt) -> list[ChatMessage]:
    labels = list_labels(prompt)
    return render_listwise(prompt, labels, _CLOSING + render_form(_FORM, labels, "<label>"))


class ListForm(Struct, frozen=True):
    """The object in which a judge scores and orders a list.

    Attributes:
        scores: key of the object with a score by label.
        ranking: key of the labels from best to worst.
        lowest: of the scores, as is `highest`.
        tie_break: by how much the ranking separates equal scores, at most; 0 for scores unchanged.
    """

    scores: str
    ranking: str
    lowest: float
    highest: float
    tie_break: float = 0.0


_FORM = ListForm("scores", "best_to_worst", _LOWEST, _HIGHEST, _TIE_BREAK)


def render_form(form: ListForm, labels: Sequence[str], place: str) -> str:
    """Render the requested object; `place` stands for the labels in their order."""
    scores = ", ".join(f'"{label}": <{form.lowest:g} to {form.highest:g}>' for label in labels)
    order = ", ".join(f'"{place.format(label)}"' for label in labels)
    return f'{{"{form.scores}": {{{scores}}}, "{form.ranking}": [{order}]}}'


def parse_list(
    reply: Reply, prompt: ListwisePrompt, form: ListForm, labels: Sequence[str]
) -> Grades | Failure:
    """Parse the scores of the responses with these labels; never raises.

    A reply that leaves some out is a failure with the grades of the others as its `partial`."""
    keys = (form.scores, form.ranking)
    return parse_object(reply, prompt, partial(_read_object, form, labels), keys[:1], keys)


def _read_object(form: ListForm, labels: Sequence[str], pairs: Pairs) -> Grades:
    given, rankings = (
        [value for name, value in pairs if name == key] for key in (form.scores, form.ranking)
    )
    if len(given) != 1 or len(rankings) > 1:
        raise ambiguous("scores or ranking are given more than once")
    scores = _read_scores(form, labels, given[0])
    order = _read_ranking(scores, rankings[0]) if rankings else []
    places = [place for place, label in enumerate(labels) if label in scores]
    grades = tuple(_grade(form, scores, order, labels[place]) for place in places)
    if len(grades) == len(labels):
        return Grades(grades)
    missing = ", ".join(label for label in labels if label not in scores)
    failure = unreadable(f"no score for {missing}").failure
    raise UnreadableError(replace(failure, partial=Grades(grades, places=tuple(places))))


def _read_scores(form: ListForm, labels: Sequence[str], entries: object) -> dict[str, float]:
    """Return the score by label, of at least two labels."""
    if not isinstance(entries, tuple):
        raise unreadable("the scores are not an object")
    scores: dict[str, float] = {}
    for label, value in entries:
        if label not in labels:
            raise unreadable(f"unknown label {excerpt(label)}")
        if label in scores:
            raise ambiguous(f"label {label} is scored twice")
        score = parse_number(value, form.highest)
        if score is None:
            raise unreadable(f"the score of {label} is not a number")
        if not form.lowest <= score <= form.highest:
            raise out_of_range("a score", score, form.lowest, form.highest)
        scores[label] = score
    if len(scores) < 2:
        raise unreadable("fewer than two labels are scored")
    return scores


def _read_ranking(scores: Mapping[str, float], order: object) -> list[str]:
    """Return the scored labels from best to worst."""
    if not isinstance(order, list) or sorted(map(str, order)) != sorted(scores):
        raise unreadable("the ranking does not name each scored label once")
    ordered = [scores[label] for label in order]
    if any(after > before for before, after in itertools.pairwise(ordered)):
        raise ambiguous("scores and ranking contradict each other")
    return order


def _grade(form: ListForm, scores: Mapping[str, float], order: list[str], label: str) -> float:
    """Map a score to 1..5, with its place in the ranking as the tie break."""
    tie_break = 0.0
    if order:
        from_middle = (len(order) - 1) / 2 - order.index(label)
        tie_break = form.tie_break * from_middle / len(order)
    lowest = form.lowest - form.tie_break / 2
    scale = form.highest - form.lowest + form.tie_break
    return MIN_SCORE + (MAX_SCORE - MIN_SCORE) * (scores[label] + tie_break - lowest) / scale


PROFILE = GradingProfile(
    name="listwise",
    version=4,
    about="any chat model, all responses of a list in one call; scores 1 to 10 and the ranking",
    request_fields=THINKING,
    takes_reference=True,
    render_messages=_render_messages,
    parse_reply=lambda reply, prompt: parse_list(reply, prompt, _FORM, list_labels(prompt)),
    verdict_forms=(key_form((_FORM.scores, _FORM.ranking)),),
    whole_group=True,
)
