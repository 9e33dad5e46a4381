"""The pairs of a result, and what judges answered about them."""

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from statistics import fmean
from typing import Literal

from msgspec import Struct

from genrm_cli.groups.line_records import FailureRecord
from genrm_cli.metrics.figures import rounded
from genrm_cli.scored.lines import NOT_ASKED, PairAnswer
from genrm_cli.verdicts import (
    MIDDLE_RANKING,
    FailureKind,
    Verdict,
    join_verdicts,
    preferred,
    sign_of,
)

Preference = Literal["wrong", "tie", "right"]
"""Whether a verdict prefers the chosen response."""
Repeat = Preference | Literal["unreadable"]
"""An answer of the judge as the user sees it: a preference, or a reply without a verdict."""
_BY_LEAD: tuple[Preference, ...] = ("wrong", "tie", "right")


class OrderRecord(Struct, frozen=True, kw_only=True):
    """The result of a pair in one order; without a verdict, `result` is None.

    Calls, tokens and latency are those of this run, or of the run that filled the journal.

    Attributes:
        repeats: the answer of each repeat; None where no reply came.
    """

    result: Preference | None
    repeats: tuple[Repeat | None, ...]
    score_1: float | None
    score_2: float | None
    ranking: float | None
    failure: FailureRecord | None
    attempts: int
    latency_s: float
    prompt_tokens: int
    completion_tokens: int

    @property
    def lead(self) -> float | None:
        """How strongly the verdict prefers the response shown first; None without one."""
        if self.score_1 is None or self.score_2 is None or self.ranking is None:
            return None
        return self.score_1 - self.score_2 + MIDDLE_RANKING - self.ranking

    @property
    def credit(self) -> float | None:
        """1 for right, 0 for wrong, 0.5 for a tie; None without a verdict."""
        return None if self.result is None else _BY_LEAD.index(self.result) / 2

    @property
    def was_asked(self) -> bool:
        """Whether the judge was asked."""
        return self.failure is None or self.failure.kind != FailureKind.NOT_ASKED


class PairRecord(Struct, frozen=True, kw_only=True):
    """The results of one labelled pair.

    Attributes:
        item: identifies the line that the pair comes from; pairs of one line are not independent of
            each other.
        chosen_index: position of the chosen response among those of its line, from 0.
        rejected_index: that of the rejected response.
        chosen_first: the result with the chosen response shown first.
        chosen_second: the result with the chosen response shown second.
    """

    id: str
    item: str
    line: int
    category: str | None
    chosen_index: int
    rejected_index: int
    chosen_chars: int
    rejected_chars: int
    chosen_first: OrderRecord
    chosen_second: OrderRecord

    @property
    def places(self) -> tuple[int, int]:
        """Positions of the chosen and of the rejected response among those of the line."""
        return self.chosen_index, self.rejected_index

    @property
    def key(self) -> tuple[str, tuple[int, int]]:
        """Identifies the pair in results of the same line."""
        return self.item, self.places

    @property
    def orders(self) -> tuple[OrderRecord, OrderRecord]:
        """Both orders."""
        return self.chosen_first, self.chosen_second

    @property
    def credit(self) -> float | None:
        """The mean credit of the orders with a verdict; None without one."""
        known = [order.credit for order in self.orders if order.credit is not None]
        return fmean(known) if known else None

    @property
    def result(self) -> float | None:
        """1 if both orders together are right more often, 0 if wrong, else 0.5; None without a
        verdict.
        """
        return None if self.credit is None else credit_of_lead(self.credit - 0.5)

    @property
    def leads(self) -> tuple[float | None, float | None]:
        """How strongly the verdict of each order prefers the chosen response; below 0 for the other
        one.
        """
        second = self.chosen_second.lead
        return self.chosen_first.lead, None if second is None else -second

    @property
    def joint_credit(self) -> float | None:
        """The credit of both orders together: where they disagree, the stronger preference counts.
        None without a verdict.
        """
        known = [lead for lead in self.leads if lead is not None]
        return credit_of_lead(sum(known)) if known else None


def credit_of_lead(lead: float) -> float:
    """Return 1 if a lead is for the chosen response, 0 if it is for the other one, else 0.5."""
    return (1 + sign_of(rounded(lead))) / 2


def preference_of(verdict: Verdict, *, chosen_first: bool) -> Preference:
    """Return the response that a verdict prefers, by the scores or, if these are equal, the
    ranking.
    """
    lead = preferred(verdict)
    return _BY_LEAD[1 + (lead if chosen_first else -lead)]


def order_of(
    answers: Sequence[PairAnswer], judges: Sequence[str], *, chosen_first: bool, is_paid: bool
) -> OrderRecord:
    """Return the result of a pair in one order.

    Args:
        answers: about the pair in this order, repeat by repeat.
        judges: names of the panel.
        chosen_first: whether the chosen response was shown first.
        is_paid: whether the cost of the requests counts for this pair.
    """
    by_judge = [[each for each in answers if each.record.judge == name] for name in judges]
    joint = join_verdicts([_joint(each) for each in by_judge])
    paid = [each.record for each in answers] if is_paid else []
    return OrderRecord(
        result=None if joint is None else preference_of(joint, chosen_first=chosen_first),
        repeats=tuple(_repeat_of(each, chosen_first) for each in zip_longest(*by_judge)) or (None,),
        score_1=None if joint is None else joint.score_1,
        score_2=None if joint is None else joint.score_2,
        ranking=None if joint is None else joint.ranking,
        failure=None if joint is not None else _failure_of(by_judge[0][:1]),
        attempts=sum(each.attempts for each in paid),
        latency_s=max((each.latency_s for each in paid), default=0.0),
        prompt_tokens=sum(each.prompt_tokens for each in paid),
        completion_tokens=sum(each.completion_tokens for each in paid),
    )


def _joint(answers: Iterable[PairAnswer | None]) -> Verdict | None:
    return join_verdicts([each.verdict for each in answers if each is not None])


def _failure_of(answers: Sequence[PairAnswer | None]) -> FailureRecord | None:
    return answers[0].failure if answers and answers[0] is not None else NOT_ASKED


def _repeat_of(answers: Sequence[PairAnswer | None], chosen_first: bool) -> Repeat | None:
    """Return the answer of the panel in one repeat; of one without a verdict, that of its first
    judge.
    """
    joint = _joint(answers)
    if joint is not None:
        return preference_of(joint, chosen_first=chosen_first)
    failure = _failure_of(answers)
    return "unreadable" if failure is not None and failure.kind.is_parse_failure else None


NOT_JUDGED = order_of([], [""], chosen_first=True, is_paid=False)
"""An order that no judge was asked about."""
