"""What a profile is: how one family of judges is asked, and how its reply is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from genrm_cli.judging.verdict import Exhibit, Failure, Reply, Verdict

Message = dict[str, str]


def _as_it_is(exhibit: Exhibit) -> Mapping[str, int]:
    """Count nothing: roles of a chat template separate the texts, and none is changed."""
    del exhibit
    return {}


@dataclass(frozen=True, slots=True)
class Profile:
    """How one family of judges is asked, and how its reply is read.

    Attributes:
        name: what `--profile` takes.
        version: grows whenever messages or reading change, so that old verdicts are not taken for new ones.
        about: one line for a person: which models, which scale, and how it becomes a verdict.
        request_fields: fields of the request beside model and messages: sampling (`temperature`, `top_p`,
            `max_tokens`), as the family's authors publish it if they do, and what else the family needs. They
            are part of the request's identity, their order included; values may be mappings, never changed.
        render_messages: exhibit → chat messages.
        parse_reply: reply → verdict, or the failure that explains why there is none. Never raises.
        count_neutralised: exhibit → in how many places the messages show the conversation, a response or the
            principle otherwise than it is, so that it cannot imitate what frames it; what is shown as it is, is
            left out.
    """

    name: str
    version: int
    about: str
    request_fields: Mapping[str, object]
    render_messages: Callable[[Exhibit], list[Message]]
    parse_reply: Callable[[Reply], Verdict | Failure]
    count_neutralised: Callable[[Exhibit], Mapping[str, int]] = _as_it_is


def freeze(value: object) -> object:
    """Return a value of JSON that nobody can change: read-only mappings for dicts, tuples for lists."""
    if isinstance(value, Mapping):
        return MappingProxyType({key: freeze(member) for key, member in value.items()})
    return tuple(freeze(member) for member in value) if isinstance(value, list) else value
