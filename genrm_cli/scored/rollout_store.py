"""The rollouts of an input on disk, so that its lines are parsed once."""

import hashlib
import pickle
from array import array
from collections import OrderedDict
from contextlib import AbstractContextManager
from dataclasses import fields
from typing import Generic, TypeVar

from genrm_cli.rollouts.rollout import Rollout, Turn
from genrm_cli.storage.spool import Spool

_PROMPTS_REMEMBERED = 4_096
_FIELDS = tuple(field.name for field in fields(Rollout))
_Kept = TypeVar("_Kept")


class RolloutStore(AbstractContextManager["RolloutStore[_Kept]"], Generic[_Kept]):
    """The rollouts of an input by row, each with its group key and a value; 8 bytes of memory a rollout.

    A prompt that several recent rollouts share is kept once.
    """

    def __init__(self) -> None:
        self._rollouts, self._prompts = Spool(), Spool()
        self._offsets = array("Q")
        self._recent: OrderedDict[bytes, tuple[int, int]] = OrderedDict()
        self._last: tuple[tuple[int, int], tuple[Turn, ...]] | None = None

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the rollouts."""
        self._rollouts.close()
        self._prompts.close()

    def append(self, key: str | None, rollout: Rollout, kept: _Kept) -> None:
        """Keep the rollout of the next row with its group key and a value."""
        values = [getattr(rollout, name) for name in _FIELDS[1:]]
        row = (key, self._keep_prompt(rollout.prompt), values, kept)
        offset, _ = self._rollouts.append(pickle.dumps(row, pickle.HIGHEST_PROTOCOL))
        self._offsets.append(offset)

    def _keep_prompt(self, prompt: tuple[Turn, ...]) -> tuple[int, int]:
        pickled = pickle.dumps([tuple(turn) for turn in prompt], pickle.HIGHEST_PROTOCOL)
        digest = hashlib.blake2b(pickled, digest_size=16).digest()
        span = self._recent.get(digest)
        if span is None:
            span = self._recent[digest] = self._prompts.append(pickled)
            if len(self._recent) > _PROMPTS_REMEMBERED:
                self._recent.popitem(last=False)
        self._recent.move_to_end(digest)
        return span

    def read(self, row: int) -> tuple[str | None, Rollout, _Kept]:
        """Return the group key of a row, its rollout and its value."""
        end = self._offsets[row + 1] if row + 1 < len(self._offsets) else len(self._rollouts)
        packed = self._rollouts.read(self._offsets[row], end - self._offsets[row])
        key, span, values, kept = pickle.loads(packed)  # noqa: S301  (our own bytes, in a file without a name)
        return key, Rollout(self._prompt_at(span), *values), kept

    def _prompt_at(self, span: tuple[int, int]) -> tuple[Turn, ...]:
        if self._last is None or self._last[0] != span:
            pickled = self._prompts.read(*span)
            self._last = span, tuple(Turn(*turn) for turn in pickle.loads(pickled))  # noqa: S301  (as above)
        return self._last[1]
