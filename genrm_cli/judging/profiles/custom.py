"""Parse a profile from a TOML table: the messages to the judge, and the form of its reply.

Custom files and most built-in families share this format and its checks.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from genrm_cli.errors import UsageError
from genrm_cli.judging.profiles.custom_verdict import parse_verdict, refuse_unknown
from genrm_cli.judging.profiles.profile import ChatMessage, Fields, Profile, freeze
from genrm_cli.judging.profiles.prompt import (
    DEFAULT_PRINCIPLE,
    NO_REFERENCE,
    NOT_RECORDED,
    render_pairwise,
)
from genrm_cli.judging.requests import PairwisePrompt
from genrm_cli.neutralise.forms import FRAME, fold
from genrm_cli.regex import escape

PLACEHOLDERS = ("conversation", "response_1", "response_2", "principle", "reference")

_PLACEHOLDER = re.compile(
    r"\{\{([a-z]\w*)\}\}|\{([a-z]\w*)\}"
)  # a literal word in braces, or a placeholder
_READING = 5  # increase it when the parsing of replies or the rendering of texts changes
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_KEYS = {"name", "about", "request", "messages", "delimiters", "frame", "verdict", "images"}


def parse_custom_profile(table: Fields, where: str) -> Profile:
    """Create a profile from a TOML table of the file `where`.

    Its version is a digest of its content, so that journals and outputs distinguish two versions of
    one file."""
    refuse_unknown(table, _KEYS, where)
    takes_reference = "frame" in table
    if takes_reference:
        render = _parse_frame(table, where)
        markers = FRAME
    else:
        delimiters = table.get("delimiters", [])
        if not isinstance(delimiters, list) or not all(
            isinstance(text, str) and len(text) > 1 for text in delimiters
        ):
            raise UsageError(
                f"{where}: delimiters must be strings of at least two characters, as in "
                "['<answer_a>']."
            )
        templates = _parse_templates(table, where)
        render = partial(_render_messages, templates)
        markers = tuple(escape(fold(each)[0] or each) for each in delimiters)
        takes_reference = "reference" in _placeholders_of(templates)
    if not isinstance(images := table.get("images", False), bool):
        raise UsageError(f"{where}: images is true or false.")
    request = table.get("request", {})
    about = table.get("about", f"from {where}")
    if not isinstance(request, Mapping):
        raise UsageError(f"{where}: [request] is a table of fields such as temperature.")
    parse_reply, forms = parse_verdict(table.get("verdict"), where)
    return Profile(
        name=parse_name(table, where),
        version=version_of([_READING, table]),
        about=str(about),
        request_fields=MappingProxyType({key: freeze(value) for key, value in request.items()}),
        render_messages=render,
        parse_reply=parse_reply,
        images=images,
        takes_reference=takes_reference,
        verdict_forms=forms,
        markers=markers,
    )


def _parse_frame(table: Fields, where: str) -> "partial[list[ChatMessage]]":
    frame = table["frame"]
    if "messages" in table or "delimiters" in table:
        raise UsageError(f"{where}: [frame] replaces [[messages]] and delimiters; remove those.")
    if not isinstance(frame, Mapping) or set(frame) != {"names", "closing"}:
        raise UsageError(f"{where}: [frame] has exactly the keys names and closing.")
    names = frame["names"]
    closing = frame["closing"]
    if names not in (["A", "B"], ["1", "2"]) or not isinstance(closing, str):
        raise UsageError(
            f"{where}: [frame]: names must be ['A', 'B'] or ['1', '2'], and closing must be a "
            "string."
        )
    return partial(render_pairwise, names=tuple(names), closing=closing)


def _render_messages(templates: list[ChatMessage], prompt: PairwisePrompt) -> list[ChatMessage]:
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
        {"role": message["role"], "content": _PLACEHOLDER.sub(fill, message["content"])}
        for message in templates
    ]


def _parse_templates(table: Fields, where: str) -> list[ChatMessage]:
    messages = table.get("messages")
    if not isinstance(messages, list) or not messages:
        raise UsageError(
            f"{where}: expected [[messages]], each with a role and a content, or a [frame]."
        )
    templates: list[ChatMessage] = []
    for message in messages:
        if not isinstance(message, Mapping) or set(message) != {"role", "content"}:
            raise UsageError(
                f"{where}: each of [[messages]] must have exactly a role and a content."
            )
        templates.append({"role": str(message["role"]), "content": str(message["content"])})
    used = _placeholders_of(templates)
    if unknown := used - set(PLACEHOLDERS):
        word = min(unknown)
        known = ", ".join(PLACEHOLDERS)
        raise UsageError(
            f"{where}: unknown placeholder {{{word}}}; expected one of {known}. {{{{{word}}}}} is "
            "the literal text."
        )
    if missing := {"response_1", "response_2"} - used:
        raise UsageError(f"{where}: no message contains {{{min(missing)}}}.")
    return templates


def _placeholders_of(templates: list[ChatMessage]) -> set[str]:
    content = "\n".join(template["content"] for template in templates)
    return {found[2] for found in _PLACEHOLDER.finditer(content) if found[2]}


def parse_name(table: Fields, where: str) -> str:
    """Return the name in a table, or else that of its file: lower-case letters, digits and
    hyphens.
    """
    name = table.get("name", where.rpartition("/")[2].removesuffix(".toml").lower())
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(
            f"{where}: invalid name {name!r}; use lower-case letters, digits and hyphens."
        )
    return name


def version_of(content: object) -> int:
    """Return a version that changes with the content."""
    text = json.dumps(content, sort_keys=True, default=str)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])
