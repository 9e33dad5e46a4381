"""A rollout, independent of the format of its line."""

from dataclasses import dataclass
from functools import cached_property

from genrm_cli.rollouts.response import (
    Item,
    Text,
    Turn,
    final_words_of,
    media_of,
    reasoning_of,
    turns_of_items,
    words_of,
)


class UnreadableRecordError(ValueError):
    """A line is JSON, but no rollout can be read from it; the message says why."""


@dataclass(frozen=True)
class Rollout:
    """One response (or episode) of the policy to one task.

    Attributes:
        prompt: the conversation that the policy answered.
        response: its response in order; empty if it did nothing; None if the line has no response (only inputs, or a
            failed generation).
        principle: the criterion to judge by, if the line has one.
        task: name of the group in the line (`task:3`, `prompt_id:x`); None if it has none.
        index: index of the rollout in its group, if the line has one.
        group_attempt: number of the attempt at the whole group; a later attempt replaces an earlier one.
        attempt: number of the attempt at this rollout; likewise.
        is_session: whether it is an episode, so that the whole session is judged instead of one answer.
        opens_freely: whether episodes of its group may begin with other words; otherwise a group answers one prompt.
        line_is_group: whether all rollouts of the line form one group (several responses in one line).
        is_truncated: whether a token, turn or time limit cut the response off.
        excluded: why it must not be compared (masked, failed); None if it may be.
        is_left_out: whether this run excludes it, rather than its line: a later attempt replaces it, or a trial does
            not reach it.
        prompt_media: kinds of the images and files in the prompt.
    """

    prompt: tuple[Turn, ...]
    response: tuple[Item, ...] | None
    principle: str | None = None
    task: str | None = None
    index: int | None = None
    group_attempt: int = 0
    attempt: int = 0
    is_session: bool = False
    opens_freely: bool = False
    line_is_group: bool = False
    is_truncated: bool = False
    excluded: str | None = None
    is_left_out: bool = False
    prompt_media: tuple[str, ...] = ()

    @cached_property
    def answer(self) -> str | None:
        """All text of the policy, joined, without reasoning; empty if it wrote none, None without a response."""
        return None if self.response is None else words_of(self.response)

    @cached_property
    def final_answer(self) -> str:
        """The text after the last call, result or turn of the environment."""
        return final_words_of(self.response or ())

    @cached_property
    def reasoning(self) -> str:
        """The policy's reasoning, never shown to a judge."""
        return reasoning_of(self.response or ())

    @cached_property
    def session(self) -> tuple[Turn, ...] | None:
        """For an episode, all turns after the prompt, without reasoning; None otherwise."""
        return turns_of_items(self.response or ()) if self.is_session else None

    @property
    def is_comparable(self) -> bool:
        """Whether it has a response and is not excluded."""
        return self.response is not None and self.excluded is None

    @property
    def media(self) -> tuple[str, ...]:
        """Kinds of the images and files in prompt and response."""
        return self.prompt_media + media_of(self.response or ())

    @property
    def stripped_tokens(self) -> int:
        """Number of chat-template tokens removed from the ends of its texts."""
        return sum(item.stripped_tokens for item in self.response or () if isinstance(item, Text))

    @property
    def has_prompt(self) -> bool:
        """Whether any turn of the prompt has text."""
        return any(turn.text.strip() for turn in self.prompt)


__all__ = ["Rollout", "Turn", "UnreadableRecordError"]
