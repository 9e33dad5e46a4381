"""Groups and cohorts that a server keeps for repeated requests: in memory and, of cohorts, the
answers in the journal.

A member that asks again after a kill gets the reward that it was given before.
"""

import asyncio
import hashlib
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self

import orjson

from genrm_cli.groups.arriving import ArrivingGroup
from genrm_cli.groups.group import JudgedGroup
from genrm_cli.groups.results import GroupRewards, RolloutScore
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.journal_file import KeptRecords
from genrm_cli.rewards.component import Column
from genrm_cli.scored.json_form import FormError, from_json, to_json
from genrm_cli.serve.answers import CalibrationRecord, GroupAnswer, GroupCounts
from genrm_cli.serve.cohort import NO_ROLLOUT, Cohort, Member
from genrm_cli.serve.steps import Compared
from genrm_cli.settings.file_settings import ServeSettings

_LOOK_S = 0.05


@dataclass(slots=True)
class KnownGroup:
    """A group or cohort from its first request until it is forgotten.

    Attributes:
        key: name under which the answer of a cohort is kept in the journal; None for a group.
        judged: None before it was judged, and for a cohort from before a restart.
        compared: its comparisons with the reference answer to its prompt; None if there is none.
    """

    cohort: Cohort
    arriving: ArrivingGroup
    answer: "asyncio.Future[GroupAnswer]"
    opened_s: float
    key: str | None = None
    needs_all: bool = False
    deadline: asyncio.TimerHandle | None = None
    judged: JudgedGroup | None = None
    compared: Compared | None = None
    requests: int = 0
    size_bytes: int = 0
    late: dict[str, "asyncio.Future[GroupAnswer]"] = field(default_factory=dict)

    def is_to_keep(self, counts: GroupCounts) -> bool:
        """Whether a repeated request gets the same answer; otherwise it is judged again."""
        if self.key is None:
            return counts.scored > 0 and not counts.unanswered
        return counts.scored > 0 and not (self.needs_all and counts.shortfall)

    def answer_of(self, member_id: str) -> "asyncio.Future[GroupAnswer] | None":
        """Return the answer for a member; None if the member is to be judged now.

        A late member is, and one without a reward because the judge did not answer, as far as texts
        are known."""
        answer = self.late.get(member_id) or (
            self.answer if member_id in self.cohort.members else None
        )
        if answer is None or self.judged is None or not answer.done():
            return answer
        if answer.exception() is not None:
            return None
        found = answer.result()
        is_over = found.score_of(member_id).reward is not None or not found.counts.unanswered
        return answer if is_over else None


class KnownGroups:
    """Groups and cohorts by name, from the first request until their answers were kept long enough.

    `held_bytes` is the length of the responses that they hold, as JSON.
    """

    def __init__(self, settings: ServeSettings) -> None:
        self.groups: dict[str, KnownGroup] = {}
        self.cohorts: dict[str, KnownGroup] = {}
        self.held_bytes = 0
        self._keep_s = settings.keep
        self._most = settings.max_cohorts
        self._kept: deque[tuple[float, KnownGroup]] = deque()

    def hold(self, known: KnownGroup, member: Member) -> None:
        """Count the texts of a new member."""
        known.size_bytes += member.size_bytes
        self.held_bytes += member.size_bytes

    def keep(self, known: KnownGroup) -> None:
        """Forget an answered group after a while."""
        self._kept.append((time.monotonic() + self._keep_s, known))
        asyncio.get_running_loop().call_later(self._keep_s + _LOOK_S, self._forget_stale)
        self._forget_stale()

    def _forget_stale(self) -> None:
        """Forget answers that were kept long enough, and the oldest ones of too many."""
        now_s = time.monotonic()
        while self._kept and (self._kept[0][0] <= now_s or len(self._kept) > self._most):
            self.forget(self._kept.popleft()[1])

    def release(self, known: KnownGroup) -> None:
        """Count the texts of a group no more."""
        self.held_bytes -= known.size_bytes
        known.size_bytes = 0

    def forget(self, known: KnownGroup) -> None:
        """Let another group have the name."""
        self.release(known)
        for among in (self.groups, self.cohorts):
            if among.get(known.cohort.name) is known:
                del among[known.cohort.name]

    def iter_open(self) -> Iterator[KnownGroup]:
        """Yield the groups without an answer."""
        every = (*self.groups.values(), *self.cohorts.values())
        return (known for known in every if not known.answer.done())

    @property
    def oldest_s(self) -> float:
        """Age of the oldest group without an answer; 0 if there is none."""
        now_s = time.monotonic()
        return max((now_s - known.opened_s for known in self.iter_open()), default=0.0)


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """A `GroupAnswer` without comparisons."""

    ids: tuple[str, ...]
    scores: tuple[RolloutScore, ...]
    columns: Mapping[str, tuple[float | None, ...]]
    calibration: CalibrationRecord
    counts: GroupCounts
    weight: float

    @classmethod
    def of(cls, answer: GroupAnswer) -> Self:
        """Return an answer as it is kept."""
        rewards = answer.rewards
        columns = {name: tuple(column.values) for name, column in rewards.columns.items()}
        scores = tuple(rewards.scores)
        return cls(
            tuple(answer.ids), scores, columns, answer.calibration, answer.counts, rewards.weight
        )

    def answer(self, name: str) -> GroupAnswer:
        """Return the answer for the members of the cohort of this name."""
        columns = {name: Column(list(values)) for name, values in self.columns.items()}
        scores = list(self.scores)
        reliability = self.counts.reliability
        rewards = GroupRewards(
            None, scores, {}, {}, reliability, converged=True, columns=columns, weight=self.weight
        )
        return GroupAnswer(name, self.ids, rewards, self.calibration, self.counts)


