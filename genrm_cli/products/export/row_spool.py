"""The rows of an export on disk, until it is known which to keep, in what order, and on which side
of a split.
"""

from array import array
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AbstractContextManager

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from genrm_cli.products.export.balance import balanced
from genrm_cli.products.export.candidates import Candidate, digest_of_items
from genrm_cli.products.export.rows import Json
from genrm_cli.rollouts.rollout import Reasoning
from genrm_cli.storage.encoding.records import render_record
from genrm_cli.storage.spool import Spool


class _Side(Struct):
    """The answers on one side: the number of the row, the reward and the characters of each."""

    rows: "array[int]" = field(default_factory=lambda: array("I"))
    rewards: "array[float]" = field(default_factory=lambda: array("d"))
    chars: "array[int]" = field(default_factory=lambda: array("q"))


class SideNumbers(Struct, frozen=True):
    """Rewards and lengths in characters of the responses on one side of an export, in the order of
    the rows.
    """

    rewards: NDArray[np.float64]
    chars: NDArray[np.int64]


class RowSpool(AbstractContextManager["RowSpool"]):
    """Rows by number, in the order in which they were made; about 30 bytes of memory a row, and 20
    an answer.

    Attributes:
        leaders: digest of the prompt of the first candidate of each row's group.
        with_reasoning: number of responses with reasoning in each row; `only_reasoning`: pairs that
            differ in it alone.
    """

    def __init__(self) -> None:
        self.leaders = array("Q")
        self.with_reasoning = array("I")
        self.only_reasoning = array("B")
        self._spool = Spool()
        self._ends = array("Q", [0])
        self._sides: defaultdict[str, _Side] = defaultdict(_Side)

    def __exit__(self, *_: object) -> None:
        self._spool.close()

    def __len__(self) -> int:
        return len(self.leaders)

    def append(self, row: Json, leader: int, answers: Sequence[tuple[str, Candidate]]) -> None:
        """Add a row: its JSON, the digest of its leader, and its rollouts with their sides."""
        for name, answer in answers:
            side = self._sides[name]
            side.rows.append(len(self))
            side.rewards.append(answer.reward)
            side.chars.append(answer.chars)
        self._spool.write(render_record(row))
        self._ends.append(len(self._spool))
        self.leaders.append(leader)
        given = [answer.items for _, answer in answers]
        self.with_reasoning.append(
            sum(any(isinstance(item, Reasoning) for item in items) for items in given)
        )
        is_pair = answers[0][0] == "chosen"
        texts = {digest_of_items(items, with_reasoning=False) for items in given if is_pair}
        self.only_reasoning.append(len(texts) == 1)

    def line(self, number: int) -> bytes:
        """Return a row as a JSON line."""
        start = self._ends[number]
        return self._spool.read(start, self._ends[number + 1] - start)

    def balanced(self, seed: int) -> NDArray[np.bool_]:
        """Return which rows, all of them pairs, to keep so that length does not tell chosen from
        rejected.
        """
        chosen, rejected = (np.array(self._sides[name].chars) for name in ("chosen", "rejected"))
        return np.array(balanced((chosen - rejected).tolist(), seed), dtype=bool)

    def sides(self, kept: NDArray[np.bool_]) -> dict[str, SideNumbers]:
        """Return the numbers of the responses of the rows that are kept, by side."""
        found = {}
        for name, side in sorted(self._sides.items()):
            mask = kept[list(side.rows)]
            if mask.any():
                found[name] = SideNumbers(np.array(side.rewards)[mask], np.array(side.chars)[mask])
        return found
