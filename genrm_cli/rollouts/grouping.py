"""Determine the group of each rollout, and find the rollouts of each group.

The table holds about 64 bytes per rollout, regardless of the length of its text.
"""

import hashlib
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genrm_cli.rollouts.record import Rollout, Turn
from genrm_cli.rollouts.response import chars_of_items
from genrm_cli.rollouts.views import NOT_IN_TRIAL

_NO_INDEX = -(2**63)
_ATTEMPT_MASK = 2**32 - 1
_WAS_SPLIT = 2
UNGROUPED = "ungrouped:"  # prefix of the key of a rollout without the field named by `--group-by`


@dataclass(frozen=True, slots=True)
class Place:
    """The position of a rollout in the input.

    Attributes:
        line: number of the line, from 1.
        position: position among the rollouts of its line, from 0.
    """

    line: int
    position: int


def group_key(rollout: Rollout, line: int, override: str | None = None) -> str:
    """Return the key of the group that a rollout belongs to.

    It is the override (from `--group-by`), or else the task of the line, or else the prompt, always together with the
    principle. A line that is a whole group, and a rollout with neither task nor prompt, get their own key.
    """
    if override is not None:
        key = override
    elif rollout.line_is_group:
        key = f"line:{line}"
    elif rollout.task is not None:
        key = rollout.task
    elif rollout.has_prompt:
        key = f"prompt:{digest_of_prompt(rollout.prompt):016x}"
    else:
        key = f"line:{line}"
    if rollout.principle is not None:
        key += f" principle:{hashlib.sha256(rollout.principle.encode()).hexdigest()[:16]}"
    return key


def digest_of_prompt(prompt: tuple[Turn, ...]) -> int:
    """Return a 64-bit digest of a conversation: equal conversations, equal digests."""
    digest = hashlib.blake2b(digest_size=8)
    for turn in prompt:
        # Lengths keep ("ab", "c") and ("a", "bc") apart.
        for text in turn:
            encoded = text.encode()
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return int.from_bytes(digest.digest(), "little")


def value_at(record: Mapping[str, Any], path: str) -> str | None:
    """Return the text or number at a dotted path as text; None if there is none."""
    value: Any = record
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return f"{path}:{value}" if isinstance(value, str | int | float) and value != "" else None


