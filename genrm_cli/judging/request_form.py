"""The fields of a request besides its messages: as settings plan them, and as the model's server
takes them.

Servers of reasoning models refuse fields that others need (`max_tokens`, `temperature`). The first
refusal changes the form of all later requests, in this run and, through the journal, in the next
ones. A change is never taken back, so that no two requests with one key differ.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from genrm_cli.judging.pacing.judge_events import AdaptedEvent
from genrm_cli.metrics.event import OnEvent, ignore_event
from genrm_cli.settings.judge_settings import JudgeSettings
from genrm_cli.settings.kinds import parse_request_field

SCHEMA = "response_format"
LIMITS = ("max_completion_tokens", "max_tokens")  # of a reply, by either name
_SUCCESSORS = {"max_tokens": "max_completion_tokens"}
_NEEDED = frozenset(
    {"model", "messages", "logprobs", "top_logprobs"}
)  # without them there is no verdict

# Texts in a JSON schema: an English token has four characters, one of odd text two.
_CHARS_OF_TOKEN = 2
_TOKENS_OF_VALUE = 14  # its key, a score, and white space
_LEAST_CHARS = 40
_LONG_REPLY_TOKENS = 1_024
_ITEMS = 8  # of a list whose length is not known

Fields = Mapping[str, object]


class RefusedField(NamedTuple):
    """A field that a server refuses.

    `is_unsupported` says that the model takes no such field, or one value only; otherwise the field
    is wrong. `instead` is the field that the server names in its place."""

    name: str
    is_unsupported: bool
    instead: str | None = None


def limit_of(fields: Fields) -> str:
    """Return the name of the field that limits replies."""
    return next((name for name in LIMITS if name in fields), LIMITS[-1])


def override_fields(profile_fields: Fields, judge: JudgeSettings) -> dict[str, object]:
    """Return the fields that settings add to those of a profile, or replace; None leaves one
    out.
    """
    named = dict(map(parse_request_field, judge.request_field))
    given = {
        "temperature": judge.temperature,
        "top_p": judge.top_p,
        limit_of(profile_fields): judge.max_reply_tokens,
    }
    fields: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    if not named.keys().isdisjoint(LIMITS):  # servers refuse both
        fields |= dict.fromkeys(LIMITS)
    if judge.max_reply_tokens is not None and SCHEMA in profile_fields:
        fields[SCHEMA] = bound_texts(profile_fields[SCHEMA], judge.max_reply_tokens)
    return fields | named


def reply_limit(profile_fields: Fields, judge: JudgeSettings) -> int | None:
    """Return the most tokens of a reply; None if it is not limited."""
    planned = {**profile_fields, **override_fields(profile_fields, judge)}
    most = planned.get(
        limit_of({name: value for name, value in planned.items() if value is not None})
    )
    return most if isinstance(most, int) else None


def bound_texts(response_format: object, reply_tokens: int) -> object:
    """Return a response format whose schema bounds the texts that the judge writes freely, so that
    they end before the limit of the reply.

    Only short limits need it, and not all servers take a bound: a long one is left out."""
    values = list(_iter_values(response_format))
    texts = sum(map(_is_free_text, values))
    if reply_tokens > _LONG_REPLY_TOKENS or not texts:
        return response_format
    chars = _CHARS_OF_TOKEN * max(0, reply_tokens - _TOKENS_OF_VALUE * len(values)) // texts
    return _with_bound(response_format, max(_LEAST_CHARS, chars))


def _iter_values(schema: object) -> Iterator[Fields]:
    """Yield the schemas of all values that the judge writes, those of a list several times."""
    if not isinstance(schema, Mapping):
        return
    if schema.get("type") in ("string", "integer", "number", "boolean"):
        yield schema
        return
    for _ in range(_ITEMS if schema.get("type") == "array" else 1):
        for member in schema.values():
            yield from _iter_values(member)


def _is_free_text(schema: Fields) -> bool:
    return schema.get("type") == "string" and "enum" not in schema


def _with_bound(schema: object, chars: int) -> object:
    if not isinstance(schema, Mapping):
        return schema
    bounded = {name: _with_bound(value, chars) for name, value in schema.items()}
    return bounded | {"maxLength": chars} if _is_free_text(schema) else bounded


class RequestForm:
    """How a model's server takes requests: fields that it refused are renamed or left out from then
    on.

    All endpoints and judges of the model share it, so that all verdicts are on the same request,
    which their key identifies.

    Attributes:
        version: number of changes to the planned form; a change is never taken back.
    """

    def __init__(self, model: str = "", on_event: OnEvent = ignore_event) -> None:
        """Begin with the form that is planned; each change is an event."""
        self._model = model
        self._on_event = on_event
        self._changes: dict[str, str | None] = {}
        self.version = 0

    def adapt(self, planned: Fields) -> dict[str, object]:
        """Return the fields as the server takes them."""
        fields: dict[str, object] = {}
        for planned_name, value in planned.items():
            name: str | None = planned_name
            while name in self._changes:
                name = self._changes[name]
            if name is not None:
                fields[name] = value
        return fields

    def learn(
        self, refused: RefusedField | None, planned: Fields, fixed: Collection[str] = ()
    ) -> bool:
        """Change the form by a refusal; return whether it changed. What the user fixed, or parsers
        need, stays.
        """
        if (
            refused is None
            or not refused.is_unsupported
            or refused.name in _NEEDED
            or refused.name in fixed
        ):
            return False
        instead = refused.instead or _SUCCESSORS.get(refused.name)
        if refused.name not in (sent := self.adapt(planned)):
            return False
        return self._change(refused.name, None if instead in sent else instead, sent[refused.name])

    def recall(self, text: str) -> None:
        """Add the changes of another run, from its form as text."""
        for name, instead in json.loads(text).items():
            if name not in self._changes:
                self._change(name, instead)

    def _change(self, name: str, instead: str | None, value: object = None) -> bool:
        if instead in self._changes:  # endpoints that contradict each other
            return False
        self._changes[name] = instead
        self.version += 1
        refused = name if value is None else f"{name}={json.dumps(value, default=dict)}"
        remedy = "leave it out" if instead is None else f"use {instead}"
        detail = f"{refused}: its requests {remedy}"
        self._on_event(AdaptedEvent(self._model, name, instead, detail))
        return True

    def __str__(self) -> str:
        return json.dumps(self._changes) if self._changes else ""
