"""NVIDIA's Nemotron 3 Ultra GenRM: the roles of `nemotron`, several principles as a numbered list,
nested JSON.
"""

from types import MappingProxyType

from msgspec.structs import replace

from genrm_cli.judging.profiles.families import nemotron
from genrm_cli.judging.profiles.profile import ChatMessage, Profile
from genrm_cli.judging.profiles.scores_json import FORMS, parse_scores_json
from genrm_cli.judging.requests import PairwisePrompt
from genrm_cli.texts.late_pattern import late_pattern

_BULLET = late_pattern(r"(?:[-*•]|[0-9]{1,3}[.)])[ \t]+")


def _render_messages(prompt: PairwisePrompt) -> list[ChatMessage]:
    if prompt.principle is not None:
        prompt = replace(prompt, principle=_render_principles(prompt.principle))
    return nemotron.render_messages(prompt)


def _render_principles(principle: str) -> str:
    """Number the principles, one per line; an indented line without a bullet continues the previous
    one.
    """
    items: list[str] = []
    for line in filter(str.strip, principle.splitlines()):
        text = line.strip()
        bullet = _BULLET.match(text)
        if items and line[0].isspace() and bullet is None:
            items[-1] += " " + text
        else:
            items.append(text[bullet.end() :] if bullet else text)
    if len(items) < 2:
        return principle
    return "\n".join(f"{number}. {item}" for number, item in enumerate(items, 1))


PROFILE = Profile(
    name="nemotron-ultra",
    models=("*nvidia-nemotron-3-ultra-550b-a55b-genrm",),
    version=4,
    about="NVIDIA Nemotron 3 Ultra GenRM with its roles, one principle per line; scores 1 to 5 "
    "and ranking of "
    "`overall`, unchanged",
    request_fields=MappingProxyType({"temperature": 1.0, "top_p": 0.95, "max_tokens": 24576}),
    render_messages=_render_messages,
    parse_reply=parse_scores_json,
    verdict_forms=FORMS,
    markers=(),
)
