"""Answered cohorts in the journal: a member that asks again after a kill gets the same reward."""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import Self

import orjson
from msgspec import Struct

from genrm_cli.groups.line_records import ScoredLine
from genrm_cli.groups.results import GroupRewards
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.journal_file import KeptRecords
from genrm_cli.products.serve.cohorts.cohort import NO_ROLLOUT, Cohort, Member
from genrm_cli.products.serve.cohorts.group_table import ServedGroup
from genrm_cli.products.serve.served_answers import GroupAnswer, GroupCounts
from genrm_cli.scored.json_form import to_json
from genrm_cli.typed_json import parse_json


class KeptAnswer(Struct, frozen=True):
    """A `GroupAnswer` without comparisons."""

    ids: Sequence[str]
    scores: list[ScoredLine]
    counts: GroupCounts

    @classmethod
    def of(cls, answer: GroupAnswer) -> Self:
        """Return an answer as it is kept."""
        rewards = answer.rewards
        return cls(
            ids=answer.ids,
            scores=rewards.scores,
            counts=answer.counts,
        )

    def answer(self, name: str) -> GroupAnswer:
        """Return the answer for the members of the cohort of this name."""
        rewards = GroupRewards(
            None,
            self.scores,
            {},
            {},
            self.counts.reliability,
            columns={},
        )
        return GroupAnswer(name, self.ids, rewards, self.counts)


class KeptCohort(Struct, frozen=True):
    """An answered cohort, without the texts of its members.

    Attributes:
        name: of the cohort; a round's is not the name under which it is kept.
        task: as of its members.
        members: digest of each member that came in time, by id.
        late: digest of each member that came later, by id.
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
        return cls(
            name=cohort.name,
            size=cohort.size,
            task=task,
            members={id_: member.digest.hex() for id_, member in cohort.members.items()},
            late={id_: member.digest.hex() for id_, member in cohort.late.items()},
            answers={id_: KeptAnswer.of(answer) for id_, answer in answers.items()},
        )

    def restored(self, key: str) -> ServedGroup:
        """Return the cohort, closed and answered."""
        members = self._without_texts(self.members)
        late = self._without_texts(self.late)
        group = ServedGroup(self.name, self.size, members, late, is_closed=True, key=key)
        for id_, kept in self.answers.items():
            answer = asyncio.get_running_loop().create_future() if id_ else group.answer
            answer.set_result(kept.answer(self.name))
            if id_:
                group.late_answers[id_] = answer
        return group

    def _without_texts(self, digests: Mapping[str, str]) -> dict[str, Member]:
        return {
            id_: Member(id_, {}, {}, NO_ROLLOUT, bytes.fromhex(digest), self.task)
            for id_, digest in digests.items()
        }


class KeptCohorts:
    """The answered cohorts of one server in its journal."""

    def __init__(self, journal: Journal | None, owner: str, keep_s: float) -> None:
        """Keep them in a journal, if there is one; `owner` tells this server from others on it,
        after a restart too.
        """
        self._records: KeptRecords | None = None if journal is None else journal.records
        self._owner = owner
        self._keep_s = keep_s

    def read(self, name: str) -> KeptCohort | None:
        """Return the cohort kept under a name; None without one."""
        record = None if self._records is None else self._records.read(self._key_of(name))
        if record is None:
            return None
        try:
            return parse_json(KeptCohort, record)
        except ValueError:  # of another version
            return None

    def write(self, cohorts: Mapping[str, KeptCohort]) -> None:
        """Keep cohorts by name."""
        if self._records is not None and cohorts:
            records = {
                self._key_of(name): orjson.dumps(to_json(cohort))
                for name, cohort in cohorts.items()
            }
            self._records.write(records, self._keep_s)

    def drop(self, name: str) -> None:
        """Forget a cohort."""
        if self._records is not None:
            self._records.drop(self._key_of(name))

    def _key_of(self, name: str) -> bytes:
        # A name may be long and hold anything, also half of a surrogate pair.
        return hashlib.sha256(f"{self._owner}\0{name}".encode("utf-8", "surrogatepass")).digest()
