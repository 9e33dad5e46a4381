"""NVIDIA's Nemotron 32B GenRM-Principle: one response at a time, graded by the probability of the
judgement `Yes`.

Decoding is greedy, with the log probabilities of the likeliest tokens; servers send at most 20 of
them."""

import math
from collections.abc import Mapping
from types import MappingProxyType

from genrm_cli.judging.profiles.answer import Answer, Carrier, parse_prose, pick_own, unreadable
from genrm_cli.judging.profiles.families import nemotron
from genrm_cli.judging.profiles.profile import ChatMessage, GradingProfile
from genrm_cli.judging.profiles.prompt import NOT_RECORDED
from genrm_cli.judging.requests import ListwisePrompt, Reply
from genrm_cli.texts.late_pattern import late_pattern
from genrm_cli.verdicts import MAX_SCORE, MIN_SCORE, Failure, Grades

_PRINCIPLE = """\
The response helps the user: it is correct, does what was asked, leaves out nothing that matters, \
and says no more than is useful."""
_JUDGEMENT = late_pattern(r"Final Judge?ment:\s*+(Yes|No)\b")


def _render_messages(prompt: ListwisePrompt) -> list[ChatMessage]:
    history = [nemotron.render_turn(role, text) for role, text in prompt.conversation]
    return [
        *(history or [{"role": "user", "content": NOT_RECORDED}]),
        {"role": "assistant", "content": prompt.responses[0]},
        {"role": "principle", "content": prompt.principle or _PRINCIPLE},
    ]


def _parse_reply(reply: Reply, prompt: ListwisePrompt) -> Grades | Failure:
    """Map the margin between Yes and No at the judgement to `1 + 4 / (1 + exp(-margin))`; the note
    holds the margin.

    If one of the two is not among the listed tokens, the least likely of these is an upper bound of
    its probability, and the margin is a lower bound in size. Without a gap to that token, there is
    no margin.

    Source: the model card of Qwen3-Nemotron-32B-GenRM-Principle: reward = logprob(Yes) -
    logprob(No)."""

    def read(answer: Answer) -> Grades:
        own = pick_own(answer, _find_judgements(answer.text), "no Final Judgement: Yes or No")
        if answer.unfinished and own.end == len(answer.text):
            raise unreadable(f"{own.parsed} may be the beginning of another word")
        # Tokens are counted from the end, because those of thoughts may come before the text.
        following = reply.text[answer.start + own.start :]
        margin = _margin(_likely_tokens(reply, own.parsed, len(_find_judgements(following))))
        if margin is None:
            raise unreadable(
                "no log probabilities of Yes and No came with the judgement (top_logprobs)"
            )
        probability = 1 / (1 + math.exp(-margin)) if margin > -500 else 0.0
        grade = MIN_SCORE + (MAX_SCORE - MIN_SCORE) * probability
        return Grades((grade,), (f"margin {margin:.4f}",))

    return parse_prose(reply, prompt, read)


def _find_judgements(text: str) -> list[Carrier[str]]:
    return [Carrier(found.start(), found.end(), found[1]) for found in _JUDGEMENT.finditer(text)]


def _likely_tokens(reply: Reply, said: str, from_end: int) -> Mapping[str, float]:
    """Return the likeliest tokens in the position of a judgement, counted from the last one; empty
    if not found.
    """
    text = "".join(token for token, _ in reply.tokens)
    found = list(_JUDGEMENT.finditer(text))[-from_end:]
    if len(found) == from_end and found[0][1] == said:
        end = 0
        for token, likely in reply.tokens:
            end += len(token)
            if end > found[0].start(1):
                return likely if token.strip() == said else {}
    return {}


def _margin(likely: Mapping[str, float]) -> float | None:
    """Return the log probability of Yes less that of No, each in its likeliest spelling; None if
    unknown.
    """
    ascending = sorted((value, token) for token, value in likely.items() if math.isfinite(value))
    likeliest = {token.strip(): value for value, token in ascending}
    least = ascending[0][0] if ascending else 0.0
    margin = likeliest.get("Yes", least) - likeliest.get("No", least)
    if {"Yes", "No"} <= likeliest.keys():
        return margin
    return margin or None  # a server that lists only one token does not bound the other


PROFILE = GradingProfile(
    name="nemotron-principle",
    models=("*qwen3-nemotron-32b-genrm-principle",),
    version=2,
    about="NVIDIA Nemotron 32B GenRM-Principle, each response alone (one call per response); "
    "grade 1 to 5 by the "
    "log probability of Yes less that of No; its server must send logprobs",
    request_fields=MappingProxyType(
        {"temperature": 0.0, "max_tokens": 16384, "logprobs": True, "top_logprobs": 20}
    ),
    render_messages=_render_messages,
    parse_reply=_parse_reply,
    verdict_forms=(r"Final Judge?ment:\s*(?:Yes|No)?",),
    markers=(),
)
