"""What a judge is shown, what it says, and what that means: a verdict or a failure, never a made-up number."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

MIN_SCORE, MAX_SCORE = 1.0, 5.0
MIN_RANKING, MAX_RANKING = 1.0, 6.0
MIDDLE_RANKING = 3.5


@dataclass(frozen=True, slots=True)
class Exhibit:
    """What the judge is shown: a conversation and two responses to it.

    Attributes:
        conversation: `(role, text)` turns, oldest first; may be empty when the input did not record it.
        response_1: text shown first; may be empty.
        response_2: text shown second; may be empty.
        principle: what to judge by, in words; None leaves it to the profile.
    """

    conversation: Sequence[tuple[str, str]]
    response_1: str
    response_2: str
    principle: str | None = None


@dataclass(frozen=True, slots=True)
class Lineup:
    """What a judge is shown when it does not compare a pair: a conversation and one response, or those of a group.

    Attributes:
        conversation: `(role, text)` turns, oldest first; may be empty when the input did not record it.
        responses: in the order in which they are shown; one or more, each may be empty.
        principle: what to judge by, in words; None leaves it to the profile.
        background: what else the judge should know of the task, such as the goal and the constraints of a scenario.
    """

    conversation: Sequence[tuple[str, str]]
    responses: tuple[str, ...]
    principle: str | None = None
    background: str | None = None


Shown = Exhibit | Lineup


@dataclass(frozen=True, slots=True)
class Reply:
    """What a judge said, as its server reported it.

    Attributes:
        text: the content of the message; empty when there was none.
        reasoning: reasoning that the server separated from the content.
        finish_reason: the server's word for why it stopped (`stop`, `length`, ...); None if it gave none.
        refusal: the model's or the server's refusal text, if any.
        prompt_tokens: tokens read, None if the server does not say. Likewise the two below.
        tokens: where they were asked for, the tokens of the text, each with the log probabilities of the likeliest
            tokens in its place, its own among them.
    """

    text: str
    reasoning: str = ""
    finish_reason: str | None = None
    refusal: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    tokens: tuple[tuple[str, Mapping[str, float]], ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's opinion on two responses, by place in the prompt.

    Attributes:
        score_1: helpfulness of the response shown first, 1 to 5, higher is better.
        score_2: the same for the response shown second.
        ranking: 1 = first much better ... 6 = second much better; 3.5 is the middle.
        defaulted: True when a number is a default that the user asked for (`--compat`), not the judge's.
    """

    score_1: float
    score_2: float
    ranking: float
    defaulted: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Grades:
    """A judge's numbers on what it was shown in a lineup.

    Attributes:
        values: one for each response, in the order shown, or one for each thing that was asked of a single response;
            finite, on the scale that the profile states.
        notes: the judge's reasons or quotations, one for each value, or none.
    """

    values: tuple[float, ...]
    notes: tuple[str, ...] = field(default=(), compare=False)


Opinion = Verdict | Grades


class FailureKind(StrEnum):
    """Why a comparison gave no verdict. The values stand in metrics and comparison records."""

    CONNECTION = "connection"  # refused, reset, DNS, TLS
    TIMEOUT = "timeout"
    RATE_LIMITED = "rate_limited"  # 429
    HTTP = "http"  # 5xx and other statuses
    AUTH = "auth"  # 401, 403
    REFUSED = "refused"  # this request was rejected: 400, 413, 422, content filter, refusal
    BAD_BODY = "bad_body"  # a 200 that is not a chat completion
    TRUNCATED = "truncated"
    EMPTY = "empty"
    NO_VERDICT = "no_verdict"
    AMBIGUOUS = "ambiguous"
    OUT_OF_RANGE = "out_of_range"
    NOT_ASKED = "not_asked"  # the run was stopped before (deadline, budget), or only failures were asked again


@dataclass(frozen=True, slots=True)
class Failure:
    """A comparison that gave no verdict. It is data, and never becomes a score."""

    kind: FailureKind
    detail: str


def lead_of(verdict: Verdict) -> float:
    """Return by how much the first response is preferred: by the scores, on equal ones by the ranking.

    Above 0 the first is preferred, below 0 the second, at 0 neither.
    """
    return verdict.score_1 - verdict.score_2 or MIDDLE_RANKING - verdict.ranking


def verdict_after_swap(verdict: Verdict) -> Verdict:
    """Return the same opinion with the two responses shown in the other order."""
    return Verdict(verdict.score_2, verdict.score_1, MIN_RANKING + MAX_RANKING - verdict.ranking)


@dataclass(frozen=True, slots=True)
class Question:
    """What is shown to a judge, made ready to be asked about.

    Attributes:
        shown: what the judge is shown.
        body: the request that asks it; empty for the embedded judge.
        key: sha256 of everything that changes the answer; empty for the embedded judge.
    """

    shown: Shown
    body: bytes = b""
    key: bytes = b""


@dataclass(slots=True)
class Outcome:
    """What became of one comparison.

    Attributes:
        result: the verdict or grades, or why there are none.
        attempts: calls made, retries, re-askings and hedges included.
        latency_s: from the first call to the last answer, waits included.
        prompt_tokens: summed over all replies, as far as the server told. Likewise the two below.
        reply_text: the content of the last reply; None if there was none.
        from_journal: True when nothing was asked: the numbers are those of the run that asked.
        hedged: True when a straggler was asked a second time.
        turns: calls that the last asking took at the least; those beyond are retries of all kinds.
    """

    result: Opinion | Failure
    attempts: int = 0
    latency_s: float = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reply_text: str | None = None
    from_journal: bool = False
    hedged: bool = False
    turns: int = 1
