"""Shorten the texts of a group until they fit into the context of its judges.

Tokens are estimated, since a judge's tokeniser is not at hand and requests must be the same in
every run."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from genrm_cli.rollouts.rollout import Turn
from genrm_cli.rollouts.views import SharedView, neutralise
from genrm_cli.texts.tokens import LEAST_TOKENS, cut_to_tokens, estimate_tokens, share_room

_TURN_TOKENS = 16  # of the markers around a turn
_IMAGE_TOKENS = 2_048  # of a photograph; vision models of 2026 take 300 to 4,000
_LEAST_LIST = 3  # responses; in a shorter list, a group of any size would have a block of one


class Room(NamedTuple):
    """The tokens for texts in a prompt of a judge, and its number of responses, at most; None for
    all of a group.
    """

    tokens: int
    responses: int | None


def shorten_view(view: SharedView, rooms: Sequence[Room], *, is_marked: bool) -> SharedView:
    """Cut the middle out of the longest texts of a group until each prompt fits into each room.

    Conversation and responses get the same limit, the largest with which the longest responses fit
    into one prompt. So a rollout is shown alike in all its comparisons. A list has fewer responses
    before any of them is cut, three at least. The conversation may take
    half of the room before the responses do: otherwise long responses would hide the task from the
    judge, also where others are compared. Principle, rubric, reference and background stay whole.
    So does a view that fits, or of which too little would be left. If the texts are marked already,
    nothing in them can imitate a marker."""
    if not rooms or not view.responses:
        return view
    turns = [estimate_tokens(turn.text) for turn in view.conversation]
    responses = [estimate_tokens(text) for text in view.responses]
    fixed = _tokens_beside(view) + _TURN_TOKENS * len(turns)
    rooms = [Room(room.tokens - fixed, room.responses) for room in rooms]
    lists = [room for room in rooms if room.responses is not None and room.responses > 2]
    if sizes := [_list_that_fits(sum(turns), responses, room) for room in lists]:
        view = replace(view, list_size=min(sizes))
        rooms = [Room(room.tokens, min(sizes)) if room in lists else room for room in rooms]
    limits = [_limits(turns, responses, room.responses, room.tokens) for room in rooms]
    of_turns, of_responses = (min(each) for each in zip(*limits, strict=True))
    cuts = [(max(turns, default=0), of_turns), (max(responses), of_responses)]
    # Nothing to cut, or so much that what is left is not worth judging.
    limits_of_cut = [limit for longest, limit in cuts if longest > limit]
    if min(limits_of_cut, default=0) < LEAST_TOKENS:
        return view
    texts = view.responses if is_marked else list(map(neutralise, view.responses))
    shown = [
        cut_to_tokens(text, tokens, of_responses)
        for text, tokens in zip(texts, responses, strict=True)
    ]
    asked = [
        cut_to_tokens(neutralise(turn.text) if tokens > of_turns else turn.text, tokens, of_turns)
        for turn, tokens in zip(view.conversation, turns, strict=True)
    ]
    cut = sum(chars for _, chars in asked)
    return replace(
        view,
        conversation=tuple(
            Turn(turn.role, text) for turn, (text, _) in zip(view.conversation, asked, strict=True)
        ),
        responses=[text for text, _ in shown],
        shortened=tuple(cut + chars for _, chars in shown),
    )


def _tokens_beside(view: SharedView) -> int:
    """Return the tokens of what a prompt has beside conversation and responses."""
    listed = (*view.criteria.values(), *view.constraints.values())
    rubrics = ["\n".join(each.text for each in criteria) for criteria in listed]
    backgrounds = [text or "" for text in view.backgrounds.values()]
    longest = (max(each, key=len, default="") for each in (backgrounds, rubrics))
    texts = view.comparing_principle or "", view.reference or "", *longest
    return sum(map(estimate_tokens, texts)) + _IMAGE_TOKENS * len(view.images)


def _list_that_fits(turns: int, responses: Sequence[int], room: Room) -> int:
    """Return the most responses of a list that fit uncut, however they are chosen."""
    size = room.responses or len(responses)
    longest = sorted(responses, reverse=True)
    while size > _LEAST_LIST and turns + sum(longest[:size]) > room.tokens:
        size = min(size, len(responses)) - 1
    return max(size, _LEAST_LIST)


def _limits(
    turns: Sequence[int], responses: Sequence[int], count: int | None, room: int
) -> tuple[int, int]:
    """Return the most tokens that each turn and each response may have if the longest responses
    share a room.

    A response that has not arrived yet may be as long as the longest.
    """
    if count is None or count > 2:  # a list, which is shown when the whole group is there
        count = min(count or len(responses), len(responses))
    longest = sorted(responses)[-count:]
    shown = [*longest, *[longest[-1]] * (count - len(longest))]
    return share_room(turns, shown, room)
