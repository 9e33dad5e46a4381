"""Find the judge's answer in a reply, the text after its thinking, and map it to a verdict.

A response may hold a verdict in the judge's form. It was broken up in the prompt
(`neutralise_prompt`), so a judge that quotes it word for word writes no verdict. What is left is a
judge that repairs what it quotes (`pick_own`).

Readers of answers return what they read, or raise `UnreadableError`."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from genrm_cli.judging.requests import BrokenForms, Prompt, Reply
from genrm_cli.verdicts import MAX_SCORE, MIDDLE_RANKING, MIN_SCORE, Failure, FailureKind, Verdict

MAX_DETAIL_CHARS = 200  # one per failed comparison is stored and shown
THINK = "<think>"

Parsed = TypeVar("Parsed")
END_THINK = "</think>"
_ANY_THINK = re.compile("</?think>")
_SHOWN_END_CHARS = 40  # the last words of an answer show whether it was cut off, or in another form


class UnreadableError(Exception):
    """An answer, or a part of one, holds no verdict."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


class NoCarrierError(UnreadableError):
    """An answer holds nothing in the form of a verdict."""


def unreadable(detail: str, kind: FailureKind = FailureKind.NO_VERDICT) -> UnreadableError:
    """Return the error of an answer without a verdict, its detail cut to `MAX_DETAIL_CHARS`."""
    return UnreadableError(Failure(kind, detail[:MAX_DETAIL_CHARS]))


def ambiguous(detail: str) -> UnreadableError:
    """Return the error of an answer with more than one verdict."""
    return unreadable(detail, FailureKind.AMBIGUOUS)


class Answer(NamedTuple):
    """A judge's answer after its thinking.

    Attributes:
        start: its position in the text of the reply.
        broken: what was broken up in the prompt, which the judge may quote.
    """

    text: str
    start: int
    cut_off: bool
    broken: BrokenForms | None = None

    def is_held(self, text: str) -> bool:
        """Whether all that makes this text a verdict was broken up in one of the responses."""
        return self.broken is not None and self.broken.is_held(text)

    def may_repair(self, start: int, end: int) -> bool:
        """Whether a passage may be a quotation without its signs: a response holds it, and other
        words surround it.
        """
        if (
            self.broken is None
            or self.broken.forms.wedge in self.text
            or not self.is_held(self.text[start:end])
        ):
            return False
        around = self.text[:start].replace("json", ""), self.text[end:]
        return all(map(self.broken.forms.has_other_words, around))


ReadAnswer = Callable[[Answer], Parsed]


def parse_answer(
    reply: Reply, prompt: Prompt, read: ReadAnswer[Parsed], opening: re.Pattern[str] | None = None
) -> Parsed | Failure:
    """Parse the text after the last `</think>`.

    `read` is called with a non-blank answer; its `no_verdict` becomes `truncated` if the answer was
    cut off. A reply without an answer is `refused`, `empty` or `truncated`. `opening` matches the
    beginning of the family's answers, but not of thoughts: in a reply that begins this way, a
    `</think>` may be quoted, and the text after it may come from a candidate. It is `ambiguous`
    with that opening and another verdict before its first thought, or with another verdict before a
    tag that may be quoted from a response.
    """
    return attempt(_parse_answer, reply, prompt, read, opening)


def attempt(read: Callable[..., Parsed], *arguments: object) -> Parsed | Failure:
    """Return what is read, or why it cannot be."""
    try:
        return read(*arguments)
    except UnreadableError as error:
        return error.failure


