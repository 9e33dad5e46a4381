"""Cut responses of several turns at one turn of the policy."""

from collections.abc import Sequence
from dataclasses import replace

from genrm_cli.rollouts.rollout import Item, Rollout, Turn, turns_of_items


def branch_at(rollout: Rollout, number: int) -> Rollout | None:
    """Return a rollout whose response is one turn of the policy, and whose prompt is everything before it.

    A turn is everything between two turns that the policy did not write: text, reasoning, calls and results.

    Args:
        rollout: a session, or a response with turns of an environment.
        number: number of the policy's turn, from 1.

    Returns:
        None if the policy has fewer turns.
    """
    items = rollout.response or ()
    turns = 0
    for start, item in enumerate(items):
        if isinstance(item, Turn):
            continue
        if start == 0 or isinstance(items[start - 1], Turn):
            turns += 1
            if turns == number:
                history = rollout.prompt + turns_of_items(items[:start])
                return replace(rollout, prompt=history, response=_turn_at(items, start))
    return None


def _turn_at(items: Sequence[Item], start: int) -> tuple[Item, ...]:
    end = next((at for at in range(start, len(items)) if isinstance(items[at], Turn)), len(items))
    return tuple(items[start:end])
