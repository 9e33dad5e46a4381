"""What a profile is: how one family of judges is asked, and how its reply is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from genrm_cli.judging.requests import ListwisePrompt, PairwisePrompt, Prompt, Reply
from genrm_cli.verdicts import Failure, Grades, Judgment, Verdict

Message = dict[str, str]


def _as_it_is(prompt: PairwisePrompt) -> Mapping[str, int]:
    """Count nothing: roles of a chat template separate the texts, and none is changed."""
    del prompt
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
        render_messages: prompt → chat messages.
        parse_reply: reply → verdict, or the failure that explains why there is none. Never raises.
        render_second_turn: for families that are asked twice, what the judge said first, without its thinking → the
            messages that follow the first ones; the second reply holds the verdict.
        count_neutralised: prompt → in how many places the messages show the conversation, a response or the
            principle otherwise than it is, so that it cannot imitate what frames it; what is shown as it is, is
            left out.
    """

    name: str
    version: int
    about: str
    request_fields: Mapping[str, object]
    render_messages: Callable[[PairwisePrompt], list[Message]]
    parse_reply: Callable[[Reply], Verdict | Failure]
    render_second_turn: Callable[[str], list[Message]] | None = None
    count_neutralised: Callable[[PairwisePrompt], Mapping[str, int]] = _as_it_is


@dataclass(frozen=True, slots=True)
class GradingProfile:
    """How a judge is asked to grade responses that it does not compare in pairs, and how its reply is read.

    Attributes:
        name: what `--profile`, a rubric or a component calls it.
        version: as for `Profile`. Likewise `about` and `request_fields`.
        render_messages: prompt → chat messages.
        parse_reply: reply, and the prompt that was shown → grades, or the failure that explains why there are none.
            Never raises.
        whole_group: True if all responses of a group are shown in one prompt, False if each is shown alone.
    """

    name: str
    version: int
    about: str
    request_fields: Mapping[str, object]
    render_messages: Callable[[ListwisePrompt], list[Message]]
    parse_reply: Callable[[Reply, ListwisePrompt], Grades | Failure]
    whole_group: bool = False


AnyProfile = Profile | GradingProfile


def count_turns(profile: AnyProfile) -> int:
    """Return how many calls an opinion takes when all goes well."""
    return 2 if isinstance(profile, Profile) and profile.render_second_turn is not None else 1


def render_messages(profile: AnyProfile, shown: Prompt) -> list[Message]:
    """Render what a judge is shown.

    Raises:
        TypeError: a prompt for a profile that compares pairs, or the other way round.
    """
    if isinstance(profile, Profile) and isinstance(shown, PairwisePrompt):
        return profile.render_messages(shown)
    if isinstance(profile, GradingProfile) and isinstance(shown, ListwisePrompt):
        return profile.render_messages(shown)
    raise TypeError(f"{profile.name} is not asked about a {type(shown).__name__}")


def parse_reply(profile: AnyProfile, reply: Reply, shown: Prompt) -> Judgment | Failure:
    """Read the reply to what was shown.

    Raises:
        TypeError: it was not a prompt, for a profile that grades them.
    """
    if isinstance(profile, Profile):
        return profile.parse_reply(reply)
    if not isinstance(shown, ListwisePrompt):
        raise TypeError(f"{profile.name} is not asked about a {type(shown).__name__}")
    return profile.parse_reply(reply, shown)


def freeze(value: object) -> object:
    """Return a value of JSON that nobody can change: read-only mappings for dicts, tuples for lists."""
    if isinstance(value, Mapping):
        return MappingProxyType({key: freeze(member) for key, member in value.items()})
    return tuple(freeze(member) for member in value) if isinstance(value, list) else value
