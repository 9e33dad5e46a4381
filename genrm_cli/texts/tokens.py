"""Estimate the tokens of texts, where no server has counted them, and cut texts to fit."""

import string
from collections.abc import Sequence

# Tokenisers give each of these a token of its own.
_DENSE = (string.digits + string.punctuation).encode()
_REPLY_TOKENS = 4_096  # of a judge whose profile sets no limit
_MARGIN_TOKENS = 256  # of the chat template
LEAST_TOKENS = 64  # less of a text is not worth judging
_LEAST_SHOWN = 40  # minimum number of characters that a cut leaves


def estimate_tokens(text: str | bytes) -> int:
    """Return about the most tokens of a text: one for each digit and ASCII symbol, one for three
    other bytes.

    Prose, code, JSON, LaTeX and Chinese take 0.6 to 1.04 times as many with Mistral's vocabularies
    of 32,000 and 131,000 tokens; base64 takes 1.8 times as many, emoji up to 3 times."""
    raw = text.encode("utf-8", "replace") if isinstance(text, str) else text
    others = len(raw.translate(None, _DENSE))
    return len(raw) - others + -(-others // 3)


def tokens_beside_texts(context: int, instructions: int, reply_tokens: int | None) -> int:
    """Return the tokens of a context to reserve for the reply and the marks of a chat template.

    Args:
        context: of the judge.
        instructions: what a prompt has beside its texts.
        reply_tokens: the limit of the reply; None without one.
    """
    reply = min(_REPLY_TOKENS, context // 2) if reply_tokens is None else reply_tokens
    if reply + instructions + _MARGIN_TOKENS >= context:
        # A server that takes such a request at all does not reserve the whole limit.
        reply = context // 2
    return reply + _MARGIN_TOKENS


def share_room(turns: Sequence[int], responses: Sequence[int], room: int) -> tuple[int, int]:
    """Return the most tokens that each turn and each response may have if they share a room.

    The conversation may take half of the room before the responses do."""
    of_turns = max(_share([*turns, *responses], room), _share(turns, room // 2))
    return of_turns, _share(responses, room - sum(min(each, of_turns) for each in turns))


def _share(lengths: Sequence[int], room: int) -> int:
    """Return the most tokens that each of some texts may have if they share a room."""
    for number, length in enumerate(sorted(lengths)):
        share = room // (len(lengths) - number)
        if length > share:
            return share
        room -= length
    return max(lengths, default=0)


def cut_to_tokens(text: str, tokens: int, limit: int) -> tuple[str, int]:
    """Cut the middle out of a text of so many tokens; return it with the number of characters
    cut.
    """
    if tokens <= limit:
        return text, 0
    keep = len(text) * limit // tokens
    while estimate_tokens((cut := cut_middle(text, keep))[0]) > limit and keep > LEAST_TOKENS:
        keep = keep * 9 // 10  # the ends are denser than the whole
    return cut


def cut_middle(text: str, max_chars: int) -> tuple[str, int]:
    """Cut the middle out of a long text, keeping start and end; return it with the number of
    characters cut.
    """
    if len(text) <= max_chars:
        return text, 0
    keep = max(max_chars - len(_cut_mark(len(text))), _LEAST_SHOWN)
    cut = len(text) - keep
    if cut <= 0:
        return text, 0
    head = keep - keep // 2
    return text[:head] + _cut_mark(cut) + text[head + cut :], cut


def _cut_mark(chars: int) -> str:
    return f"\n[--- {chars:,} characters cut ---]\n"
