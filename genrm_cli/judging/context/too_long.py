"""Read from a server's refusal that a request exceeds the judge's context, and the limit that it
names.

Servers agree on neither status nor words, and some name no number. So a reading is a suspicion:
`LearnedContext` believes it once a shorter request has passed."""

import re
from collections.abc import Mapping

from genrm_cli.texts.late_pattern import late_pattern
from genrm_cli.verdicts import TooLong

# 413 says it by itself. OpenAI and Groq answer 429 to a request above the tokens of a minute, which
# would never pass; llama.cpp once answered 500.
TOO_LARGE = 413
STATUSES = (400, TOO_LARGE, 422, 429, 500)
_WITHOUT_DOUBT = (429, 500)
_CODES = ("context_length_exceeded", "exceed_context_size_error", "string_above_max_length")
_EXCEEDS = (
    r"too (?:long|large|many)|exceed|longer than|greater than|larger than|more than|maximum|\bmax\b"
    r"|max_|at most|limit|range of|less than|<=|overflow|not enough|\bfit|reduce the length"
    r"|shorten|超"
)
_OF_WHAT = (
    r"context|prompt|input|sequence|conversation|message|request|tokens?\b|length|window|n_ctx"
)
_SAID = late_pattern(rf"(?=.*(?:{_EXCEEDS}))(?=.*(?:{_OF_WHAT}))", re.IGNORECASE | re.DOTALL)
_SURE = late_pattern(
    r"context (?:length|size|window|limit)|too many (?:input )?tokens|(?:prompt|input|request"
    r"|conversation|messages?) (?:is|are) too (?:long|large)|request too large|maximum (?:prompt"
    r"|model|input) length|input tokens? (?:exceed|count)|n_ctx",
    re.IGNORECASE,
)
# Limits of something else: of the reply alone, of images, of a sampling parameter, of time.
_OTHER = late_pattern(
    r"completion tokens|output tokens|images?\b|files?\b|logprobs|temperature|top_p|top_k"
    r"|penalty|\bstop\b|tool|role|schema|json|expired|invalid token|per (?:second|day|hour)"
    r"|requests per|unrecognized|unknown|unsupported|not supported|at least",
    re.IGNORECASE,
)
_UNSUPPORTED = late_pattern(r"unsupported|not supported", re.IGNORECASE)
_NUMBER = late_pattern(r"(?<![\w.])\d{1,3}(?:[,_]\d{3})+(?![\w])|(?<![\w.])\d+(?:\.0+)?(?![\w])")
_LEAST_LIMIT = 256  # tokens; a smaller number is a code, a share or a count of messages
_LIMIT_WORDS = late_pattern(
    r"context|maxim|max\b|max_|limit|window|allowed|less than|<=|cannot exceed|only|most|up to"
    r"|support|configured|available|size|range|longer than|larger than|greater than",
    re.IGNORECASE,
)
_REQUEST_WORDS = late_pattern(
    r"requested|resulted|given|\bgot\b|\bhas\b|received|contain|actual|current|used|sent"
    r"|passed|total of",
    re.IGNORECASE,
)
_AFTER_LIMIT = late_pattern(
    r"\W*(?:tokens?\W+)?(?:maxim|max\b|limit|context|allowed)", re.IGNORECASE
)
_AFTER_REQUEST = late_pattern(
    r"\W*(?:tokens?\W+)?(?:in the|from the|for the|of text|input|>|[+-] ?\d)", re.IGNORECASE
)
_BEFORE_CHARS = 60  # in which the words stand that say what a number is
_LIMIT_FIELDS = ("n_ctx", "max_model_len", "context_length", "max_context_length", "context_window")
_PROMPT_FIELDS = ("n_prompt_tokens", "prompt_tokens", "input_tokens")


def parse_too_long(status: int | None, error: Mapping[str, object], message: str) -> TooLong | None:
    """Return what an error body says about the length of its request; None if it is about
    something else.

    Args:
        status: of the reply.
        error: the error in its body.
        message: the server's words in it.
    """
    if status not in STATUSES:
        return None
    named = [error.get(name) for name in ("code", "type")]
    is_sure = any(name in _CODES for name in named) or (
        _SURE.search(message) is not None and _UNSUPPORTED.search(message) is None
    )
    is_said = status == TOO_LARGE or (
        _SAID.match(message) is not None and _OTHER.search(message) is None
    )
    if not (is_sure or (is_said and status not in _WITHOUT_DOUBT)):
        return None
    limit = next((count for name in _LIMIT_FIELDS if (count := _count(error.get(name)))), None)
    prompt = next((count for name in _PROMPT_FIELDS if (count := _count(error.get(name)))), None)
    return TooLong(limit or _limit_in(message, status), prompt)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and value >= _LEAST_LIMIT else None


def _limit_in(message: str, status: int) -> int | None:
    """Return the number that the words around it make a limit; None without one."""
    best_score = 0
    best = None
    start = 0
    for match in _NUMBER.finditer(message):
        number = int(float(match[0].replace(",", "").replace("_", "")))
        if number < _LEAST_LIMIT or number == status:
            continue
        before = message[max(start, match.start() - _BEFORE_CHARS) : match.start()]
        start = match.end()
        words = {found[0].lower() for found in _LIMIT_WORDS.finditer(before)}
        score = len(words) + 3 * before.rstrip().endswith(">")
        score -= 2 * len(_REQUEST_WORDS.findall(before))
        score -= 3 * before.rstrip().endswith("+")
        score += 2 * bool(_AFTER_LIMIT.match(message, match.end()))
        score -= 3 * bool(_AFTER_REQUEST.match(message, match.end()))
        if score > best_score:
            best_score = score
            best = number
    return best
