"""What a judge is shown, what it replies, and the result of asking it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class PairwisePrompt:
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

    @property
    def responses(self) -> tuple[str, ...]:
        """Both responses, in the order shown."""
        return self.response_1, self.response_2


@dataclass(frozen=True, slots=True)
class ListwisePrompt:
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


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """What a chat model is shown when it is asked for its next turn, and nothing is judged.

    Attributes:
        conversation: `(role, text)` turns, oldest first.
    """

    conversation: Sequence[tuple[str, str]]

    @property
    def responses(self) -> tuple[str, ...]:
        """Return nothing: no response is judged."""
        return ()


Prompt = PairwisePrompt | ListwisePrompt | ChatPrompt


@dataclass(frozen=True, slots=True)
class Reply:
    """What a judge said, as its server reported it.

    Attributes:
        text: the content of the message; empty when there was none.
        reasoning: reasoning that the server separated from the content.
        finish_reason: the server's word for why it stopped (`stop`, `length`, ...); None if it gave none.
        refusal: the model's or the server's refusal text, if any.
        prompt_tokens: tokens read, None if the server does not say; so are the two below.
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


class RequestId(NamedTuple):
    """Names a request about a group.

    Attributes:
        judge: number of the judge, from 0.
        repeat: number of the repeat, from 0.
        shown: indices of the rollouts shown, in the order shown: two of a pair, one alone, or a whole group.
    """

    judge: int
    repeat: int
    shown: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """A rendered request.

    Attributes:
        shown: the prompt.
        body: of the HTTP request; empty for the built-in judge.
        key: sha256 of everything that changes the answer; empty for the built-in judge.
        reread_key: the key of the same request while replies were parsed otherwise; empty if there is none.
    """

    shown: Prompt
    body: bytes = b""
    key: bytes = b""
    reread_key: bytes = b""
