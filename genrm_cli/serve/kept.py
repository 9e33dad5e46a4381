"""Answers of cohorts in the journal: a member that asks again after a kill gets the reward that it was given before."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

import orjson

from genrm_cli.groups.results import GroupRewards, RolloutScore
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.journal_file import KeptRecords
from genrm_cli.rewards.component import Column
from genrm_cli.rewards.estimators import Calibration
from genrm_cli.scored.json_form import FormError, from_json, to_json
from genrm_cli.serve.answers import CalibrationRecord, GroupAnswer, GroupCounts
from genrm_cli.serve.cohort import NO_ROLLOUT, Cohort, Member


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """A `GroupAnswer` without comparisons."""

    ids: tuple[str, ...]
    scores: tuple[RolloutScore, ...]
    columns: Mapping[str, tuple[float | None, ...]]
    calibration: Mapping[str, float]
    counts: GroupCounts
    weight: float

    @classmethod
    def of(cls, answer: GroupAnswer) -> Self:
        """Return an answer as it is kept."""
        columns = {name: tuple(column.values) for name, column in answer.rewards.columns.items()}
        rewards = answer.rewards
        fitted, weight = answer.calibration.as_dict(), rewards.weight
        return cls(tuple(answer.ids), tuple(rewards.scores), columns, fitted, answer.counts, weight)

    def answer(self, name: str) -> GroupAnswer:
        """Return the answer for the members of the cohort of this name."""
        columns = {name: Column(list(values)) for name, values in self.columns.items()}
        scores, reliability = list(self.scores), self.counts.reliability
        rewards = GroupRewards(None, scores, {}, {}, reliability, converged=True, columns=columns, weight=self.weight)
        fitted = dict(self.calibration)
        groups, comparisons = int(fitted.pop("groups")), int(fitted.pop("comparisons"))
        calibration = CalibrationRecord(groups, comparisons, Calibration(**fitted))  # type: ignore[arg-type]
        return GroupAnswer(name, self.ids, rewards, calibration, self.counts)


@dataclass(frozen=True, slots=True)
class KeptCohort:
    """An answered cohort, without the texts of its members.

    Attributes:
        name: of the cohort; a round's is not the name under which it is kept.
        prompt, principle, reference: the task of its members.
        members: digest of each member that came in time, by id.
        late: the same for late members.
        answers: answer of each late member by id, and of all others by the empty id.
    """

    name: str
    size: int
    prompt: int
    principle: str | None
    reference: str | None
    members: Mapping[str, str]
    late: Mapping[str, str]
    answers: Mapping[str, KeptAnswer]

    @classmethod
    def of(cls, cohort: Cohort, answers: Mapping[str, GroupAnswer]) -> Self:
        """Return a cohort and its answers as they are kept."""
        task = next(iter(cohort.members.values())).task
        members, late = (
            {id_: member.digest.hex() for id_, member in each.items()} for each in (cohort.members, cohort.late)
        )
        kept = {id_: KeptAnswer.of(answer) for id_, answer in answers.items()}
        return cls(cohort.name, cohort.size, *task, members, late, kept)

    def cohort(self) -> Cohort:
        """Return the cohort, closed."""
        task = self.prompt, self.principle, self.reference
        members, late = (
            {id_: Member(id_, {}, NO_ROLLOUT, bytes.fromhex(digest), task) for id_, digest in each.items()}
            for each in (self.members, self.late)
        )
        return Cohort(self.name, self.size, members, late, is_closed=True)


class KeptCohorts:
    """The answered cohorts of one server in its journal."""

    def __init__(self, journal: Journal | None, owner: str, keep_s: float) -> None:
        """Prepare.

        Args:
            journal: where they are kept; None to keep nothing.
            owner: what distinguishes this server, also after a restart, from others on the same journal.
        """
        self._records: KeptRecords | None = None if journal is None else journal.kept_records()
        self._owner = owner
        self._keep_s = keep_s

    def read(self, name: str) -> KeptCohort | None:
        """Return the cohort kept under a name; None without one."""
        record = None if self._records is None else self._records.read(self._key_of(name))
        try:
            return None if record is None else from_json(KeptCohort, orjson.loads(record))
        except (FormError, orjson.JSONDecodeError):  # of another version
            return None

    def write(self, cohorts: Mapping[str, KeptCohort], marks: Iterable[bytes] = ()) -> None:
        """Keep cohorts by name, and marks."""
        records = {self._key_of(name): orjson.dumps(to_json(cohort)) for name, cohort in cohorts.items()}
        records |= {self._key_of(mark.hex()): b"" for mark in marks}
        if self._records is not None and records:
            self._records.write(records, self._keep_s)

    def has(self, mark: bytes) -> bool:
        """Whether a mark is kept."""
        return self._records is not None and self._records.read(self._key_of(mark.hex())) is not None

    def drop(self, name: str) -> None:
        """Forget a cohort."""
        if self._records is not None:
            self._records.drop(self._key_of(name))

    def _key_of(self, name: str) -> bytes:
        return hashlib.sha256(f"{self._owner}\0{name}".encode("utf-8", "surrogatepass")).digest()
