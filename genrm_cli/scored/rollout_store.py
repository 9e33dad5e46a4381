"""The rollouts of an input on disk, so that its lines are parsed once.

Rows are pickled one after another, and memory holds where each is. The prompt is a row of its
own in a second file, found by its digest while it is recent: the rollouts of a task share it, and a
long session would otherwise be stored once for each.
"""

import hashlib
import pickle
from collections import OrderedDict
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

from msgspec.structs import replace

from genrm_cli.json_types import Record
from genrm_cli.rollouts.rollout import CallingTurn, Media, Rollout, Turn
from genrm_cli.storage.spool import Pieces, Spool

# Collectors write the rollouts of a task near each other. A prompt that comes back later is stored
# again, which costs disk, and nothing else.
_PROMPTS_REMEMBERED = 4_096
_SHARED: Record = {"prompt": (), "tools": (), "prompt_media": ()}  # by rollouts of one task
_Kept = TypeVar("_Kept")
_Prompt = tuple[tuple[Turn, ...], tuple[str, ...], tuple[Media, ...]]


class RolloutStore(AbstractContextManager["RolloutStore[_Kept]"], Generic[_Kept]):
    """The rollouts of an input by row, each with its group key and a value; 16 bytes of memory a
    rollout.

    A prompt that several recent rollouts share is kept once, with its tools and images.
    """

    def __init__(self) -> None:
        self._rollouts = Spool()
        self._rows = Pieces(self._rollouts)
        self._prompts = Spool()
        self._recent: OrderedDict[bytes, tuple[int, int]] = OrderedDict()
        # Rollouts of a group are read one after another, and share their prompt.
        self._last: tuple[tuple[int, int], _Prompt] | None = None

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the rollouts."""
        self._rollouts.close()
        self._prompts.close()

    def append(self, key: str | None, rollout: Rollout, value: _Kept) -> None:
        """Keep the rollout of the next row with its group key and a value."""
        own = replace(rollout, **_SHARED)
        row = (key, self._keep_prompt(rollout), own, vars(rollout), value)
        self._rows.add(len(self._rows), pickle.dumps(row, pickle.HIGHEST_PROTOCOL))

    def _keep_prompt(self, rollout: Rollout) -> tuple[int, int]:
        # Pickled tuples are smaller than pickled turns.
        turns = [turn if isinstance(turn, CallingTurn) else tuple(turn) for turn in rollout.prompt]
        prompt = turns, rollout.tools, rollout.prompt_media
        pickled = pickle.dumps(prompt, pickle.HIGHEST_PROTOCOL)
        digest = hashlib.blake2b(pickled, digest_size=16).digest()
        span = self._recent.get(digest)
        if span is None:
            span = self._recent[digest] = self._prompts.write(pickled)
            if len(self._recent) > _PROMPTS_REMEMBERED:
                self._recent.popitem(last=False)
        self._recent.move_to_end(digest)
        return span

    def read(self, row: int) -> tuple[str | None, Rollout, _Kept]:
        """Return the group key of a row, its rollout and its value."""
        row_bytes = self._rows[row]
        key, span, own, computed, value = pickle.loads(row_bytes)  # noqa: S301  (our own bytes)
        prompt, tools, media = self._prompt_at(span)
        rollout = replace(own, prompt=prompt, tools=tools, prompt_media=media)
        vars(rollout).update(computed)
        return key, rollout, value

    def _prompt_at(self, span: tuple[int, int]) -> _Prompt:
        if self._last is None or self._last[0] != span:
            # Our own bytes, as above.
            turns, tools, media = pickle.loads(self._prompts.read(*span))  # noqa: S301
            self._last = (
                span,
                (
                    tuple(turn if isinstance(turn, Turn) else Turn(*turn) for turn in turns),
                    tools,
                    media,
                ),
            )
        return self._last[1]
