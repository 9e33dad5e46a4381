"""A rollout and the text of a group, whatever dialect the line was written in."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple


class UnreadableRecordError(ValueError):
    """A line is JSON but no rollout can be read from it; the message says why."""


class Turn(NamedTuple):
    """One turn of a conversation; roles are `system`, `user`, `assistant` and `tool`."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Rollout:
    """One response (or episode) of the policy to one task.

    Attributes:
        prompt: the conversation that the policy answered.
        answer: the policy's own text, reasoning left out; empty if it said nothing; None if the line carries
            no response at all (inputs only, a failed generation).
        reasoning: the policy's reasoning, never shown to a judge.
        principle: what to judge by, if the line says so.
        task: the line's own name for its group (`task:3`, `prompt_id:x`); None if it has none.
        index: the rollout's number within its group, if the line says so.
        session: for an episode, all turns after the prompt: the whole session is judged, not one answer.
        line_is_group: True when all rollouts of the line form one group (many responses in one line).
    """

    prompt: tuple[Turn, ...]
    answer: str | None
    reasoning: str = ""
    principle: str | None = None
    task: str | None = None
    index: int | None = None
    session: tuple[Turn, ...] | None = None
    line_is_group: bool = False

    @property
    def has_prompt(self) -> bool:
        """Whether any turn of the prompt holds text."""
        return any(turn.text.strip() for turn in self.prompt)


@dataclass(frozen=True, slots=True)
class SharedView:
    """What a judge is shown of a group: one conversation, and one text a rollout in the group's order."""

    conversation: tuple[Turn, ...]
    responses: list[str]


def view_group(rollouts: Sequence[Rollout]) -> SharedView:
    """Return what a judge is shown of rollouts that share a prompt and all have a response.

    Episodes share the leading turns that are equal in all of them; the rest of each session is its response.
    """
    first = rollouts[0]
    if any(rollout.session is None for rollout in rollouts):
        return SharedView(first.prompt, [rollout.answer or "" for rollout in rollouts])
    ranks = zip(*(rollout.prompt for rollout in rollouts), strict=False)
    shared = sum(1 for _ in takewhile(lambda turns: len(set(turns)) == 1, ranks))
    sessions = [rollout.prompt[shared:] + (rollout.session or ()) for rollout in rollouts]
    return SharedView(first.prompt[:shared], [render_transcript(session) for session in sessions])


def render_transcript(turns: Sequence[Turn]) -> str:
    """Render turns as one text, each headed by its role."""
    return "\n\n".join(f"{turn.role.capitalize()}: {turn.text}" for turn in turns)
