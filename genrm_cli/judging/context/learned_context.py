"""The context of a model as its servers show it: by a refusal, or by a reply that it cut off.

A refusal is a suspicion, because servers refuse for many reasons, and their words may quote a
request. So a request that seems too long is shortened and asked again, and only if that passes is
the limit that the refusal named believed, for all later requests of the model. A refusal that names
none teaches nothing about other requests: each is tried as a whole first, which costs nothing.

Texts are shortened request by request, and a verdict is stored under the key of the request as it
was before: an interrupted run finds it whatever it has learned. `rollouts.shorten` shortens whole
groups beforehand where the context is known."""

from typing import NamedTuple

from msgspec.structs import replace

from genrm_cli.judging.pacing.judge_events import LearnedContextEvent
from genrm_cli.judging.requests import (
    ChatPrompt,
    JudgeRequest,
    ListwisePrompt,
    PairwisePrompt,
    Prompt,
    Reply,
)
from genrm_cli.metrics.event import OnEvent, ignore_event
from genrm_cli.texts.tokens import (
    LEAST_TOKENS,
    cut_to_tokens,
    estimate_tokens,
    share_room,
    tokens_beside_texts,
)
from genrm_cli.verdicts import Failure, FailureKind, TooLong

MAX_CUTS = 4  # of one request
_SHRINK = 0.6  # of a request whose excess is unknown: four of them are below an emoji's 3 tokens
_LEAST_SUSPECT = 1_000  # tokens of a request that a refusal in unknown words may find too long
_FAR_OFF = 4  # a server's count is never so many times the estimate
_CUT_MARK = "characters cut ---]"
_ASCII = bytes(range(128))
# Texts of other scripts and unbroken ones (base64) take more tokens than estimated, alike in one
# judge; others are estimated well enough.
_WIDE_SHARE = 0.5
_LEAST_SPACES = 0.05
_LEAST_DENSITY = 0.2  # of tokens to their estimate: long runs of one sign


class Shortened(NamedTuple):
    """A prompt whose texts were cut.

    Attributes:
        chars: cut out of each response and the conversation.
        suspected: the context that a refusal named, if this request is to confirm it.
    """

    prompt: Prompt
    chars: tuple[int, ...]
    suspected: int | None = None


class LearnedContext:
    """The context of one model, as learned from its requests at all its endpoints.

    Attributes:
        tokens: the context that was learned; None if it was not.
        shortened: requests that were shortened because of it, or of a refusal.
    """

    def __init__(self, model: str = "", on_event: OnEvent = ignore_event) -> None:
        self._model = model
        self._on_event = on_event
        self.tokens: int | None = None
        self.shortened = 0
        self._longest_bytes = 0  # of the requests that were answered
        self._longest_estimate = 0
        self.most_tokens = 0  # of the prompts that were answered, as the server counted
        self._most_used = 0  # of a prompt and its reply together
        self._full_prompts: set[int] = set()  # their tokens, where reply and prompt took the most
        self._density = {"wide": 1.0, "solid": 1.0}

    def note_reply(self, body: bytes, reply: Reply) -> None:
        """Learn from a request that was answered; costs nothing for most."""
        counted = reply.prompt_tokens or 0 if reply.is_prompt_counted else 0
        is_longest = len(body) > self._longest_bytes
        self.most_tokens = max(self.most_tokens, counted)
        used = counted + (reply.completion_tokens or 0)
        if counted and used > self._most_used:
            self._most_used = used
            self._full_prompts = set()
        if is_longest:
            self._longest_bytes = len(body)
        if is_longest or counted > 0.4 * len(body):  # prose has a quarter
            estimate = _estimate_prompt(body)
            self._longest_estimate = max(self._longest_estimate, estimate)
            if estimate >= _LEAST_SUSPECT and (kind := _kind_of(body)) is not None:
                density = min(counted / estimate, _FAR_OFF)
                self._density[kind] = max(self._density[kind], density)

    def note_cut(self, reply: Reply) -> bool:
        """Note a reply that was cut off before its own limit; return whether the context did it.

        A server's own limit of replies, or of their time, cuts them off, too, at any total. A
        context cuts those to prompts of different lengths off at one total, which no reply exceeds.
        A reply without a word had no room.
        """
        prompt = reply.prompt_tokens or 0
        if prompt + (reply.completion_tokens or 0) < self._most_used:
            return False
        self._full_prompts.add(prompt)
        return reply.completion_tokens == 0 or len(self._full_prompts) > 1

    def confirm(self, tokens: int | None) -> None:
        """Believe a limit that a refusal named, once a request that keeps it was answered."""
        if tokens is not None and (self.tokens is None or tokens < self.tokens):
            self.tokens = tokens
            self._on_event(LearnedContextEvent(self._model, tokens))

    def suspect(self, failure: Failure, body: bytes) -> TooLong | None:
        """Return what a refusal says about the length of a request; None if nothing."""
        if failure.too_long is not None or failure.kind is not FailureKind.REFUSED:
            return failure.too_long
        # In words that nobody knows: of the longest request so far, length is a likely cause.
        estimate = _estimate_prompt(body)
        is_longest = 0 < self._longest_estimate < estimate
        return TooLong() if is_longest and estimate >= _LEAST_SUSPECT else None

    def shorten(
        self,
        request: JudgeRequest,
        reply_tokens: int | None,
        refusal: TooLong | None = None,
        refused: Prompt | None = None,
    ) -> Shortened | None:
        """Return a prompt that may fit; None if it fits already, or too little would be left.

        Args:
            request: the whole request.
            reply_tokens: reserved for the replies; None if they are not limited.
            refusal: what the server said; None shortens it by what is known.
            refused: the prompt that was refused, which may have been shortened before.
        """
        prompt = request.prompt
        if isinstance(prompt, ChatPrompt) or (refusal is None and self.tokens is None):
            return None
        estimate = _estimate_prompt(request.body)
        texts = _tokens_of_texts(prompt)
        instructions = max(0, estimate - texts)
        kind = _kind_of(request.body)
        density = 1.0 if kind is None else self._density[kind]
        tokens = self.tokens
        most = sent = texts
        if refusal is not None and refused is not None:
            tokens = self._plausible(refusal, estimate, reply_tokens) or tokens
            most = sent = _tokens_of_texts(refused)
            if refusal.prompt_tokens is not None:
                density = max(_LEAST_DENSITY, (refusal.prompt_tokens - instructions) / sent)
        if tokens is not None:
            beside = tokens_beside_texts(tokens, instructions, reply_tokens)
            most = int((tokens - beside - instructions) / density)
        # What is known of the limit may explain no refusal, or leave no room: instructions are
        # only estimated.
        if refusal is not None and not LEAST_TOKENS * len(prompt.responses) <= most < sent:
            passed = int((self.most_tokens - instructions) / density)
            # At first at most a little too much is cut, in case the longest so far was short.
            least = (_SHRINK if sent == texts else _SHRINK**2) * sent
            most = passed if tokens is None and least < passed < sent else int(_SHRINK * sent)
        cut = None if most >= texts else _cut(prompt, most)
        if cut is None:
            return None
        self.shortened += 1
        return cut._replace(suspected=tokens)

    def _plausible(self, refusal: TooLong, estimate: int, reply_tokens: int | None) -> int | None:
        """Return the limit that a refusal names, if it explains the refusal and no reply refutes
        it.
        """
        tokens = refusal.context_tokens
        if tokens is None or tokens < self.most_tokens:
            return None
        return tokens if tokens < _FAR_OFF * estimate + (reply_tokens or 0) else None


