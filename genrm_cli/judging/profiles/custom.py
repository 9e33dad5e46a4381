"""Parse a profile from a TOML table: the messages to the judge, and the form of its reply.

Custom files and most built-in families share this format and its checks.
"""

import re
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any, Literal

from msgspec import Meta

from genrm_cli.errors import UsageError
from genrm_cli.judging.profiles.custom_verdict import VerdictTable, parse_verdict
from genrm_cli.judging.profiles.profile import ChatMessage, Fields, Profile, freeze
from genrm_cli.judging.profiles.prompt import (
    DEFAULT_PRINCIPLE,
    NO_REFERENCE,
    NOT_RECORDED,
    render_pairwise,
)
from genrm_cli.judging.profiles.toml_table import NamedTable, TomlTable, parse_table, version_of
from genrm_cli.judging.requests import PairwisePrompt
from genrm_cli.neutralise.forms import FRAME, fold
from genrm_cli.texts.late_pattern import late_pattern
from genrm_cli.texts.regex import escape

PLACEHOLDERS = ("conversation", "response_1", "response_2", "principle", "reference")

# A literal word in braces, or a placeholder.
_PLACEHOLDER = late_pattern(r"\{\{([a-z]\w*)\}\}|\{([a-z]\w*)\}")
_READING = 6  # increase it when the parsing of replies or the rendering of texts changes


class _MessageTable(TomlTable):
    role: str
    content: str


class _FrameTable(TomlTable):
    names: tuple[Literal["A", "1"], Literal["B", "2"]]
    closing: str


class _ProfileTable(NamedTable, kw_only=True):
    verdict: VerdictTable | list[VerdictTable]
    request: dict[str, Any] = {}
    messages: list[_MessageTable] = []
    # One character would break up half of all texts.
    delimiters: list[Annotated[str, Meta(min_length=2)]] = []
    frame: _FrameTable | None = None
    images: bool = False


def parse_custom_profile(table: Fields, where: str) -> Profile:
    """Create a profile from a TOML table of the file `where`.

    Its version is a digest of its content, so that journals and outputs distinguish two versions of
    one file."""
    given = parse_table(_ProfileTable, table, where)
    frame = given.frame
    if (frame is None) != bool(given.messages) or (frame and given.delimiters):
        raise UsageError(f"{where}: expected either [[messages]] and delimiters, or a [frame].")
    if frame is None:
        used = _check_placeholders(given.messages, where)
        render = partial(_render_messages, given.messages)
        markers = tuple(escape(fold(each)[0] or each) for each in given.delimiters)
    else:
        used = {"reference"}
        render = partial(render_pairwise, names=frame.names, closing=frame.closing)
        markers = FRAME
    parse_reply, forms = parse_verdict(given.verdict, where)
    return Profile(
        name=given.name,
        version=version_of([_READING, table]),
        about=given.about,
        request_fields=MappingProxyType(
            {key: freeze(value) for key, value in given.request.items()}
        ),
        render_messages=render,
        parse_reply=parse_reply,
        images=given.images,
        takes_reference="reference" in used,
        verdict_forms=forms,
        markers=markers,
    )


def _render_messages(templates: list[_MessageTable], prompt: PairwisePrompt) -> list[ChatMessage]:
    texts = {
        "conversation": "\n\n".join(f"{role}: {text}" for role, text in prompt.conversation)
        or NOT_RECORDED,
        "response_1": prompt.response_1,
        "response_2": prompt.response_2,
        "principle": DEFAULT_PRINCIPLE if prompt.principle is None else prompt.principle,
        "reference": NO_REFERENCE if prompt.reference is None else prompt.reference,
    }

    def fill(match: re.Match[str]) -> str:
        return texts[match[2]] if match[2] else f"{{{match[1]}}}"

    # One pass, so that placeholders within a response are never filled.
    return [
        {"role": template.role, "content": _PLACEHOLDER.sub(fill, template.content)}
        for template in templates
    ]


def _check_placeholders(templates: list[_MessageTable], where: str) -> set[str]:
    """Return the placeholders in messages; each must be known, and both responses be shown."""
    content = "\n".join(template.content for template in templates)
    used = {found[2] for found in _PLACEHOLDER.finditer(content) if found[2]}
    if unknown := used.difference(PLACEHOLDERS):
        word = min(unknown)
        known = ", ".join(PLACEHOLDERS)
        raise UsageError(
            f"{where}: unknown placeholder {{{word}}}; expected one of {known}. {{{{{word}}}}} is "
            "the literal text."
        )
    if missing := {"response_1", "response_2"} - used:
        raise UsageError(f"{where}: no message contains {{{min(missing)}}}; add it.")
    return used
