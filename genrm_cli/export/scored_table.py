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

from genrm_cli.export.candidates import Candidate, GroupOfCandidates, Preferences
from genrm_cli.export.rows import Tool, tools_of
from genrm_cli.json_types import Record
from genrm_cli.rewards.estimators import Calibration, CalibrationStatistics
from genrm_cli.rewards.estimators.verdict_batch import Floats, batch_of
from genrm_cli.rewards.order import Posterior, posterior_of
from genrm_cli.rollouts.grouping import digest_of_prompt
from genrm_cli.rollouts.rollout import Item, Reasoning, Turn, chars_of_items
from genrm_cli.scored.lines import ComparisonRecord
from genrm_cli.scored.parse_lines import ScoredRollout
from genrm_cli.storage.spool import Spool
from genrm_cli.verdicts import Verdict, preference, sign_of

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
        """Return a rollout without its texts."""
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


_MAX_DENSE = 2_048  # rollouts; a posterior of more would take gigabytes
_MAX_INDEX = 2**31


class ComparedVerdicts:
    """The verdicts of all groups, by group and comparison. Verdicts of a panel are joined by weight."""

    def __init__(self) -> None:
        self._places = array("I")  # group, repeat, first, second
        self._numbers = array("f")  # score_1, score_2, ranking, weight
        self._starts: dict[int, tuple[int, int]] | None = None
        self._table: Floats
        self._calibration: Calibration | None = None

    def add(self, comparison: ComparisonRecord, group: int, weight: float) -> None:
        """Add a comparison of a group; failures, grades and components are skipped.

        Raises:
            ValueError: its indices are out of range.
        """
        verdict = comparison.verdict
        if verdict is None or not comparison.is_pair:
            return
        first, second = comparison.indices
        if not (0 <= first < _MAX_INDEX and 0 <= second < _MAX_INDEX and first != second):
            raise ValueError("indices out of range")
        self._places.extend((group, comparison.judge_idx, first, second))
        self._numbers.extend((verdict.score_1, verdict.score_2, verdict.ranking, weight))

    def preferences(self, group: int) -> Preferences:
        """Return the preference of the judge in each pair that it compared; see `Preferences`."""
        by_order: dict[tuple[int, int], list[float]] = {}
        for first, second, *scores in self._rows(group).tolist():
            by_order.setdefault((int(first), int(second)), []).append(preference(Verdict(*scores)))
        signs = {order: sign_of(sum(map(sign_of, given))) for order, given in by_order.items()}
        found: dict[tuple[int, int], int] = {}
        for (first, second), sign in signs.items():
            pair, towards = ((first, second), sign) if first < second else ((second, first), -sign)
            found[pair] = towards if found.get(pair, towards) == towards else 0
        return found

    def posterior(self, group: int) -> Posterior | None:
        """Return the posterior of a group's rollouts, given its verdicts; None without verdicts or a known noise."""
        rows = self._rows(group)
        if not len(rows):
            return None
        batch = batch_of(int(rows[:, :2].max()) + 1, [rows])
        return None if batch.n > _MAX_DENSE else posterior_of(batch, self.calibration)

    @property
    def calibration(self) -> Calibration:
        """The calibration of the judge on all verdicts."""
        if self._calibration is None:
            statistics = CalibrationStatistics()
            for group in self._spans():
                rows = self._rows(group)
                statistics.add_arrays(int(rows[:, :2].max()) + 1, rows)
            self._calibration = statistics.fit()
        return self._calibration

    def _rows(self, group: int) -> Floats:
        """Return [M, 5] the verdicts of a group: first, second, score_1, score_2, ranking."""
        start, end = self._spans().get(group, (0, 0))
        return self._table[start:end]

    def _spans(self) -> dict[int, tuple[int, int]]:
        if self._starts is None:
            self._starts = dict(self._joined())
        return self._starts

    def _joined(self) -> Iterator[tuple[int, tuple[int, int]]]:
        """Join the judges of each comparison, sort by group, and yield the bounds of each group."""
        places = np.frombuffer(self._places, dtype=np.uint32).reshape(-1, 4)
        numbers = np.frombuffer(self._numbers, dtype=np.float32).reshape(-1, 4)
        if not len(places):
            self._table = np.zeros((0, 5))
            return
        order = np.lexsort(places.T[::-1])
        places, numbers = places[order], numbers[order].astype(np.float64)
        is_new = np.append(True, np.any(places[1:] != places[:-1], axis=1))
        starts = np.flatnonzero(is_new)
        weights = numbers[:, 3]
        sums = np.add.reduceat(numbers[:, :3] * weights[:, None], starts, axis=0)
        joined = sums / np.add.reduceat(weights, starts)[:, None]
        self._table = np.concatenate([places[starts][:, 2:].astype(np.float64), joined], axis=1)
        groups = places[starts][:, 0]
        ends = [*(np.flatnonzero(np.diff(groups)) + 1).tolist(), len(groups)]
        start = 0
        for end in ends:
            yield int(groups[start]), (start, end)
            start = end
