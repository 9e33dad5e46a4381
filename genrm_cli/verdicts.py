"""Verdicts and failures: a judge's opinion of two responses, or why there is none. Never an
invented number.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, Self

from msgspec import Struct

# The scales of NVIDIA's GenRMs, to which the verdicts of all other judges are mapped.
MIN_SCORE = 1.0
MAX_SCORE = 5.0
MIN_RANKING = 1.0
MAX_RANKING = 6.0
MIDDLE_RANKING = 3.5


class Verdict(Struct, frozen=True):
    """A judge's opinion of two responses, by their position in the prompt.

    Attributes:
        score_1: helpfulness of the response shown first, 1 to 5, higher is better.
        score_2: the same for the response shown second.
        ranking: 1 = first much better ... 6 = second much better; 3.5 is the middle.
        defaulted: whether a number is a default that the user asked for (setting `compat`) instead
            of the judge's.
    """

    score_1: float
    score_2: float
    ranking: float
    defaulted: bool = False


@dataclass(frozen=True, slots=True)
class Grades:
    """A judge's grades of the responses shown to it.

    Attributes:
        values: one per response, in the order shown, or one per rubric of a single response;
            finite, on the scale of the profile.
        notes: the judge's reasons or quotations, one per value, or none.
        places: of the values among the responses shown, from 0, if the judge left some out; else
            empty.
    """

    values: tuple[float, ...]
    notes: tuple[str, ...] = field(default=(), compare=False)
    places: tuple[int, ...] = ()

    def by_place(self) -> list[tuple[int, float]]:
        """Return the values with their places among the responses shown."""
        return list(zip(self.places or range(len(self.values)), self.values, strict=True))


class ChatTurn(Struct, frozen=True):
    """A chat model's next turn: any text is an answer, and the outcome's `reply_text` holds it.

    Attributes:
        is_truncated: whether the token limit cut it off.
    """

    is_truncated: bool = False


Judgment = Verdict | Grades | ChatTurn


class FailureKind(StrEnum):
    """Why a comparison has no verdict. The values appear in metrics and comparison records."""

    CONNECTION = "connection"  # refused, reset, DNS, TLS
    TIMEOUT = "timeout"
    RATE_LIMITED = "rate_limited"  # 429
    HTTP = "http"  # 5xx and other statuses
    AUTH = "auth"  # 401, 403
    SPENT = "spent"  # 402, or a budget or quota of the account that is used up
    REFUSED = "refused"  # this request was rejected: 400, 413, 422, content filter, refusal
    BAD_BODY = "bad_body"  # a 200 that is not a chat completion
    TRUNCATED = "truncated"
    EMPTY = "empty"
    NO_VERDICT = "no_verdict"
    AMBIGUOUS = "ambiguous"
    OUT_OF_RANGE = "out_of_range"
    NOT_ASKED = (
        "not_asked"  # the run was stopped first (deadline, budget), or only failures were retried
    )

    @property
    def is_transient(self) -> bool:
        """Whether a later run may get a verdict where this one did not."""
        return self in _TRANSIENT

    @property
    def is_parse_failure(self) -> bool:
        """Whether the judge replied, but without a verdict."""
        return self in _PARSE_FAILURES

    @property
    def depends_on_texts(self) -> bool:
        """Whether the texts shown may have caused it, and not the call: the judge refused them, or
        gave no verdict.
        """
        return self is FailureKind.REFUSED or self in _PARSE_FAILURES


_TRANSIENT = frozenset(
    {
        *(FailureKind.CONNECTION, FailureKind.TIMEOUT, FailureKind.RATE_LIMITED),
        *(FailureKind.HTTP, FailureKind.AUTH, FailureKind.SPENT, FailureKind.BAD_BODY),
    }
)
_PARSE_FAILURES = frozenset(
    {
        *(FailureKind.TRUNCATED, FailureKind.EMPTY, FailureKind.NO_VERDICT),
        *(FailureKind.AMBIGUOUS, FailureKind.OUT_OF_RANGE),
    }
)

_CAUSES = {
    FailureKind.CONNECTION: "without a connection",
    FailureKind.TIMEOUT: "timed out",
    FailureKind.RATE_LIMITED: "rate limited",
    FailureKind.HTTP: "with an HTTP error",
    FailureKind.AUTH: "denied",
    FailureKind.REFUSED: "refused",
    FailureKind.BAD_BODY: "answered in another format",
    FailureKind.TRUNCATED: "cut off",
    FailureKind.EMPTY: "empty",
    FailureKind.NO_VERDICT: "without a verdict",
    FailureKind.AMBIGUOUS: "ambiguous",
    FailureKind.OUT_OF_RANGE: "out of range",
    FailureKind.NOT_ASKED: "not asked",
}


class StoppedBy(StrEnum):
    """The setting that stopped a run before all comparisons were asked; its value is the setting's
    name.
    """

    DEADLINE = "deadline"  # the only one that also cuts off calls in flight
    MAX_CALLS = "max_calls"
    MAX_TOTAL_TOKENS = "max_total_tokens"
    MAX_COST = "max_cost"
    CONCLUDE = "conclude"
    REPLIES_FROM = "replies_from"


class TooLong(Struct, frozen=True):
    """A request that seems to exceed the judge's context.

    Attributes:
        context_tokens: the limit, as the server names or shows it; None if it does not.
        prompt_tokens: of the request; None if they are unknown.
    """

    context_tokens: int | None = None
    prompt_tokens: int | None = None


class Failure(Struct, frozen=True):
    """A comparison without a verdict. It is data, and never becomes a score.

    Attributes:
        partial: the grades in a reply that leaves some responses out; they count if the judge does
            not grade all of them when it is asked again.
        too_long: what it says about the judge's context; None if it is about something else.
    """

    kind: FailureKind
    detail: str
    partial: Grades | None = None
    too_long: TooLong | None = None

    @property
    def cause(self) -> str:
        """The cause in a few words, as in `2 refused as too long`."""
        return _CAUSES[self.kind] if self.too_long is None else "refused as too long"


ProbeResult = Literal["passed", "incomplete", "skipped"]
"""The result of the test of a judge; incomplete if an endpoint was busy or down. A judge that fails
is not used.
"""


class Reason(StrEnum):
    """Why a rollout has no reward. The values appear in scored lines and metrics.

    Attributes:
        text: the reason as a sentence without a full stop.
    """

    text: str

    NO_RESPONSE = "no_response", "it has no response"
    BLANK = "blank", "blank response"
    MEDIA = "media", "it contains media that the judge cannot see"
    EXCLUDED = "excluded", "excluded"
    SUPERSEDED = "superseded", "superseded by a later attempt"
    NOT_IN_TRIAL = "not_in_trial", "not part of the trial run"
    NO_GROUP = "no_group", "no value for the group field"
    ALONE = "alone", "only rollout in its group"
    MIXED_PROMPTS = (
        "mixed_prompts",
        "the prompts of the group differ, so its rollouts cannot be compared; whole conversations "
        "that only begin differently can be, in the format episode",
    )
    MIXED_REFERENCES = (
        "mixed_references",
        "the reference answers of the group differ, so it cannot be judged",
    )
    NO_OPPONENT = "no_opponent", "no other rollout of the group can be compared"
    NOT_PLANNED = "not_planned", "no comparison was planned for this rollout"
    NOT_ASKED = "not_asked", "the run stopped before its comparisons"
    INCOMPLETE = "incomplete", "too few verdicts"
    TOO_NOISY = "too_noisy", "the reliability of its group is below the minimum"
    NO_COMPONENT = "no_component", "no component is available for the whole group"
    COMPONENT_MISSING = "component_missing", "a component has no value"
    NOT_COMPUTED = "not_computed", "a bug kept its reward from being computed"

    @property
    def is_exclusion(self) -> bool:
        """Whether the rollout does not count: its line or this run leaves it out."""
        return self in (Reason.EXCLUDED, Reason.SUPERSEDED, Reason.NOT_IN_TRIAL)

    def __new__(cls, code: str, text: str = "") -> Self:
        """Create a member whose value is the code."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.text = text
        return member


