"""Find the rollouts of each group of an input, with about 55 bytes per rollout, regardless of its
text.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from genrm_cli.rollouts.group_keys import digest_of_key, digest_of_prompt, prompt_as_key
from genrm_cli.rollouts.rollout import Rollout, chars_of_items, only_words
from genrm_cli.rollouts.row_groups import BLOCK_ROWS, RareNumbers, RowGroups, Words, group_rows
from genrm_cli.verdicts import Explanation, Reason

# No rollout index: `integer` reads none beyond 62 bits.
_NO_INDEX = -(2**63)
# The attempt at a rollout is in the lower half of the number of its attempts.
_ATTEMPT_MASK = 2**32 - 1
# In the column that says whether a task may be split by prompt, 0 and 1 are no and yes; these say
# that it was, and that the prompt is the key.
_WAS_SPLIT = 2
_BY_PROMPT = 3


class Place(NamedTuple):
    """The position of a rollout in the input: its line, from 1, its position in it and its file of
    a set, from 0.
    """

    line: int
    position: int
    file: int = 0


class GroupTable:
    """The groups that the rollouts of an input form.

    Rows are rollouts in the order of the input. The number of a row identifies the rollout within a
    run. In a set of several files, task ids may contradict each other: one names a group only if
    all its rollouts have one prompt. Rollouts of other ids, and all others with the same prompts,
    are grouped by the prompt."""

    def __init__(self, *, spans_files: bool = False) -> None:
        self._spans_files = spans_files
        self._file_starts = array("Q")
        self._keys = array("Q")  # hashes; prompts distinguish keys that share one by chance
        self._prompts = array("Q")
        self._references = RareNumbers("q")
        self._shown = array("q")
        self._indices = array("q")
        self._lines = array("Q")
        self._positions = RareNumbers("I")
        self._attempts = RareNumbers("Q")  # of the group, then of the rollout, in 32 bits each
        self._answered = array("B")
        self._split = array("B")
        self._prompt_chars = array("I")
        self._answer_chars = array("I")
        self._left_out = array("B")
        self._groups: RowGroups | None = None
        self._contradicting_ids = 0

    def __len__(self) -> int:
        return len(self._lines)

    def begin_file(self) -> None:
        """Begin the next file: the rows that follow are its own."""
        self._file_starts.append(len(self))

    def append(
        self,
        key: str | None,
        rollout: Rollout,
        place: Place,
        *,
        compared: bool | None = None,
        may_split: bool = True,
        prompt: int | None = None,
        shown: object = None,
    ) -> None:
        """Add a rollout with its group key; None if it belongs to no group.

        Args:
            compared: whether it can be compared; by default, whether it has a response and is not
                excluded.
            may_split: whether different prompts under this key are different groups instead of a
                mistake.
            prompt: digest of the prompt that counts; by default, that of the rollout.
            shown: what judges see of it; rollouts of a group that are equal in it are one. By
                default, all differ.
        """
        self._groups = None
        # No other key begins with NUL: each begins with the path of a field, or with a kind.
        self._keys.append(digest_of_key(f"\0{len(self)}" if key is None else key))
        # Episodes of one scenario may open differently; their common part is found when the group
        # is read.
        if prompt is None:
            prompt = 0 if rollout.opens_freely else digest_of_prompt(rollout.prompt)
        if self._spans_files:  # the prompt may become the key
            prompt = prompt_as_key(prompt, rollout)
        self._prompts.append(prompt)
        self._references.append(hash(rollout.reference))
        self._shown.append(hash((len(self), None) if shown is None else shown))
        self._indices.append(_NO_INDEX if rollout.index is None else rollout.index)
        self._lines.append(place.line)
        self._positions.append(place.position)
        self._attempts.append(rollout.group_attempt << 32 | rollout.attempt)
        self._answered.append(rollout.is_comparable if compared is None else compared)
        self._split.append(may_split)
        self._left_out.append(False)
        chars = sum(len(turn.text) for turn in rollout.prompt) + len(rollout.reference or "")
        if rollout.tools and not only_words(rollout.response or ()):  # shown before a transcript
            chars += sum(map(len, rollout.tools))
        self._prompt_chars.append(min(2**32 - 1, chars))
        self._answer_chars.append(min(2**32 - 1, chars_of_items(rollout.response or ())))

    @property
    def contradicting_ids(self) -> int:
        """Number of task ids that name several prompts in a set of files; their rollouts are
        grouped by prompt.
        """
        if len(self):
            self._formed()
        return self._contradicting_ids

    def place(self, row: int) -> Place:
        """Return the position of a row's rollout in the input."""
        return Place(self._lines[row], self._positions[row], self._file_of(row))

    def line(self, row: int) -> int:
        """Return the number of a row's line in its file."""
        return self._lines[row]

    def file_rows(self, file: int) -> range:
        """Return the rows of a file."""
        start, end = [*self._file_starts, len(self)][file : file + 2]
        return range(start, end)

    def _file_of(self, row: int) -> int:
        return max(0, bisect_right(self._file_starts, row) - 1)

    def iter_groups(self) -> Iterator[list[int]]:
        """Yield the rows of each group, groups by first appearance; within a group by rollout index
        if all have one.
        """
        if not len(self):
            return
        for rows in self._formed():
            for members in self._split_by_prompt(rows.tolist()):
                if all(self._indices[row] != _NO_INDEX for row in members):
                    members.sort(key=lambda row: (self._indices[row], row))
                yield members

    def shard_of(self, rows: list[int], shards: int) -> int:
        """Return the shard that a group belongs to, from 0, by a hash of its key: the same on every
        machine.
        """
        told_apart = self._prompt_of(rows) if self._split[rows[0]] == _WAS_SPLIT else 0
        return (self._keys[rows[0]] ^ told_apart) % shards

    def prompts(self) -> Words:
        """Return the digests of the prompts of the rollouts that can be compared, each once."""
        prompts = np.frombuffer(self._prompts, np.uint64)
        answered = np.frombuffer(self._answered, np.uint8)
        return np.unique(prompts[(answered > 0) & (prompts > 0)])

    def leave_out(self, rows: list[int]) -> None:
        """Leave out a group that a trial does not reach."""
        for row in rows:
            self._left_out[row] = True

    def key_of(self, rows: list[int], key: str | None) -> str | None:
        """Return the key of a group whose rollouts were added with `key`.

        The prompt distinguishes a group from others of the same key, and is the key if task ids
        contradict each other."""
        split = self._split[rows[0]]
        if key is None or split not in (_BY_PROMPT, _WAS_SPLIT):
            return key
        named = f"prompt:{self._prompt_of(rows):016x}"
        return named if split == _BY_PROMPT else f"{key} {named}"

    def _prompt_of(self, rows: list[int]) -> int:
        return self._prompts[next((row for row in rows if self._answered[row]), rows[0])]

    def is_left_out(self, rows: list[int]) -> bool:
        """Whether a trial does not reach this group."""
        return bool(self._left_out[rows[0]])

    def left_out(self, rows: list[int]) -> dict[int, Explanation]:
        """Return the rows of a group that this run excludes, each with the reason."""
        if self.is_left_out(rows):
            return dict.fromkeys(rows, Explanation(Reason.NOT_IN_TRIAL))
        return self.superseded(rows)

    def superseded(self, rows: list[int]) -> dict[int, Explanation]:
        """Return the rows of a group that a later attempt replaces, each with the reason.

        The last attempt at a group replaces all earlier ones; within it, the last attempt at a
        rollout index replaces earlier ones. Each file of a set numbers its attempts and rollouts
        independently."""
        if not self._attempts:
            return {}
        last: dict[tuple[int, int | None], int] = {}  # by file and index; of the group by file
        for row in rows:
            file, index = self._place_in_file(row)
            for place in ((file, None), (file, index)):
                last[place] = max(self._attempts[row], last.get(place, 0))
        replaced = {}
        for row in rows:
            file, index = self._place_in_file(row)
            of_group = last[file, None] >> 32
            if self._attempts[row] >> 32 < of_group:
                told = f"attempt {of_group} of the group"
            elif index != _NO_INDEX and self._attempts[row] < last[file, index]:
                told = f"attempt {last[file, index] & _ATTEMPT_MASK} of the rollout"
            else:
                continue
            replaced[row] = Explanation(Reason.SUPERSEDED, told)
        return replaced

    def duplicates(self, rows: list[int]) -> list[int]:
        """Return the rows of a group whose rollout index occurred before in their file, except
        superseded ones.
        """
        replaced = self.superseded(rows)
        first: dict[tuple[int, int], int] = {}
        counted = [row for row in rows if self._indices[row] != _NO_INDEX and row not in replaced]
        repeated = [
            row for row in counted if first.setdefault(self._place_in_file(row), row) != row
        ]
        return sorted(repeated, key=self._file_of)

    def _place_in_file(self, row: int) -> tuple[int, int]:
        """Return the file of a row and its rollout index, which counts within the file."""
        return self._file_of(row), self._indices[row]

    @property
    def answered(self) -> int:
        """The number of rollouts that can be compared, superseded ones included."""
        return sum(self._answered)

    def count_answered(self, rows: list[int]) -> int:
        """Count the different rollouts of a group that can be compared."""
        return len(set(self.originals(rows).values()))

    def originals(self, rows: list[int]) -> dict[int, int]:
        """Return the rows of a group that can be compared, each with the first one that is equal to
        judges.
        """
        first: dict[int, int] = {}
        return {row: first.setdefault(self._shown[row], row) for row in self.compared(rows)}

    def compared(self, rows: list[int]) -> list[int]:
        """Return the rows of a group that can be compared: those with a response that nothing
        excludes.
        """
        left_out = self.left_out(rows)
        return [row for row in rows if self._answered[row] and row not in left_out]

    def chars_shown(self, rows: list[int], responses: int = 2) -> float:
        """Return the mean number of characters that a judge is shown with the prompt and this many
        responses.
        """
        answered = self.compared(rows)
        chars = (self._prompt_chars[row] + responses * self._answer_chars[row] for row in answered)
        return sum(chars) / max(1, len(answered))

    def mixed(self, rows: list[int]) -> Reason | None:
        """Return why comparing the rollouts of a group means nothing: what they answer differs;
        None if it does not.

        Rollouts without a response do not count: if the environment states the task, their lines
        lack it."""
        answered = [row for row in rows if self._answered[row]]
        if len({self._prompts[row] for row in answered}) > 1:
            return Reason.MIXED_PROMPTS
        references = {self._references[row] for row in answered}
        return Reason.MIXED_REFERENCES if len(references) > 1 else None

    def _split_by_prompt(self, rows: list[int]) -> list[list[int]]:
        """Split a task index that was used for several prompts into one group per prompt, in order
        of appearance.

        A rollout that cannot be compared stays with its prompt, or with the first group if no other
        has it: if the environment states the task, lines without a response lack it."""
        prompts = dict.fromkeys(
            self._prompts[row] for row in rows if self._answered[row] and self._split[row]
        )
        if len(prompts) < 2:
            return [rows]
        groups: dict[int, list[int]] = {prompt: [] for prompt in prompts}
        first = next(iter(groups))
        for row in rows:
            prompt = self._prompts[row]
            groups[prompt if prompt in groups else first].append(row)
            self._split[row] = _WAS_SPLIT
        return list(groups.values())

    def _formed(self) -> RowGroups:
        if self._groups is None:
            keys = np.frombuffer(self._keys, dtype=np.uint64)
            groups = group_rows(keys)
            if self._spans_files and self._group_by_prompt(keys, groups):
                groups = group_rows(keys)
            self._groups = groups
        return self._groups

    def _group_by_prompt(self, keys: Words, groups: RowGroups) -> bool:
        """Give the rollouts of task ids that name several prompts, and others with these prompts,
        keys of the prompt.

        Returns whether there are any. Rollouts without a prompt of their own, such as episodes,
        keep their keys."""
        prompts = np.frombuffer(self._prompts, dtype=np.uint64)
        split = np.frombuffer(self._split, dtype=np.uint8)
        counts = (np.frombuffer(self._answered, dtype=np.uint8) > 0) & (split > 0) & (prompts > 0)
        contradicting: list[Words] = []
        for rows in groups:
            own = prompts[rows[counts[rows]]] if len(rows) > 1 else prompts[:0]
            if len(own) > 1 and (own != own[0]).any():
                contradicting.append(np.unique(own))
        self._contradicting_ids = len(contradicting)
        if not contradicting:
            return False
        theirs = np.unique(np.concatenate(contradicting))
        for start in range(0, len(prompts), BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            moved = np.isin(prompts[block], theirs) & (split[block] > 0)
            keys[block][moved] = prompts[block][moved]
            split[block][moved] = _BY_PROMPT
        return True
