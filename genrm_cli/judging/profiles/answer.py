"""Find the judge's answer in a reply, the text after its thinking, and map it to a verdict.

An unfinished answer is none: a draft in an open thought never counts, and in a reply that its
server did not end as finished, only a verdict with which the reply ends (`pick_own`).

A response may hold a verdict in the judge's form. It was broken up in the prompt
(`neutralise_prompt`), so a judge that quotes it word for word writes no verdict. What is left is a
judge that repairs what it quotes (`pick_own`).

Readers of answers return what they read, or raise `UnreadableError`."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from msgspec import Struct

from genrm_cli.judging.requests import BrokenForms, Prompt, Reply, unfinished_reason
from genrm_cli.texts.late_pattern import late_pattern
from genrm_cli.texts.reasoning import find_answer, strip_end_tokens
from genrm_cli.verdicts import MAX_SCORE, MIDDLE_RANKING, MIN_SCORE, Failure, FailureKind, Verdict

MAX_DETAIL_CHARS = 200  # one per failed comparison is stored and shown
_CUT_OFF = "length"
# May follow a verdict without making it one of several words.
_CLOSING_SIGNS = late_pattern(r"[\s*_`\"'.)]*")

Parsed = TypeVar("Parsed")
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
        unfinished: why it may go on, in the server's word, empty if the server gave none; None for
            a finished answer.
        broken: what was broken up in the prompt, which the judge may quote.
    """

    text: str
    start: int
    unfinished: str | None = None
    broken: BrokenForms | None = None

    def is_held(self, text: str) -> bool:
        """Whether all that makes this text a verdict was broken up in a response."""
        return self.broken is not None and self.broken.is_held(text)

    def ends_at(self, end: int, closing: str = "") -> bool:
        """Whether no word follows a place, but for `closing`."""
        rest = strip_end_tokens(self.text[end:])[0].replace(closing, "", 1)
        return _CLOSING_SIGNS.fullmatch(rest) is not None

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
    """Parse the text after the last thought.

    `read` is called with a non-blank answer; its `no_verdict` becomes `truncated` if the answer was
    cut off. A reply without an answer is `refused`, `empty` or `truncated`. `opening` matches the
    beginning of the family's answers, but not of thoughts: in a reply that begins this way, a
    `</think>` may be quoted, and the text after it may come from a candidate. It is `ambiguous`
    with that opening and another verdict before its first thought, or with another verdict before a
    tag that may be quoted from a response."""
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
    unfinished = unfinished_reason(reply)
    start, _, tags = find_answer(reply.text)
    answer = Answer(reply.text[start:], start, unfinished, prompt.broken)
    if not answer.text.strip():
        thought = bool(reply.reasoning.strip() or reply.text.strip())
        found = "only reasoning, no answer after it" if thought else "no text at all"
        if unfinished:
            raise _truncated(unfinished, found)
        raise unreadable(
            f"{found} (finish_reason: {excerpt(reply.finish_reason)})", FailureKind.EMPTY
        )
    try:
        parsed = read(answer)
    except UnreadableError as error:
        if error.failure.kind is FailureKind.NO_VERDICT and unfinished:
            raise _truncated(unfinished, error.failure.detail) from error
        raise
    for begin, end in _spans_before_tags(reply.text, tags, answer, opening):
        earlier = attempt(read, Answer(reply.text[begin:end], begin, broken=prompt.broken))
        if earlier != parsed and not (
            isinstance(earlier, Failure) and earlier.kind is FailureKind.NO_VERDICT
        ):
            raise ambiguous("two verdicts, and the end of a thought between them")
    return parsed


def _truncated(reason: str, found: str) -> UnreadableError:
    cause = (
        "cut off by the token limit"
        if reason == _CUT_OFF
        else f"not finished (finish_reason: {excerpt(reason)})"
    )
    return unreadable(f"{cause}: {found}", FailureKind.TRUNCATED)