class GroupTable:
    """The groups that the rollouts of an input form.

    Rows are rollouts in the order of the input. The number of a row identifies the rollout within a run.
    """

    def __init__(self) -> None:
        self._keys = array("Q")  # two words per rollout
        self._prompts = array("Q")
        self._indices = array("q")
        self._lines = array("Q")
        self._positions = array("I")
        self._attempts = array("Q")  # of the group, then of the rollout, in 32 bits each
        self._answered = array("B")
        self._split = array("B")
        self._prompt_chars = array("I")
        self._answer_chars = array("I")
        self._left_out = array("B")

    def __len__(self) -> int:
        return len(self._lines)

    def append(
        self,
        key: str,
        rollout: Rollout,
        place: Place,
        *,
        compared: bool | None = None,
        may_split: bool = True,
        prompt: int | None = None,
    ) -> None:
        """Add a rollout with its group key.

        Args:
            key: the key.
            rollout: the rollout.
            place: its position in the input.
            compared: whether it can be compared; by default, whether it has a response and is not excluded.
            may_split: whether different prompts under this key are different groups instead of a mistake.
            prompt: digest of the prompt that counts; by default, that of the rollout.
        """
        if compared is None:
            compared = rollout.is_comparable
        digest = hashlib.blake2b(key.encode(), digest_size=16).digest()
        self._keys.append(int.from_bytes(digest[:8], "little"))
        self._keys.append(int.from_bytes(digest[8:], "little"))
        # Episodes of one scenario may open differently; their common part is found when the group is read.
        if prompt is None:
            prompt = 0 if rollout.is_session else digest_of_prompt(rollout.prompt)
        self._prompts.append(prompt)
        self._indices.append(_NO_INDEX if rollout.index is None else rollout.index)
        self._lines.append(place.line)
        self._positions.append(place.position)
        self._attempts.append(rollout.group_attempt << 32 | rollout.attempt)
        self._answered.append(compared)
        self._split.append(may_split)
        self._left_out.append(False)
        self._prompt_chars.append(min(2**32 - 1, sum(len(turn.text) for turn in rollout.prompt)))
        self._answer_chars.append(min(2**32 - 1, chars_of_items(rollout.response or ())))

    def place(self, row: int) -> Place:
        """Return the position of a row's rollout in the input."""
        return Place(self._lines[row], self._positions[row])

    def iter_groups(self) -> Iterator[list[int]]:
        """Yield the rows of each group, groups by first appearance.

        Within a group, order by rollout index if all have one, otherwise by position in the input.
        """
        if not len(self):
            return
        starts, rows = self._sorted_rows()
        ends = np.append(starts[1:], len(rows))
        by_appearance = np.argsort(rows[starts], kind="stable")
        for group in by_appearance:
            for members in self._split_by_prompt(rows[starts[group] : ends[group]].tolist()):
                if all(self._indices[row] != _NO_INDEX for row in members):
                    members.sort(key=lambda row: (self._indices[row], row))
                yield members

    def leave_out(self, rows: list[int]) -> None:
        """Leave out a group that a trial does not reach."""
        for row in rows:
            self._left_out[row] = True

    def key_suffix(self, rows: list[int]) -> str:
        """Return what distinguishes a group from others of the same key with a different prompt; usually empty."""
        if self._split[rows[0]] != _WAS_SPLIT:
            return ""
        told_by = next((row for row in rows if self._answered[row]), rows[0])
        return f" prompt:{self._prompts[told_by]:016x}"

    def is_left_out(self, rows: list[int]) -> bool:
        """Whether a trial does not reach this group."""
        return bool(self._left_out[rows[0]])

    def left_out(self, rows: list[int]) -> dict[int, str]:
        """Return the rows of a group that this run excludes, each with the reason."""
        if self.is_left_out(rows):
            return dict.fromkeys(rows, NOT_IN_TRIAL)
        return self.superseded(rows)

    def superseded(self, rows: list[int]) -> dict[int, str]:
        """Return the rows of a group that a later attempt replaces, each with the reason.

        The last attempt at a group replaces all earlier ones; within it, the last attempt at a rollout index replaces
        earlier ones.
        """
        if not any(self._attempts[row] for row in rows):
            return {}
        last_group = max(self._attempts[row] >> 32 for row in rows)
        last: dict[int, int] = {}
        for row in rows:
            index, attempt = self._indices[row], self._attempts[row]
            if attempt >> 32 == last_group and index != _NO_INDEX:
                last[index] = max(attempt, last.get(index, 0))
        replaced = {}
        for row in rows:
            attempt = self._attempts[row]
            if attempt >> 32 < last_group:
                replaced[row] = f"superseded by attempt {last_group} of the group"
            elif attempt < last.get(self._indices[row], 0):
                replaced[row] = f"superseded by attempt {last[self._indices[row]] & _ATTEMPT_MASK} of the rollout"
        return replaced

    def duplicates(self, rows: list[int]) -> list[int]:
        """Return the rows of a group whose rollout index occurred before, except superseded ones."""
        seen: set[int] = set()
        repeated = []
        replaced = self.superseded(rows)
        for row in rows:
            if row in replaced:
                continue
            index = self._indices[row]
            if index != _NO_INDEX and index in seen:
                repeated.append(row)
            seen.add(index)
        return repeated

    def count_answered(self, rows: list[int]) -> int:
        """Count the rollouts of a group that can be compared."""
        return len(self.compared(rows))

    def compared(self, rows: list[int]) -> list[int]:
        """Return the rows of a group that can be compared: those with a response that nothing excludes."""
        left_out = self.left_out(rows)
        return [row for row in rows if self._answered[row] and row not in left_out]

    def chars_shown(self, rows: list[int], responses: int = 2) -> float:
        """Return the mean number of characters that a judge is shown with the prompt and this many responses."""
        answered = self.compared(rows)
        if not answered:
            return 0.0
        prompts = sum(self._prompt_chars[row] for row in answered)
        answers = sum(self._answer_chars[row] for row in answered)
        return (prompts + responses * answers) / len(answered)

    def prompts_differ(self, rows: list[int]) -> bool:
        """Whether the rollouts of a group answer different prompts, so that comparing them means nothing.

        Rollouts without a response do not count: if the environment states the task, their lines lack it.
        """
        return len({self._prompts[row] for row in rows if self._answered[row]}) > 1

    def _split_by_prompt(self, rows: list[int]) -> list[list[int]]:
        """Split a task index that was used for several prompts into one group per prompt, in order of appearance.

        A rollout that cannot be compared stays with its prompt, or with the first group if no other has it: if the
        environment states the task, lines without a response lack it.
        """
        prompts = dict.fromkeys(self._prompts[row] for row in rows if self._answered[row] and self._split[row])
        if len(prompts) < 2:
            return [rows]
        groups: dict[int, list[int]] = {prompt: [] for prompt in prompts}
        first = next(iter(groups))
        for row in rows:
            prompt = self._prompts[row]
            groups[prompt if prompt in groups else first].append(row)
            self._split[row] = _WAS_SPLIT
        return list(groups.values())

    def _sorted_rows(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return all rows sorted by group key, stably, and where each group starts among them."""
        keys = np.frombuffer(self._keys, dtype=np.uint64).reshape(-1, 2)
        rows = np.lexsort((keys[:, 1], keys[:, 0]))
        changes = np.any(keys[rows[1:]] != keys[rows[:-1]], axis=1)
        return np.append(0, np.flatnonzero(changes) + 1), rows