class Explanation(Struct, frozen=True):
    """A reason and the details of one rollout: the component without a value, the media of a
    response.
    """

    reason: Reason
    detail: str = ""

    @property
    def text(self) -> str:
        """The sentence of the reason, followed by the details."""
        return f"{self.reason.text}: {self.detail}" if self.detail else self.reason.text


def sign_of(number: float) -> int:
    """Return 1 for a positive number, -1 for a negative one, and 0 for 0."""
    return (number > 0) - (number < 0)


def preference(verdict: Verdict) -> float:
    """Return how strongly the first response is preferred: by the scores or, if these are equal, by
    the ranking.

    Positive: the first is preferred; negative: the second; 0: neither.
    """
    return verdict.score_1 - verdict.score_2 or MIDDLE_RANKING - verdict.ranking


def join_verdicts(verdicts: Sequence[Verdict | None]) -> Verdict | None:
    """Return the mean of the verdicts that came; None without one."""
    given = [verdict for verdict in verdicts if verdict is not None]
    if len(given) < 2:
        return given[0] if given else None
    return Verdict(
        math.fsum(verdict.score_1 for verdict in given) / len(given),
        math.fsum(verdict.score_2 for verdict in given) / len(given),
        math.fsum(verdict.ranking for verdict in given) / len(given),
        defaulted=any(verdict.defaulted for verdict in given),
    )


def preferred(verdict: Verdict) -> int:
    """Return 1 if a verdict prefers the response shown first, -1 for the second, and 0 for
    neither.
    """
    return sign_of(preference(verdict))


def contradicts_itself(verdict: Verdict) -> bool:
    """Return whether the scores prefer one response and the ranking the other; a tie never
    contradicts.
    """
    return (verdict.score_1 - verdict.score_2) * (MIDDLE_RANKING - verdict.ranking) < 0


def verdict_after_swap(verdict: Verdict) -> Verdict:
    """Return the same opinion with the two responses in the other order."""
    return Verdict(verdict.score_2, verdict.score_1, MIN_RANKING + MAX_RANKING - verdict.ranking)


class Outcome(Struct):
    """The result of one request.

    Attributes:
        result: the verdict or grades, or the failure.
        attempts: calls made, including retries.
        latency_s: time from the first call to the last answer, including waits.
        prompt_tokens: sum over all replies.
        completion_tokens: sum over all replies.
        reply_text: the content of the last reply; None if there was none.
        from_journal: whether the result comes from the journal; the numbers are then those of the
            original run.
        journal_key: key of the reply in the journal; empty if the journal does not contain it.
        turns: minimum number of calls for an answer; all others are retries.
        reasks: further calls for the same answer, other than retries, which `max_extra` counts.
        estimated_replies: replies whose tokens are estimated, because the server did not count
            them.
        shortened: characters cut out of each response that was shown, and the conversation, because
            the request did not fit into the judge's context; empty if it did.
    """

    result: Judgment | Failure
    attempts: int = 0
    latency_s: float = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    reply_text: str | None = None
    from_journal: bool = False
    journal_key: bytes = b""
    turns: int = 1
    reasks: int = 0
    estimated_replies: int = 0
    shortened: tuple[int, ...] = ()

    @property
    def is_decided(self) -> bool:
        """Whether it has an answer, which is final."""
        return not isinstance(self.result, Failure)
