"""Find the judge's own answer in a reply: what it says after its thinking, if it says anything at all."""

import re
from collections.abc import Callable
from typing import TypeVar

from genrm_cli.judging.requests import Reply
from genrm_cli.verdicts import Failure, FailureKind, Verdict

MAX_DETAIL_CHARS = 200
THINK = "<think>"

Said = TypeVar("Said")
ReadAnswer = Callable[[str, bool], Said | Failure]
"""Answer, and whether it was cut off by the token limit, to what is read from it, or why that is nothing."""

_END_THINK = "</think>"
_ANY_THINK = re.compile("</?think>")


def parse_answer(reply: Reply, read: ReadAnswer[Said], opening: re.Pattern[str] | None = None) -> Said | Failure:
    """Read what stands after the last `</think>`.

    Args:
        reply: what the judge said.
        read: what is asked about an answer that is not blank. Its `no_verdict` on an answer that was cut off
            becomes `truncated`.
        opening: how the family's answers begin and thoughts do not. In a reply that begins so, a `</think>` may be
            one that the judge quotes, and what follows it a candidate's.

    Returns:
        `refused`, `empty` or `truncated` where there is no answer to read; `ambiguous` where a reply with that
        opening says something else before its first thought.
    """
    if reply.refusal or reply.finish_reason == "content_filter":
        return make_failure(FailureKind.REFUSED, f"refused: {excerpt(reply.refusal or 'content_filter')}")
    cut_off = reply.finish_reason == "length"
    answer = without_thinking(reply.text)
    if not answer.strip():
        return _nothing_said(reply, cut_off)
    outcome = read(answer, cut_off)
    if isinstance(outcome, Verdict) and opening is not None and opening.match(reply.text):
        earlier = read(_ANY_THINK.split(reply.text, maxsplit=1)[0], False)
        if earlier != outcome and not (isinstance(earlier, Failure) and earlier.kind is FailureKind.NO_VERDICT):
            return make_failure(FailureKind.AMBIGUOUS, f"two verdicts, and {_END_THINK} between them")
    if cut_off and isinstance(outcome, Failure) and outcome.kind is FailureKind.NO_VERDICT:
        return make_failure(FailureKind.TRUNCATED, f"cut off by the token limit: {outcome.detail}")
    return outcome


def parse_prose(reply: Reply, read: ReadAnswer[Said], opening: re.Pattern[str] | None = None) -> Said | Failure:
    """Read an answer in prose, in which a `<think>` begins a thought and never is a quotation."""

    def read_closed(answer: str, cut_off: bool) -> Said | Failure:
        return open_thought() if THINK in answer else read(answer, cut_off)

    return parse_answer(reply, read_closed, opening)


def parse_first_turn(reply: Reply) -> str | Failure:
    """Return what the judge said in the first of two turns, without its thinking; a failure if it came to no end."""

    def read(answer: str, cut_off: bool) -> str | Failure:
        return make_failure(FailureKind.NO_VERDICT, "in the first of two turns") if cut_off else answer.strip()

    return parse_prose(reply, read)


def open_thought() -> Failure:
    """Return the failure of an answer that goes on to think and never ends it."""
    return make_failure(FailureKind.NO_VERDICT, f"{THINK} is opened and never closed")


def excerpt(value: object) -> str:
    """Show a value of the model's in at most 40 characters, without control characters."""
    # An object or list may be nested too deep to print, and nobody needs to see what is in it.
    shown = repr(value[:60]) if isinstance(value, str) else type(value).__name__
    if value is None or isinstance(value, bool | float):
        shown = str(value)
    return shown if len(shown) <= 40 else f"{shown[:37]}..."


def make_failure(kind: FailureKind, detail: str) -> Failure:
    """Return a failure with a detail of at most `MAX_DETAIL_CHARS`."""
    return Failure(kind, detail[:MAX_DETAIL_CHARS])


def without_thinking(text: str) -> str:
    """Return what stands after the last `</think>`; all of it if there is none."""
    return text.rpartition(_END_THINK)[2]


def _nothing_said(reply: Reply, cut_off: bool) -> Failure:
    thought = bool(reply.reasoning.strip() or reply.text.strip())
    found = "only reasoning, no answer after it" if thought else "no text at all"
    if cut_off:
        return make_failure(FailureKind.TRUNCATED, f"cut off by the token limit: {found}")
    return make_failure(FailureKind.EMPTY, f"{found} (finish_reason: {excerpt(reply.finish_reason)})")