def _spans_before_tags(
    text: str,
    tags: Sequence[tuple[int, int]],
    answer: Answer,
    opening: re.Pattern[str] | None,
) -> Iterator[tuple[int, int]]:
    """Yield the parts of a reply that are answers if the tags after them are quotations."""
    # What follows a tag that a response held, too, may be a quotation.
    may_quote = any(map(answer.is_held, {text[start:end] for start, end in tags}))
    if not may_quote and (opening is None or opening.match(text) is None):
        return
    begin = 0
    for start, end in tags:
        yield begin, start
        begin = end
        if not may_quote:
            return


def parse_prose(
    reply: Reply, prompt: Prompt, read: ReadAnswer[Parsed], opening: re.Pattern[str] | None = None
) -> Parsed | Failure:
    """Parse an answer in prose, in which an opening tag begins a thought and is no quotation."""

    def read_prose(answer: Answer) -> Parsed:
        refuse_open_thought(answer.text)
        return read(answer)

    return parse_answer(reply, prompt, read_prose, opening)


def parse_first_turn(reply: Reply, prompt: Prompt) -> str | Failure:
    """Return the first of two replies without its thinking, or a failure if it was cut off."""

    def read(answer: Answer) -> str:
        if answer.unfinished:
            raise unreadable("in the first of two turns")
        return answer.text.strip()

    return parse_prose(reply, prompt, read)


def refuse_open_thought(text: str) -> None:
    """Refuse a text in which a thought is not closed."""
    if tag := find_answer(text).open_tag:
        raise unreadable(f"{tag} is opened and never closed")


def excerpt(value: object) -> str:
    """Quote a value from the judge in at most 40 characters, without control characters."""
    # An object or list may be nested too deep to print.
    quoted = repr(value[:60]) if isinstance(value, str) else type(value).__name__
    if value is None or isinstance(value, (bool, float)):
        quoted = str(value)
    return quoted if len(quoted) <= 40 else f"{quoted[:37]}..."


class Carrier(Struct, Generic[Parsed], frozen=True):
    """A passage in the form of a verdict, from `start` to before `end`.

    Attributes:
        form: the number of its form, of those of a family.
        may_go_on: whether a longer text would be another verdict: `8 1` of `8 10`.
    """

    start: int
    end: int
    result: Parsed | Failure
    form: int = 0
    may_go_on: bool = False

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
    closing: str | None = "",
) -> Carrier[Parsed]:
    """Return the last carrier in the judge's own words.

    A carrier that says what was broken up in a response is a quotation if another carrier follows
    it that does not. The answer is `ambiguous` if own carriers disagree, or if a response holds all
    of them and the last one stands among other words in an answer without signs. With
    `ignore_unreadable`, those that cannot be read contradict none. In an unfinished answer, nothing
    but `closing` may follow it; None if more of the verdict does.

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
    if answer.unfinished is not None:
        is_last = closing is None or answer.ends_at(chosen.end, closing)
        if chosen.may_go_on or not is_last:
            raise unreadable("a verdict, but it may go on")
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

_DECIMAL = late_pattern(
    r"(?P<number>[+-]?[0-9]{1,9}(?:\.[0-9]{1,9})?)(?:\s?/\s?(?P<of>[0-9]{1,9}))?"
)
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


def parse_number(value: object, highest: float = math.nan) -> float | None:
    """Return the number that a value of a judge is: a number, or a text with a decimal (`4`), or
    with one as a part of the highest (`4/5`); None for anything else (`4/10`, `nan`).
    """
    if isinstance(value, float):
        return value
    found = _DECIMAL.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None or (found["of"] and float(found["of"]) != highest):
        return None
    return float(found["number"])


def _ranking(lead: float) -> float:
    if lead == 0:
        return MIDDLE_RANKING
    return next(
        ahead if lead > 0 else behind for least, ahead, behind in _RANKINGS if abs(lead) >= least
    )