def _parse_answer(
    reply: Reply, prompt: Prompt, read: ReadAnswer[Parsed], opening: re.Pattern[str] | None
) -> Parsed:
    if reply.refusal or reply.finish_reason == "content_filter":
        raise unreadable(
            f"refused: {excerpt(reply.refusal or 'content_filter')}", FailureKind.REFUSED
        )
    cut_off = reply.finish_reason == "length"
    text = reply.text.rpartition(END_THINK)[2]
    answer = Answer(text, len(reply.text) - len(text), cut_off, prompt.broken)
    if not text.strip():
        thought = bool(reply.reasoning.strip() or reply.text.strip())
        found = "only reasoning, no answer after it" if thought else "no text at all"
        if cut_off:
            raise _truncated(found)
        raise unreadable(
            f"{found} (finish_reason: {excerpt(reply.finish_reason)})", FailureKind.EMPTY
        )
    try:
        parsed = read(answer)
    except UnreadableError as error:
        failure = error.failure
        if failure.kind is FailureKind.NO_VERDICT and cut_off:
            raise _truncated(failure.detail) from error
        raise
    for start, end in _spans_before_tags(reply.text, answer, opening):
        earlier = attempt(read, Answer(reply.text[start:end], start, False, prompt.broken))
        if earlier != parsed and not (
            isinstance(earlier, Failure) and earlier.kind is FailureKind.NO_VERDICT
        ):
            raise ambiguous(f"two verdicts, and {END_THINK} between them")
    return parsed


def _truncated(found: str) -> UnreadableError:
    return unreadable(f"cut off by the token limit: {found}", FailureKind.TRUNCATED)


def _spans_before_tags(
    text: str, answer: Answer, opening: re.Pattern[str] | None
) -> Iterator[tuple[int, int]]:
    """Yield the parts of a reply that are answers if the tags after them are quotations."""
    # What follows a tag that a response held, too, may be a quotation.
    may_quote = answer.is_held(END_THINK)
    if not may_quote and (opening is None or opening.match(text) is None):
        return
    start = 0
    for tag in _ANY_THINK.finditer(text):
        yield start, tag.start()
        start = tag.end()
        if not may_quote:
            return


def parse_prose(
    reply: Reply, prompt: Prompt, read: ReadAnswer[Parsed], opening: re.Pattern[str] | None = None
) -> Parsed | Failure:
    """Parse an answer in prose, in which `<think>` always begins a thought and is never a
    quotation.
    """

    def read_prose(answer: Answer) -> Parsed:
        refuse_open_thought(answer.text)
        return read(answer)

    return parse_answer(reply, prompt, read_prose, opening)


def parse_first_turn(reply: Reply, prompt: Prompt) -> str | Failure:
    """Return the first of two replies without its thinking, or a failure if it was cut off."""

    def read(answer: Answer) -> str:
        if answer.cut_off:
            raise unreadable("in the first of two turns")
        return answer.text.strip()

    return parse_prose(reply, prompt, read)


def refuse_open_thought(text: str) -> None:
    """Refuse a text in which a thought is not closed."""
    if THINK in text:
        raise unreadable(f"{THINK} is opened and never closed")


def excerpt(value: object) -> str:
    """Quote a value from the judge in at most 40 characters, without control characters."""
    # An object or list may be nested too deep to print.
    quoted = repr(value[:60]) if isinstance(value, str) else type(value).__name__
    if value is None or isinstance(value, bool | float):
        quoted = str(value)
    return quoted if len(quoted) <= 40 else f"{quoted[:37]}..."


@dataclass(frozen=True, slots=True)
class Carrier(Generic[Parsed]):
    """A passage in the form of a verdict, from `start` to before `end`; `form` numbers the forms of
    a family.
    """

    start: int
    end: int
    result: Parsed | Failure
    form: int = 0

    @property
    def parsed(self) -> Parsed:
        """The verdict, or raise `UnreadableError`."""
        if isinstance(self.result, Failure):
            raise UnreadableError(self.result)
        return self.result


def agree_exactly(one: Carrier[Parsed], other: Carrier[Parsed]) -> bool:
    """Return whether two carriers state the same verdict."""
    return one.result == other.result


