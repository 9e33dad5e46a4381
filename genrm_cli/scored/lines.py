"""The groups that scored lines and comparison records form."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations, permutations, zip_longest

from msgspec import Struct

from genrm_cli.groups.line_records import ComparisonRecord, FailureRecord, ScoredLine
from genrm_cli.json_types import Record
from genrm_cli.judging.profiles.answer import verdict_of_grades
from genrm_cli.rollouts.formats import Score
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError
from genrm_cli.typed_json import FormError, from_json
from genrm_cli.verdicts import FailureKind, Verdict

Shown = tuple[int, int]
"""Indices of two rollouts in the order shown."""
NOT_ASKED = FailureRecord(kind=FailureKind.NOT_ASKED, detail="not asked")
_LEFT_OUT = FailureRecord(
    kind=FailureKind.NO_VERDICT, detail="the judge left one of both responses out of its list"
)


class ScoredRollout(Struct, frozen=True):
    """A rollout with its scored line, and the fields of the line that belong to it where they are
    needed.
    """

    rollout: Rollout
    line: ScoredLine
    record: Record = {}


class ScoredGroup(Struct, frozen=True):
    """The rollouts of one task by index, and the requests about them in the order of the
    comparisons file.
    """

    key: str
    members: tuple[ScoredRollout, ...]
    comparisons: tuple[ComparisonRecord, ...]

    @property
    def line(self) -> ScoredLine:
        """The scored line of any rollout: its statements about the group and the judge are the same
        in all.
        """
        return self.members[0].line

    @property
    def rewards(self) -> list[float]:
        """The rewards that are known."""
        return [each.line.reward for each in self.members if each.line.reward is not None]


def parse_scored_line(score: Score) -> ScoredLine:
    """Return the scored line that a format found in a line.

    Raises:
        UnreadableRecordError: it was not written by `genrm score`, or was changed since.
    """
    try:
        return from_json(ScoredLine, {**score.detail, "reward": score.reward})
    except FormError as error:
        raise UnreadableRecordError(f"genrm: {error}; run `genrm score` on it again") from error


class PairAnswer(Struct, frozen=True):
    """A request that shows a pair, and its verdict on the pair, or why there is none."""

    record: ComparisonRecord
    verdict: Verdict | None
    failure: FailureRecord | None

    @property
    def was_asked(self) -> bool:
        """Whether the judge was asked."""
        return self.failure is None or self.failure.kind is not FailureKind.NOT_ASKED


def answers_by_pair(records: Sequence[ComparisonRecord]) -> Mapping[Shown, list[PairAnswer]]:
    """Return the answers about each pair of a group, repeat by repeat; those for components do not
    count.

    A list shows each pair in its order. Of responses graded one by one, the repeats of one meet
    those of the other, and are read as shown first; grades that came meet each other, whichever
    repeat they are of.
    """
    found = defaultdict[Shown, list[PairAnswer]](list)
    alone = defaultdict[str, defaultdict[int, list[ComparisonRecord]]](lambda: defaultdict(list))
    for record in sorted(records, key=lambda record: record.judge_idx):
        shown = record.indices
        if record.component is not None:
            continue
        if len(shown) == 1:
            alone[record.judge][shown[0]].append(record)
        for place, other in combinations(range(len(shown)), 2):
            answer = PairAnswer(record, record.verdict, record.failure)
            if record.grades is not None:
                answer = _compared(record, record.grades[place], record.grades[other], _LEFT_OUT)
            found[shown[place], shown[other]].append(answer)
    for by_index in alone.values():
        for graded in by_index.values():
            graded.sort(key=lambda record: record.grades is None)
        for first, second in permutations(by_index, 2):
            ones = by_index[first]
            for one, two in zip_longest(ones, by_index[second][: len(ones)]):
                failure = one.failure or (NOT_ASKED if two is None else two.failure)
                found[first, second].append(_compared(one, _grade(one), _grade(two), failure))
    return found


def _compared(
    record: ComparisonRecord,
    first: float | None,
    second: float | None,
    failure: FailureRecord | None,
) -> PairAnswer:
    if first is None or second is None:
        return PairAnswer(record, None, failure)
    return PairAnswer(record, verdict_of_grades(first, second), None)


def _grade(record: ComparisonRecord | None) -> float | None:
    return None if record is None or not record.grades else record.grades[0]
