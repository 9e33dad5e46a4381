"""Prompts for a judge, its replies, and requests."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.neutralise.forms import Forms
from genrm_cli.texts.tokens import estimate_tokens
from genrm_cli.verdicts import Outcome

Images = tuple[tuple[str, str], ...]


class BrokenForms(Struct, frozen=True):
    """The forms of verdicts, markers and tokens that were broken up in the texts of a prompt.

    Attributes:
        forms: the forms that no text may hold.
        in_responses: the forms found in each response, as `Forms.find` returns them.
    """

    forms: Forms
    in_responses: tuple[tuple[str, ...], ...]

    def is_held(self, text: str) -> bool:
        """Whether a response holds every form in a judge's text."""
        quoted = set(self.forms.find(text))
        return bool(quoted) and any(map(quoted.issubset, self.in_responses))


class PairwisePrompt(Struct, frozen=True):
    """A conversation and two responses to it, to be compared.

    Attributes:
        conversation: `(role, text)` turns, oldest first; empty if the input did not record it.
        principle: the criterion to judge by, in words; None leaves it to the profile.
        reference: the known answer, shown as such; None for profiles that take none.
        images: marks in the texts, each with the URL of the image that belongs there.
        broken: forms that were broken up in the texts; None if the texts are unchanged.
    """

    conversation: Sequence[tuple[str, str]]
    response_1: str
    response_2: str
    principle: str | None = None
    reference: str | None = None
    images: Images = ()
    broken: BrokenForms | None = None

    @property
    def responses(self) -> tuple[str, ...]:
        """Both responses, in the order shown."""
        return self.response_1, self.response_2


class ListwisePrompt(Struct, frozen=True):
    """A conversation and one response to it, or those of a group, to be graded.

    `background` is further context for the judge, such as the goal and the constraints of a
    scenario; for `reference` and `images` see `PairwisePrompt`. `criteria` are those of the row
    with their points, for the profile that judges by them."""

    conversation: Sequence[tuple[str, str]]
    responses: tuple[str, ...]
    principle: str | None = None
    background: str | None = None
    reference: str | None = None
    criteria: Sequence[tuple[str, float]] = ()
    images: Images = ()
    broken: BrokenForms | None = None


class ChatPrompt(Struct, frozen=True):
    """A conversation to continue: a chat model is asked for its next turn, and no response is
    judged.
    """

    conversation: Sequence[tuple[str, str]]
    responses: tuple[()] = ()
    images: tuple[()] = ()
    broken: None = None


Prompt = PairwisePrompt | ListwisePrompt | ChatPrompt


class Reply(Struct, frozen=True):
    """A judge's reply, as its server reported it.

    Attributes:
        model: the model that wrote it; None if the server does not say.
        reasoning: reasoning that the server separated from the content.
        finish_reason: why generation stopped, in the server's terms (`stop`, `length`, ...); None
            if unknown.
        prompt_tokens: tokens read; None if the server does not report them. Likewise the one below.
        is_estimated: whether one of these counts is an estimate.
        is_prompt_counted: whether that of the prompt is not.
        tokens: if requested, the tokens of the text, each with the log probabilities of the
            likeliest tokens in its place, including its own.
    """

    text: str
    reasoning: str = ""
    finish_reason: str | None = None
    refusal: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    tokens: tuple[tuple[str, Mapping[str, float]], ...] = ()
    model: str | None = None
    is_estimated: bool = False
    is_prompt_counted: bool = True

    def masked(self, mask: Callable[[str], str]) -> "Reply":
        """Return it with a mask over all that the server wrote."""
        return replace(
            self,
            text=mask(self.text),
            reasoning=mask(self.reasoning),
            finish_reason=self.finish_reason and mask(self.finish_reason),
            refusal=self.refusal and mask(self.refusal),
            model=self.model and mask(self.model),
        )

    def estimated(self, body: bytes) -> "Reply":
        """Return it with estimates in place of the counts that are unknown, or 0 for a text.

        An unknown cost is not 0: budgets and summaries count the estimates, and say so."""
        written = self.text + self.reasoning
        prompt = self.prompt_tokens or estimate_tokens(body)
        completion = self.completion_tokens or estimate_tokens(written)
        known = self.prompt_tokens, self.completion_tokens
        if (prompt, completion) == known:
            return self
        return replace(
            self,
            prompt_tokens=prompt,
            completion_tokens=completion,
            is_estimated=True,
            is_prompt_counted=prompt == self.prompt_tokens,
        )


# Servers' words for a reply that ends by itself: OpenAI, TGI and llama.cpp, Anthropic.
_FINISHED = frozenset(("stop", "eos", "eos_token", "end_turn", "stop_sequence", "tool_calls"))


def unfinished_reason(reply: Reply) -> str | None:
    """Return why a reply may go on, in the server's word, empty if it gave none; None for a
    finished one.
    """
    reason = (reply.finish_reason or "").lower()
    return None if reason in _FINISHED else reason


def count_reply(outcome: Outcome, reply: Reply) -> None:
    """Add the text and the tokens of a reply to an outcome."""
    outcome.prompt_tokens += reply.prompt_tokens or 0
    outcome.completion_tokens += reply.completion_tokens or 0
    outcome.estimated_replies += reply.is_estimated
    outcome.reply_text = reply.text


class RequestId(NamedTuple):
    """The identity of a request about a group: the judge and the repeat, from 0, and the rollouts
    shown.

    `shown` has their indices, in the order shown: two of a pair, one alone, or a whole group.
    """

    judge: int
    repeat: int
    shown: tuple[int, ...]


class ExtraCalls(Struct):
    """How many more calls may be made about a group than its plan has.

    Replacements of failed comparisons and second calls for one comparison take from it; retries
    after a failed connection do not.
    """

    left: int

    def take(self, calls: int = 1) -> bool:
        """Take some calls, and return whether there were as many."""
        if calls > self.left:
            return False
        self.left -= calls
        return True

    def count(self, calls: int) -> None:
        """Count calls that were made before, perhaps by another run."""
        self.left = max(0, self.left - calls)


class JudgeRequest(Struct, frozen=True):
    """A rendered request and its key, a sha256 of all that changes the answer. The built-in judge
    has neither.

    `repeat` and the version of its form, of `RequestForm`, allow to render it again for another
    form. A second call for the same answer takes from `extra`; None sets no limit."""

    prompt: Prompt
    body: bytes = b""
    key: bytes = b""
    repeat: int = 0
    form_version: int = 0
    extra: ExtraCalls | None = None