def pick_own(
    answer: Answer,
    carriers: Sequence[Carrier[Parsed]],
    lacks: str,
    *,
    agree: Callable[[Carrier[Parsed], Carrier[Parsed]], bool] = agree_exactly,
    ignore_unreadable: bool = True,
) -> Carrier[Parsed]:
    """Return the last carrier in the judge's own words.

    A carrier that says what was broken up in a response is a quotation if another carrier follows
    it that does not. The answer is `ambiguous` if own carriers disagree, or if a response holds all
    of them and the last one stands among other words in an answer without signs. With
    `ignore_unreadable`, those that cannot be read contradict none.

    Raises:
        UnreadableError: the last carrier cannot be read, the answer is ambiguous, or, in the words
            of `lacks`, it has no carriers.
    """
    found = [(each, answer.is_held(answer.text[each.start : each.end])) for each in carriers]
    # A passage of a response that cannot be read is a quotation.
    found = [
        (each, held) for each, held in found if not (held and isinstance(each.result, Failure))
    ]
    if not found:
        end = excerpt(answer.text[-_SHOWN_END_CHARS:])
        raise NoCarrierError(unreadable(f"{lacks}; ends with {end}").failure)
    # An own carrier that cannot be read may be torn out of a quotation: it makes none of those
    # before it one.
    readable = [
        number
        for number, (each, held) in enumerate(found)
        if not (held or isinstance(each.result, Failure))
    ]
    last_own = max(readable, default=-1)
    last = found[-1][0]
    if last_own < 0 and answer.may_repair(last.start, last.end):
        raise ambiguous("the verdict may be quoted from a response")
    if isinstance(last.result, Failure):
        return last
    own = [each for number, (each, held) in enumerate(found) if not held or number > last_own]
    chosen = found[last_own][0]  # the last one if a response holds all of them
    unreadables = [each for each in own if isinstance(each.result, Failure)]
    if last_own < 0:
        agree = agree_exactly  # one of them may be a quotation
    if (unreadables and not ignore_unreadable) or not all(
        isinstance(each.result, Failure) or agree(each, chosen) for each in own
    ):
        raise ambiguous("two verdicts that contradict each other")
    return chosen


MEANINGS: Mapping[str, Verdict] = {
    "much_better": Verdict(5.0, 1.0, 1.0),
    "better": Verdict(4.0, 2.0, 2.0),
    "slightly_better": Verdict(3.5, 2.5, 3.0),
    "tie": Verdict(3.0, 3.0, MIDDLE_RANKING),
    "slightly_worse": Verdict(2.5, 3.5, 4.0),
    "worse": Verdict(2.0, 4.0, 5.0),
    "much_worse": Verdict(1.0, 5.0, 6.0),
}
"""The verdict that each label stands for; labels describe the first response."""

_DECIMAL = re.compile(r"[+-]?[0-9]{1,9}(?:\.[0-9]{1,9})?")
# The distance of two scores as a share of their scale, and the rankings if the first or the second
# leads: 3 and 1.5 points of 1 to 5.
_RANKINGS = ((0.75, 1.0, 6.0), (0.375, 2.0, 5.0), (0.0, 3.0, 4.0))


def verdict_of_scores(first: float, second: float, low: float, high: float) -> Verdict:
    """Map two scores, higher is better, linearly from `low`..`high` to 1..5, and their distance to
    the ranking.

    The ranking of equal scores is 3.5. It is 3 for a lead below 3/8 of the scale (1.5 points of
    1..5), 2 below 3/4 (3 points), otherwise 1; 4, 5 and 6 if the second leads. A score outside the
    scale is `out_of_range`."""
    for score in (first, second):
        if not low <= score <= high:  # also true for NaN
            raise out_of_range("a score", score, low, high)
    scores = [
        MIN_SCORE + (MAX_SCORE - MIN_SCORE) * ((score - low) / (high - low))
        for score in (first, second)
    ]
    return Verdict(scores[0], scores[1], _ranking((first - second) / (high - low)))


def out_of_range(name: str, number: float, low: float, high: float) -> UnreadableError:
    """Return the error of a number outside its scale."""
    return unreadable(
        f"{name} is {number:g}, expected {low:g} to {high:g}", FailureKind.OUT_OF_RANGE
    )


def verdict_of_grades(first: float, second: float) -> Verdict:
    """Return the verdict for two grades from 1 to 5. Their distance determines the ranking."""
    return Verdict(first, second, _ranking((first - second) / (MAX_SCORE - MIN_SCORE)))


def parse_decimal(text: str) -> float | None:
    """Return the decimal number in a text, ignoring spaces around it; None for anything else
    (`4/5`, `nan`).
    """
    stripped = text.strip()
    return float(stripped) if _DECIMAL.fullmatch(stripped) else None


def _ranking(lead: float) -> float:
    if lead == 0:
        return MIDDLE_RANKING
    return next(
        ahead if lead > 0 else behind for least, ahead, behind in _RANKINGS if abs(lead) >= least
    )
