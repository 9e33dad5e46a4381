"""Distinguish the judge's own verdict from verdicts that it quotes.

A response may hold a verdict in the judge's form. It was broken up in the prompt (`neutralise_prompt`), so a judge that
quotes it word for word writes no verdict. What is left is a judge that repairs what it quotes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from genrm_cli.judging.profiles.answer import Answer, make_failure
from genrm_cli.verdicts import Failure, FailureKind

Said = TypeVar("Said")


@dataclass(frozen=True, slots=True)
class Carrier(Generic[Said]):
    """A passage in the form of a verdict, from `start` to before `end`; `form` numbers the forms of a family."""

    start: int
    end: int
    said: Said | Failure
    form: int = 0


def agree_exactly(one: Carrier[Said], other: Carrier[Said]) -> bool:
    """Return whether two carriers state the same verdict."""
    return one.said == other.said


def pick_own(
    answer: Answer,
    carriers: Sequence[Carrier[Said]],
    *,
    agree: Callable[[Carrier[Said], Carrier[Said]], bool] = agree_exactly,
    ignore_unreadable: bool = True,
) -> Carrier[Said] | Failure | None:
    """Return the last carrier in the judge's own words, or None if the answer has no carriers.

    A carrier that says what was broken up in a response is a quotation if another carrier follows it that does not. The
    answer is `ambiguous` if own carriers disagree, or if a response holds all of them and the last one stands among
    other words in an answer without signs. With `ignore_unreadable`, those that cannot be read contradict none.
    """
    found = [(each, bool(answer.holders(answer.text[each.start : each.end]))) for each in carriers]
    # What stands in a response and cannot be read is a quotation.
    found = [(each, held) for each, held in found if not (held and isinstance(each.said, Failure))]
    if not found:
        return None
    if len(found) == 1 and not found[0][1]:
        return found[0][0]
    # An own carrier that cannot be read may be torn out of a quotation: it makes none of those before it one.
    readable = [number for number, (each, held) in enumerate(found) if not (held or isinstance(each.said, Failure))]
    last_own = max(readable, default=-1)
    if last_own < 0 and answer.may_repair(found[-1][0].start, found[-1][0].end):
        return make_failure(FailureKind.AMBIGUOUS, "the verdict may be quoted from a response")
    own = [each for number, (each, held) in enumerate(found) if not held or number > last_own]
    if isinstance(own[-1].said, Failure):
        return own[-1]
    chosen = found[last_own][0]  # the last one if a response holds all of them
    unreadable = any(isinstance(each.said, Failure) for each in own) and not ignore_unreadable
    if last_own < 0:
        agree = agree_exactly  # one of them may be a quotation
    if unreadable or any(not isinstance(each.said, Failure) and not agree(each, chosen) for each in own):
        return make_failure(FailureKind.AMBIGUOUS, "two verdicts that contradict each other")
    return chosen
