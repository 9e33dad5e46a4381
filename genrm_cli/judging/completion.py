"""Parse the bodies of an OpenAI-compatible server: chat completions and lists of models."""

import math
import re
from collections.abc import Iterable

import msgspec

from genrm_cli.judging.requests import Reply
from genrm_cli.typed_json import FormError, from_json

_Object = dict[str, object]
_MAX_TOKENS = 10**9  # of one reply; a higher count is a server error
# OpenAI and nearly all others; those that copy its newer API.
_PROMPT_FIELDS = ("prompt_tokens", "input_tokens")
_COMPLETION_FIELDS = ("completion_tokens", "output_tokens")
# The context that is loaded, then that of the model: LM Studio; llama.cpp; TabbyAPI; vLLM and
# SGLang; OpenRouter and Together; Mistral; Groq; GitHub; Anthropic and Google; llama.cpp's of
# training.
_CONTEXT_FIELDS = (
    ("loaded_context_length",),
    ("meta", "n_ctx"),
    ("n_ctx",),
    ("parameters", "max_seq_len"),
    ("max_seq_len",),
    ("max_model_len",),
    ("top_provider", "context_length"),
    ("context_length",),
    ("max_context_length",),
    ("context_window",),
    ("context_size",),
    ("max_context_window_tokens",),
    ("capabilities", "limits", "max_context_window_tokens"),
    ("limits", "max_context_window_tokens"),
    ("max_input_tokens",),
    ("model_info", "max_input_tokens"),
    ("inputTokenLimit",),
    ("meta", "n_ctx_train"),
)


class ReportedError(ValueError):
    """A reply with status 200 reports an error.

    Attributes:
        said: the error: an object, or text.
        status: the status that it names, or 500: the call is made again.
        introduced: says that this is no status of the reply.
    """

    def __init__(self, said: object) -> None:
        super().__init__("the server reports an error")
        code = str(_object(said).get("code"))
        self.status = int(code) if re.fullmatch("[45][0-9][0-9]", code) else 500
        self.introduced = "HTTP 200, and the server reports an error"
        self.said = said


def parse_models(listing: object) -> dict[str, int | None]:
    """Parse the reply to `GET /models`, or raise `ValueError`; omit names that cannot be printed.

    Return the context length of each model in tokens, that of its base model for an adapter; None
    if the server does not report it."""
    data = _object(listing).get("data")
    if not isinstance(data, list):
        raise ValueError("no list of models")
    lengths: dict[str, int | None] = {}
    bases: dict[str, str] = {}
    for card in map(_object, data):
        name = _text(card.get("id"))
        if name and name.isprintable():
            lengths[name] = _context_of(card)
            bases[name] = str(card.get("parent"))
    return {name: lengths[name] or lengths.get(bases[name]) for name in sorted(lengths)}


def _context_of(card: _Object) -> int | None:
    for path in _CONTEXT_FIELDS:
        value: object = card
        for name in path:
            value = _object(value).get(name)
        if count := _count(value):
            return count
    return None


def parse_completion(completion: object) -> Reply:
    """Parse a chat completion object. The choice with index 0 counts, or the first if none has an
    index.

    `ValueError` for an object that has no choice with a
    message, or reports an error, even next to a half-finished reply."""
    try:
        reported = _object(completion).get("error")
        if reported:
            raise ReportedError(reported)
        choices = completion["choices"]  # type: ignore[index]
        firsts = [each for each in choices if _object(each).get("index") == 0]
        if len(firsts) > 1:
            raise ValueError("two choices have index 0")
        choice = firsts[0] if firsts else choices[0]
        if choice.get("index") not in (0, None):
            raise ValueError("no choice has index 0")
        message = choice["message"]
        error = choice.get("error")
        if error or choice.get("finish_reason") == "error":
            raise ReportedError(error or "no reason")
        content = message.get("content")
        prompt_tokens, completion_tokens = _tokens_in(_object(_object(completion).get("usage")))
        reasoning = message.get("reasoning_content") or message.get("reasoning")
        return Reply(
            text=_text_in(content),
            reasoning=_text(reasoning) or "",
            finish_reason=_text(choice.get("finish_reason")),
            refusal=_text(message.get("refusal")),
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            tokens=_tokens(choice.get("logprobs")),
            model=_text(_object(completion).get("model")),
        )
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError("no choice with a message") from error


def _text_in(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = [_object(part) for part in content] if isinstance(content, list) else []
    return "".join(_text(part.get("text")) or "" for part in parts)


class _Likely(msgspec.Struct):
    token: str
    logprob: float


class _Token(_Likely):
    top_logprobs: list[_Likely] | None = None


class _Logprobs(msgspec.Struct):
    content: list[_Token]


def _tokens(logprobs: object) -> tuple[tuple[str, dict[str, float]], ...]:
    """Return the tokens, each with the likely tokens in its place; none if the data is
    malformed.
    """
    if logprobs is None:
        return ()
    try:
        content = from_json(_Logprobs, logprobs).content
    except FormError:
        return ()
    return tuple(
        (each.token, {like.token: like.logprob for like in (each, *(each.top_logprobs or ()))})
        for each in content
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _object(value: object) -> _Object:
    return value if isinstance(value, dict) else {}


def _tokens_in(usage: _Object) -> tuple[int | None, int | None]:
    """Return the tokens of prompt and reply, each None if it is unknown.

    Some servers leave reasoning out of the reply's tokens (xAI), but not out of the total."""
    prompt = _first_count(usage, _PROMPT_FIELDS)
    completion = _first_count(usage, _COMPLETION_FIELDS)
    total = _count(usage.get("total_tokens"))
    if total is not None and prompt is not None:
        completion = max(completion or 0, total - prompt)
    elif total is not None and completion is not None:
        prompt = max(0, total - completion)
    return prompt, completion


def _first_count(usage: _Object, names: Iterable[str]) -> int | None:
    for name in names:
        count = _count(usage.get(name))
        if count is not None:
            return count
    return None


def _count(value: object) -> int | None:
    """Return a plausible token count in any form of a number; None for anything else, since sums
    must fit the journal's columns.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        count = float(value)
    except (ValueError, OverflowError):
        return None
    return math.ceil(count) if 0 <= count <= _MAX_TOKENS else None