def _estimate_prompt(body: bytes) -> int:
    """Estimate the tokens of the messages, without the fields before them, such as a schema."""
    return estimate_tokens(body.partition(b'"messages":')[2])


def _tokens_of_texts(prompt: Prompt) -> int:
    texts = (*(text for _, text in prompt.conversation), *prompt.responses)
    return max(1, sum(map(estimate_tokens, texts)))


def _cut(prompt: PairwisePrompt | ListwisePrompt, room: int) -> Shortened | None:
    """Cut the longest texts of a prompt until all have so many tokens together."""
    turns = [estimate_tokens(text) for _, text in prompt.conversation]
    responses = [estimate_tokens(text) for text in prompt.responses]
    of_turns, of_responses = share_room(turns, responses, room)
    cuts = [(max(turns, default=0), of_turns), (max(responses), of_responses)]
    if min((limit for longest, limit in cuts if longest > limit), default=0) < LEAST_TOKENS:
        return None
    conversation = []
    chars_asked = 0
    for (role, text), tokens in zip(prompt.conversation, turns, strict=True):
        asked, chars = _cut_text(text, tokens, of_turns)
        conversation.append((role, asked))
        chars_asked += chars
    shown = [
        _cut_text(text, tokens, of_responses)
        for text, tokens in zip(prompt.responses, responses, strict=True)
    ]
    texts = tuple(text for text, _ in shown)
    shorter: Prompt
    if isinstance(prompt, PairwisePrompt):
        shorter = replace(
            prompt, conversation=conversation, response_1=texts[0], response_2=texts[1]
        )
    else:
        shorter = replace(prompt, conversation=conversation, responses=texts)
    return Shortened(shorter, tuple(chars_asked + chars for _, chars in shown))


def _cut_text(text: str, tokens: int, limit: int) -> tuple[str, int]:
    if tokens <= limit:
        return text, 0
    # No text may look as if it had been cut elsewhere.
    return cut_to_tokens(text.replace(_CUT_MARK, "characters cut"), tokens, limit)


def _kind_of(body: bytes) -> str | None:
    """Return the kind of texts that take more tokens than estimated, alike in one judge."""
    ascii_bytes = len(body) - len(body.translate(None, _ASCII))
    if ascii_bytes < (1 - _WIDE_SHARE) * len(body):
        return "wide"
    return "solid" if body.count(b" ") < _LEAST_SPACES * len(body) else None
