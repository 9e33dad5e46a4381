"""The scored rollouts of all inputs: numbers in arrays, texts in a temporary file.

About 80 bytes of memory per rollout, whatever the length of its text.
"""

import hashlib
import math
import pickle
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np

from genrm_cli.export.candidates import Candidate, GroupOfCandidates
from genrm_cli.export.rows import Tool, tools_of
from genrm_cli.json_types import Record
from genrm_cli.rollouts.grouping import digest_of_prompt
from genrm_cli.rollouts.rollout import Item, Reasoning, Turn, chars_of_items
from genrm_cli.scored.parse_lines import ScoredRollout
from genrm_cli.storage.spool import Spool

_MAX_CHARS = 2**32 - 1


@dataclass(frozen=True, slots=True)
class StoredRollout:
    """The texts of a rollout.

    Attributes:
        prompt: the prompt that it answers.
        items: its response.
        tools: tools that the policy could call.
        logprobs: log probabilities of its tokens; None if the line has none.
        advantage: advantage as scored; None if unknown.
        is_session: whether it is a whole session.
        prompt_id: digest of the prompt.
    """

    prompt: tuple[Turn, ...]
    items: tuple[Item, ...]
    tools: tuple[Tool, ...]
    logprobs: list[float] | None
    advantage: float | None
    is_session: bool
    prompt_id: int


@dataclass(frozen=True, slots=True)
class GroupName:
    """A group: the number of its file, its key, and who judged it."""

    file: int
    key: str
    judge: str | None


class ScoredTable:
    """Rollouts that can be exported, by row, in the order of the inputs. Use it as a context manager."""

    def __init__(self) -> None:
        self.groups: list[GroupName] = []
        self._numbers: dict[tuple[int, str], int] = {}
        self._group = array("I")
        self._index = array("q")
        self._reward, self._error, self._base_score = array("d"), array("d"), array("d")
        self._chars = array("I")
        self._text, self._prompt = array("Q"), array("Q")
        self._gated, self._teacher = array("B"), array("B")
        self._ends = array("Q")
        self._spool = Spool()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._spool.close()

    def __len__(self) -> int:
        return len(self._group)

    def group_number(self, file: int, key: str, judge: str | None) -> int:
        """Return the number of a group, a new one where it is new: each file has groups of its own."""
        number = self._numbers.setdefault((file, key), len(self.groups))
        if number == len(self.groups):
            self.groups.append(GroupName(file, key, judge))
        return number

    def find_group(self, file: int, key: str) -> int | None:
        """Return the number of a known group."""
        return self._numbers.get((file, key))

    def append(self, group: int, scored: ScoredRollout, *, with_reasoning: bool) -> None:
        """Add a rollout with a reward; `with_reasoning`: reasoning is exported, and so tells texts apart."""
        rollout, line = scored.rollout, scored.line
        items, prompt = rollout.response or (), digest_of_prompt(rollout.prompt)
        self._group.append(group)
        self._index.append(line.index)
        self._reward.append(_number(line.reward))
        self._error.append(_number(line.standard_error))
        self._base_score.append(_number(line.base_score))
        self._chars.append(min(_MAX_CHARS, chars_of_items(items)))
        self._text.append(digest_of_items(items, with_reasoning=with_reasoning))
        self._prompt.append(prompt)
        self._gated.append(line.total is not None and bool(line.total.gated_by))
        self._teacher.append(_is_teachers(scored.record))
        stored = StoredRollout(
            rollout.prompt,
            items,
            tools_of(scored.record),
            _logprobs_of(scored.record),
            line.advantage,
            rollout.is_session,
            prompt,
        )
        self._spool.append(pickle.dumps(stored, pickle.HIGHEST_PROTOCOL))
        self._ends.append(len(self._spool))

    def load(self, row: int) -> StoredRollout:
        """Return the texts of a rollout."""
        start = self._ends[row - 1] if row else 0
        stored: StoredRollout = pickle.loads(self._spool.read(start, self._ends[row] - start))  # noqa: S301  (ours)
        return stored

    def group_of(self, row: int) -> GroupName:
        """Return the group of a rollout."""
        return self.groups[self._group[row]]

    def iter_groups(self) -> Iterator[GroupOfCandidates]:
        """Yield the groups that have rollouts, in the order of their first lines, each sorted by index."""
        if not len(self):
            return
        groups = np.frombuffer(self._group, dtype=np.uint32)
        rows = np.lexsort((np.frombuffer(self._index, dtype=np.int64), groups))
        starts = np.append(0, np.flatnonzero(np.diff(groups[rows])) + 1)
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(rows)], strict=True):
            members = rows[start:end].tolist()
            yield GroupOfCandidates(self._group[members[0]], tuple(map(self.candidate, members)))

    def candidate(self, row: int) -> Candidate:
        """Return what is known of a rollout without its texts."""
        return Candidate(
            row,
            self._index[row],
            self._reward[row],
            self._error[row],
            self._base_score[row],
            self._chars[row],
            self._text[row],
            self._prompt[row],
            bool(self._gated[row]),
            bool(self._teacher[row]),
        )


def digest_of_items(items: tuple[Item, ...], *, with_reasoning: bool) -> int:
    """Return a 64-bit digest of a response: equal responses, equal digests."""
    kept = [item for item in items if with_reasoning or not isinstance(item, Reasoning)]
    text = repr([(type(item).__name__, *_texts_of(item)) for item in kept])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def _texts_of(item: Item) -> tuple[str, ...]:
    if isinstance(item, Turn):
        return tuple(item)
    return tuple(
        text.strip()
        for name in ("text", "name", "arguments", "kind")
        if isinstance(text := getattr(item, name, None), str)
    )


def _logprobs_of(record: Record) -> list[float] | None:
    """Return the log probabilities of a response's tokens where the line has them as a list of numbers."""
    for name in ("logprobs", "response_logprobs", "completion_logprobs"):
        value = record.get(name)
        if isinstance(value, list) and value and all(isinstance(each, int | float) for each in value):
            return [float(each) for each in value]
    return None


def _is_teachers(record: Record) -> bool:
    """Whether a record says that its policy acted as a teacher (`genrm collect --policy-role teacher`)."""
    policy = record.get("policy")
    return isinstance(policy, dict) and policy.get("role") == "teacher"


def _number(value: float | None) -> float:
    return math.nan if value is None else value
