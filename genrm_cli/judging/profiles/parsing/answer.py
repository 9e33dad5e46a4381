"""Find the judge's answer in a reply: the text after its thinking."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from genrm_cli.judging.requests import Prompt, Reply
from genrm_cli.verdicts import Failure, FailureKind, Verdict

MAX_DETAIL_CHARS = 200
THINK = "<think>"

Said = TypeVar("Said")
END_THINK = "</think>"
_ANY_THINK = re.compile("</?think>")


@dataclass(frozen=True, slots=True)
class Answer:
    """A judge's answer after its thinking.

    Attributes:
        text: the text of the answer.
        cut_off: whether the token limit cut it off.
        responses: the texts that the judge was shown and may quote.
    """

    text: str
    cut_off: bool
    responses: tuple[str, ...]


ReadAnswer = Callable[[Answer], Said | Failure]


def parse_answer(
    reply: Reply, shown: Prompt, read: ReadAnswer[Said], opening: re.Pattern[str] | None = None
) -> Said | Failure:
    """Parse the text after the last `</think>`.

    Args:
        reply: the judge's reply.
        shown: the prompt that it replies to.
        read: called with a non-blank answer. Its `no_verdict` becomes `truncated` if the answer was cut off.
        opening: matches the beginning of the family's answers, but not of thoughts. In a reply that begins this way, a
            `</think>` may be quoted, and the text after it may come from a candidate.

    Returns:
        `refused`, `empty` or `truncated` for a reply without an answer; `ambiguous` for a reply with that opening
        and another verdict before its first thought.
    """
    if reply.refusal or reply.finish_reason == "content_filter":
        return make_failure(FailureKind.REFUSED, f"refused: {excerpt(reply.refusal or 'content_filter')}")
    cut_off = reply.finish_reason == "length"
    answer = Answer(without_thinking(reply.text), cut_off, shown.responses)
    if not answer.text.strip():
        return _nothing_said(reply, cut_off)
    outcome = read(answer)
    if isinstance(outcome, Verdict) and opening is not None and opening.match(reply.text):
        earlier = read(Answer(_ANY_THINK.split(reply.text, maxsplit=1)[0], False, shown.responses))
        if earlier != outcome and not (isinstance(earlier, Failure) and earlier.kind is FailureKind.NO_VERDICT):
            return make_failure(FailureKind.AMBIGUOUS, f"two verdicts, and {END_THINK} between them")
    if cut_off and isinstance(outcome, Failure) and outcome.kind is FailureKind.NO_VERDICT:
        return make_failure(FailureKind.TRUNCATED, f"cut off by the token limit: {outcome.detail}")
    return outcome


def parse_prose(
    reply: Reply, shown: Prompt, read: ReadAnswer[Said], opening: re.Pattern[str] | None = None
) -> Said | Failure:
    """Parse an answer in prose, in which `<think>` always begins a thought and is never a quotation."""

    def read_closed(answer: Answer) -> Said | Failure:
        return open_thought() if THINK in answer.text else read(answer)

    return parse_answer(reply, shown, read_closed, opening)


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


def make_failure(kind: FailureKind, detail: str) -> Failure:
    """Return a failure with a detail of at most `MAX_DETAIL_CHARS`."""
    return Failure(kind, detail[:MAX_DETAIL_CHARS])


def without_thinking(text: str) -> str:
    """Return the text after the last `</think>`, or all of it."""
    return text.rpartition(END_THINK)[2]


def _nothing_said(reply: Reply, cut_off: bool) -> Failure:
    thought = bool(reply.reasoning.strip() or reply.text.strip())
    found = "only reasoning, no answer after it" if thought else "no text at all"
    if cut_off:
        return make_failure(FailureKind.TRUNCATED, f"cut off by the token limit: {found}")
    return make_failure(FailureKind.EMPTY, f"{found} (finish_reason: {excerpt(reply.finish_reason)})")
