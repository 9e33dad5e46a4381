"""What a profile is: how one family of judges is asked, and how its reply is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from genrm_cli.judging.verdict import Exhibit, Failure, Reply, Verdict

Message = dict[str, str]


@dataclass(frozen=True, slots=True)
class Profile:
    """How one family of judges is asked, and how its reply is read.

    Attributes:
        name: what `--profile` takes.
        version: grows whenever messages or reading change, so that old verdicts are not taken for new ones.
        about: one line for a person: which models, which scale.
        sampling: request fields (`temperature`, `top_p`, `max_tokens`) as the family's authors publish them.
        render_messages: exhibit → chat messages.
        parse_reply: reply → verdict, or the failure that explains why there is none. Never raises.
    """

    name: str
    version: int
    about: str
    sampling: Mapping[str, float]
    render_messages: Callable[[Exhibit], list[Message]]
    parse_reply: Callable[[Reply], Verdict | Failure]
