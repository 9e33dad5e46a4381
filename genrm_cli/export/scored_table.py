"""The scored rollouts of all inputs: numbers in arrays, texts in a temporary file.

About 70 bytes of memory per rollout, regardless of the length of its text.
"""

import hashlib
import math
from array import array
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from genrm_cli.export.candidates import Candidate, Preferences
from genrm_cli.json_types import Record
from genrm_cli.rewards.estimators import Calibration, CalibrationStatistics
from genrm_cli.rewards.estimators.verdict_batch import Floats, batch_of
from genrm_cli.rewards.order import Posterior, posterior_of
from genrm_cli.rollouts.group_keys import digest_of_prompt
from genrm_cli.rollouts.rollout import Item, Reasoning, Rollout, Turn, chars_of_items
from genrm_cli.scored.lines import ComparisonRecord, ScoredRollout
from genrm_cli.scored.rollout_store import RolloutStore
from genrm_cli.verdicts import Verdict, preference, sign_of

_MAX_CHARS = 2**32 - 1
_CODES = "qddIQQBB"  # of a candidate's numbers after its row


@dataclass(frozen=True, slots=True)
class StoredRollout:
    """A rollout with further data of its line: log probabilities and advantage."""

    rollout: Rollout
    logprobs: list[float] | None
    advantage: float | None

    @property
    def items(self) -> tuple[Item, ...]:
        """The response."""
        return self.rollout.response or ()


@dataclass(frozen=True, slots=True)
class ScoredGroupName:
    """A group: the number of its input, its key, and its judge."""

    input: int
    key: str
    judge: str | None


class ScoredTable(AbstractContextManager["ScoredTable"]):
    """Rollouts that can be exported, by row, in the order of the inputs. Use it as a context manager."""

    def __init__(self) -> None:
        self.groups: list[ScoredGroupName] = []
        self._numbers: dict[tuple[int, str], int] = {}
        self._group = array("I")
        self._columns: tuple[array[Any], ...] = tuple(array(code) for code in _CODES)
        self._store: RolloutStore[tuple[list[float] | None, float | None]] = RolloutStore()

    def __exit__(self, *_: object) -> None:
        self._store.close()

    def group_number(self, input_: int, key: str, judge: str | None) -> int:
        """Return the number of a group, a new one where it is new: each input has groups of its own."""
        number = self._numbers.setdefault((input_, key), len(self.groups))
        if number == len(self.groups):
            self.groups.append(ScoredGroupName(input_, key, judge))
        return number

    def find_group(self, input_: int, key: str) -> int | None:
        """Return the number of a known group."""
        return self._numbers.get((input_, key))

    def append(self, group: int, scored: ScoredRollout, *, with_reasoning: bool) -> None:
        """Add a rollout with a reward; `with_reasoning`: reasoning is exported, and so tells texts apart."""
        rollout, line, record = scored.rollout, scored.line, scored.record
        items, policy = rollout.response or (), record.get("policy")
        self._group.append(group)
        numbers = (
            line.index,
            math.nan if line.reward is None else line.reward,
            math.nan if line.standard_error is None else line.standard_error,
            min(_MAX_CHARS, chars_of_items(items)),
            digest_of_items(items, with_reasoning=with_reasoning),
            digest_of_prompt(rollout.prompt),
            line.total is not None and bool(line.total.gated_by),
            isinstance(policy, dict) and policy.get("role") == "teacher",  # of `genrm collect --policy-role teacher`
        )
        for column, number in zip(self._columns, numbers, strict=True):
            column.append(number)
        self._store.append(self.groups[group].key, rollout, (_logprobs_of(record), line.advantage))

    def load(self, row: int) -> StoredRollout:
        """Return the texts of a rollout."""
        _, rollout, kept = self._store.read(row)
        return StoredRollout(rollout, *kept)

    def group_number_of(self, row: int) -> int:
        """Return the number of the group of a rollout."""
        return self._group[row]

    def group_of(self, row: int) -> ScoredGroupName:
        """Return the group of a rollout."""
        return self.groups[self._group[row]]

    def iter_groups(self) -> Iterator[tuple[int, list[Candidate]]]:
        """Yield the groups that have rollouts in the order of their first lines: number, and candidates by index."""
        if not len(self._group):
            return
        groups = np.frombuffer(self._group, dtype=np.uint32)
        rows = np.lexsort((np.frombuffer(self._columns[0], dtype=np.int64), groups))
        for members in np.split(rows, np.flatnonzero(np.diff(groups[rows])) + 1):
            yield int(groups[members[0]]), [self.candidate(row) for row in members.tolist()]

    def candidate(self, row: int) -> Candidate:
        """Return a rollout without its texts."""
        return Candidate(row, *(column[row] for column in self._columns))


