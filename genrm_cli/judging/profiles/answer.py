"""Find the judge's answer in a reply, the text after its thinking, and map it to a verdict."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

from genrm_cli.judging.requests import Broken, Prompt, Reply
from genrm_cli.verdicts import MAX_SCORE, MIDDLE_RANKING, MIN_SCORE, Failure, FailureKind, Verdict

MAX_DETAIL_CHARS = 200
THINK = "<think>"

Said = TypeVar("Said")
END_THINK = "</think>"
_ANY_THINK = re.compile("</?think>")


class Answer(NamedTuple):
    """A judge's answer after its thinking, and what was broken up in the prompt, which it may quote."""

    text: str
    cut_off: bool
    broken: Broken | None = None

    def holders(self, text: str) -> tuple[int, ...]:
        """Return the positions of the responses in which all that makes this text a verdict was broken up."""
        return () if self.broken is None else self.broken.holders(text)

    def may_repair(self, start: int, end: int) -> bool:
        """Return whether a passage may be a quotation without its signs.

        It then stands in a response and among other words, none of which has a sign.
        """
        if self.broken is None or self.broken.forms.wedge in self.text or not self.holders(self.text[start:end]):
            return False
        around = self.text[:start].replace("json", ""), self.text[end:]
        return all(map(self.broken.forms.has_other_words, around))


ReadAnswer = Callable[[Answer], Said | Failure]


def parse_answer(
    reply: Reply, shown: Prompt, read: ReadAnswer[Said], opening: re.Pattern[str] | None = None
) -> Said | Failure:
    """Parse the text after the last `</think>`.

    Args:
        read: called with a non-blank answer. Its `no_verdict` becomes `truncated` if the answer was cut off.
        opening: matches the beginning of the family's answers, but not of thoughts. In a reply that begins this way, a
            `</think>` may be quoted, and the text after it may come from a candidate.

    Returns:
        `refused`, `empty` or `truncated` for a reply without an answer; `ambiguous` for a reply with that opening
        and another verdict before its first thought, or with another verdict before a tag that may be quoted from a
        response. The responses that hold anything like a verdict of an ambiguous answer caused the failure.
    """
    if reply.refusal or reply.finish_reason == "content_filter":
        return make_failure(FailureKind.REFUSED, f"refused: {excerpt(reply.refusal or 'content_filter')}")
    cut_off = reply.finish_reason == "length"
    answer = Answer(reply.text.rpartition(END_THINK)[2], cut_off, shown.broken)
    if not answer.text.strip():
        thought = bool(reply.reasoning.strip() or reply.text.strip())
        found = "only reasoning, no answer after it" if thought else "no text at all"
        if cut_off:
            return make_failure(FailureKind.TRUNCATED, f"cut off by the token limit: {found}")
        return make_failure(FailureKind.EMPTY, f"{found} (finish_reason: {excerpt(reply.finish_reason)})")
    outcome = read(answer)
    if not isinstance(outcome, Failure):
        # What follows a tag that a response held, too, may be a quotation.
        many = -1 if answer.holders(END_THINK) else opening is not None and opening.match(reply.text) is not None
        for part in _ANY_THINK.split(reply.text, many if many > 0 else 0)[:-1] if many else ():
            earlier = read(Answer(part, False, shown.broken))
            if earlier != outcome and not (isinstance(earlier, Failure) and earlier.kind is FailureKind.NO_VERDICT):
                causes = answer.holders(END_THINK)
                return make_failure(FailureKind.AMBIGUOUS, f"two verdicts, and {END_THINK} between them", causes)
    elif outcome.kind is FailureKind.AMBIGUOUS and shown.broken is not None:
        return replace(outcome, caused_by=shown.broken.holders(answer.text, of_any=True))
    if cut_off and isinstance(outcome, Failure) and outcome.kind is FailureKind.NO_VERDICT:
        return make_failure(FailureKind.TRUNCATED, f"cut off by the token limit: {outcome.detail}")
    return outcome


def parse_prose(
    reply: Reply, shown: Prompt, read: ReadAnswer[Said], opening: re.Pattern[str] | None = None
) -> Said | Failure:
    """Parse an answer in prose, in which `<think>` always begins a thought and is never a quotation."""
    return parse_answer(reply, shown, lambda answer: open_thought() if THINK in answer.text else read(answer), opening)


def parse_first_turn(reply: Reply, shown: Prompt) -> str | Failure:
    """Return the first of two replies without its thinking, or a failure if it was cut off."""

    def read(answer: Answer) -> str | Failure:
        if answer.cut_off:
            return make_failure(FailureKind.NO_VERDICT, "in the first of two turns")
        return answer.text.strip()

    return parse_prose(reply, shown, read)


def open_thought() -> Failure:
    """Return the failure of an answer with an unclosed thought."""
    return make_failure(FailureKind.NO_VERDICT, f"{THINK} is opened and never closed")


def excerpt(value: object) -> str:
    """Quote a value from the judge in at most 40 characters, without control characters."""
    # An object or list may be nested too deep to print.
    shown = repr(value[:60]) if isinstance(value, str) else type(value).__name__
    if value is None or isinstance(value, bool | float):
        shown = str(value)
    return shown if len(shown) <= 40 else f"{shown[:37]}..."


def make_failure(kind: FailureKind, detail: str, caused_by: tuple[int, ...] = ()) -> Failure:
    """Return a failure with a detail of at most `MAX_DETAIL_CHARS`."""
    return Failure(kind, detail[:MAX_DETAIL_CHARS], caused_by)


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
# The distance of two scores as a share of their scale, and the rankings if the first or the second leads.
_RANKINGS = ((0.75, 1.0, 6.0), (0.375, 2.0, 5.0), (0.0, 3.0, 4.0))


def verdict_of_scores(first: float, second: float, low: float, high: float) -> Verdict | Failure:
    """Map two scores, higher is better, linearly from `low`..`high` to 1..5, and their distance to the ranking.

    The ranking of equal scores is 3.5. It is 3 for a lead below 3/8 of the scale (1.5 points of 1..5), 2 below 3/4
    (3 points), otherwise 1; 4, 5 and 6 if the second leads. A score outside the scale is `out_of_range`.
    """
    for score in (first, second):
        if not low <= score <= high:  # also true for NaN
            return make_failure(FailureKind.OUT_OF_RANGE, f"a score is {score:g}, expected {low:g} to {high:g}")
    scores = [MIN_SCORE + (MAX_SCORE - MIN_SCORE) * ((score - low) / (high - low)) for score in (first, second)]
    return Verdict(scores[0], scores[1], _ranking((first - second) / (high - low)))


def verdict_of_grades(first: float, second: float) -> Verdict:
    """Return the verdict for two grades from 1 to 5. Their distance determines the ranking."""
    return Verdict(first, second, _ranking((first - second) / (MAX_SCORE - MIN_SCORE)))


def parse_decimal(text: str) -> float | None:
    """Return the decimal number in a text, ignoring spaces around it; None for anything else (`4/5`, `nan`)."""
    stripped = text.strip()
    return float(stripped) if _DECIMAL.fullmatch(stripped) else None


def _ranking(lead: float) -> float:
    if lead == 0:
        return MIDDLE_RANKING
    return next(ahead if lead > 0 else behind for least, ahead, behind in _RANKINGS if abs(lead) >= least)