@dataclass(frozen=True, slots=True)
class KeptCohort:
    """An answered cohort, without the texts of its members.

    Attributes:
        name: of the cohort; a round's is not the name under which it is kept.
        task: as of its members.
        members: digest of each member that came in time, by id; likewise `late`.
        answers: answer of each late member by id, and of all others by the empty id.
    """

    name: str
    size: int
    task: str
    members: Mapping[str, str]
    late: Mapping[str, str]
    answers: Mapping[str, KeptAnswer]

    @classmethod
    def of(cls, cohort: Cohort, answers: Mapping[str, GroupAnswer]) -> Self:
        """Return a cohort and its answers as they are kept."""
        task = next(iter(cohort.members.values())).task
        members, late = (
            {id_: member.digest.hex() for id_, member in each.items()}
            for each in (cohort.members, cohort.late)
        )
        kept = {id_: KeptAnswer.of(answer) for id_, answer in answers.items()}
        return cls(cohort.name, cohort.size, task, members, late, kept)

    def cohort(self) -> Cohort:
        """Return the cohort, closed."""
        members, late = (
            {
                id_: Member(id_, {}, NO_ROLLOUT, bytes.fromhex(digest), self.task)
                for id_, digest in each.items()
            }
            for each in (self.members, self.late)
        )
        return Cohort(self.name, self.size, members, late, is_closed=True)


class KeptCohorts:
    """The answered cohorts of one server in its journal."""

    def __init__(self, journal: Journal | None, owner: str, keep_s: float) -> None:
        """Keep them in a journal, if there is one; `owner` tells this server from others on it,
        after a restart too.
        """
        self._records: KeptRecords | None = None if journal is None else journal.kept_records()
        self._owner = owner
        self._keep_s = keep_s
        self._unwritten: set[bytes] = set()

    def read(self, name: str) -> KeptCohort | None:
        """Return the cohort kept under a name; None without one."""
        record = None if self._records is None else self._records.read(self._key_of(name))
        try:
            return None if record is None else from_json(KeptCohort, orjson.loads(record))
        except (FormError, orjson.JSONDecodeError):  # of another version
            return None

    def write(self, cohorts: Mapping[str, KeptCohort], marks: Iterable[bytes] = ()) -> None:
        """Keep cohorts by name, and marks. Marks that the disk has no room for wait in memory."""
        self._unwritten.update(marks)
        records = {
            self._key_of(name): orjson.dumps(to_json(cohort)) for name, cohort in cohorts.items()
        }
        records |= {self._key_of(mark.hex()): b"" for mark in self._unwritten}
        if self._records is not None and records:
            self._records.write(records, self._keep_s)
        self._unwritten.clear()

    def has(self, mark: bytes) -> bool:
        """Whether a mark is kept."""
        kept = mark in self._unwritten or (
            self._records and self._records.read(self._key_of(mark.hex())) is not None
        )
        return bool(kept)

    def drop(self, name: str) -> None:
        """Forget a cohort."""
        if self._records is not None:
            self._records.drop(self._key_of(name))

    def _key_of(self, name: str) -> bytes:
        return hashlib.sha256(f"{self._owner}\0{name}".encode("utf-8", "surrogatepass")).digest()