def digest_of_items(items: tuple[Item, ...], *, with_reasoning: bool) -> int:
    """Return a 64-bit digest of a response: equal responses, equal digests."""
    kept = [item for item in items if with_reasoning or not isinstance(item, Reasoning)]
    text = repr([(type(item).__name__, *_texts_of(item)) for item in kept])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def _texts_of(item: Item) -> tuple[str, ...]:
    if isinstance(item, Turn):
        return tuple(item)
    named = (getattr(item, name, None) for name in ("text", "name", "arguments", "kind"))
    return tuple(text.strip() for text in named if isinstance(text, str))


def _logprobs_of(record: Record) -> list[float] | None:
    """Return the log probabilities of a response's tokens where the line has them as a list of numbers."""
    for name in ("logprobs", "response_logprobs", "completion_logprobs"):
        value = record.get(name)
        if isinstance(value, list) and value and all(isinstance(each, int | float) for each in value):
            return [float(each) for each in value]
    return None


@dataclass(slots=True)
class ComparedVerdicts:
    """The verdicts of all groups, 56 bytes each. Those of a panel are joined by weight."""

    # By group: repeat, first, second, weight, and score_1, score_2, ranking times the weight.
    _verdicts: "dict[int, array[float]]" = field(default_factory=dict)
    _calibration: Calibration | None = None

    def add(self, comparison: ComparisonRecord, group: int, weight: float) -> None:
        """Add a comparison of a group; failures, grades and components are skipped.

        Raises:
            ValueError: its indices are out of range.
        """
        verdict = comparison.verdict
        if verdict is None or not comparison.is_pair:
            return
        first, second = comparison.indices
        if min(first, second) < 0 or first == second:
            raise ValueError("indices out of range")
        scores = (weight * score for score in (verdict.score_1, verdict.score_2, verdict.ranking))
        self._verdicts.setdefault(group, array("d")).extend((comparison.judge_idx, first, second, weight, *scores))

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

    def confidence(self, group: int) -> Callable[[int, int], float | None]:
        """Return the probability that the judge truly prefers one index of a group to another; None if unknown."""
        posterior = self._posterior(group)

        def of_pair(i: int, j: int) -> float | None:
            scored = () if posterior is None else posterior.scored[0]
            if posterior is None or min(i, j) < 0 or max(i, j) >= len(scored):
                return None
            return posterior.confidence(0, i, j) if scored[i] and scored[j] else None

        return of_pair

    def _posterior(self, group: int) -> Posterior | None:
        """Return the posterior of a group's rollouts on the calibration of all verdicts; None without verdicts."""
        if group not in self._verdicts:
            return None
        if self._calibration is None:
            statistics = CalibrationStatistics()
            for each in sorted(self._verdicts):
                rows = self._rows(each)
                statistics.add_arrays(int(rows[:, :2].max()) + 1, rows)
            self._calibration = statistics.fit()
        rows = self._rows(group)
        batch = batch_of(int(rows[:, :2].max()) + 1, [rows])
        return posterior_of(batch, self._calibration)

    def _rows(self, group: int) -> Floats:
        """Return [M, 5] the verdicts of a group: first, second, score_1, score_2, ranking."""
        verdicts = np.array(self._verdicts.get(group, ())).reshape(-1, 7)
        places, number = np.unique(verdicts[:, :3], axis=0, return_inverse=True)
        sums = np.zeros((len(places), 4))
        np.add.at(sums, number.ravel(), verdicts[:, 3:])
        return np.column_stack([places[:, 1:], sums[:, 1:] / sums[:, :1]])
