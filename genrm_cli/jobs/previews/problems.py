"""The problems of an input that a preview reports, by kind."""

from dataclasses import dataclass, field
from enum import StrEnum

from genrm_cli.errors import Message, Part, SettingRef
from genrm_cli.groups.group import Group
from genrm_cli.jobs.index import InputIndex, Reject
from genrm_cli.verdicts import Reason

_NAMED = 5  # places of a kind of problem


class ProblemKind(StrEnum):
    """Kinds of problems besides unreadable lines, each with its default text in reports."""

    NO_GROUP_FIELD = "no field that names its group"
    LINE_IS_GROUP = "no field that names its group: the line is a group of its own"
    DUPLICATE = "duplicate, with the group and index of another"
    NO_PROMPT = "no prompt: the judge would see the response only"
    MOSTLY_BLANK = "more than half of its responses are blank"


@dataclass(slots=True)
class Problem:
    """One kind of problem, with details of its first occurrence, and where the first of the
    affected units are.

    The unit is `line`, `item`, `rollout` or `group`; groups are named by their keys.
    """

    problem: Message
    unit: str
    count: int = 0
    where: list[str] = field(default_factory=list)


class Problems:
    """The problems of an input by kind."""

    def __init__(self) -> None:
        self._by_kind: dict[tuple[str, str], Problem] = {}

    def ordered(self) -> list[Problem]:
        """Return the problems, the most frequent first."""
        return sorted(self._by_kind.values(), key=lambda problem: -problem.count)

    def add(self, unit: str, kind: str, where: object, *details: Part) -> None:
        """Count a problem; only the details of its first occurrence are kept."""
        problem = self._by_kind.setdefault(
            (unit, kind), Problem(Message.of(*(details or (str(kind),))), unit)
        )
        problem.count += 1
        if len(problem.where) < _NAMED:
            problem.where.append(str(where))

    def add_reject(self, reject: Reject) -> None:
        """Count a line that cannot be read."""
        self.add(reject.unit, reject.kind, reject.where, reject.reason)

    def add_group(
        self, group: Group, rows: list[int], index: InputIndex, group_by: str | None
    ) -> None:
        """Count the problems of a group; `group_by` is the field that names groups, if the user set
        it.
        """
        table = index.table
        if group_by is not None and (group.key is None or group.key.startswith("line:")):
            is_alone = group.key is None
            kind = ProblemKind.NO_GROUP_FIELD if is_alone else ProblemKind.LINE_IS_GROUP
            result = "it is not compared" if is_alone else "the line is a group of its own"
            field_ = f"no field {group_by}, which ", SettingRef("group_by"), f" names: {result}"
            self.add("line", kind, index.where(rows[0]), *field_)
        for row in table.duplicates(rows):
            self.add("rollout", ProblemKind.DUPLICATE, f"line {index.where(row)}")
        for row, rollout in zip(rows, group.rollouts, strict=True):
            if rollout.is_comparable and not rollout.has_prompt and not rollout.is_session:
                self.add("rollout", ProblemKind.NO_PROMPT, f"line {index.where(row)}")
            for name in index.plan.missing_fields(rollout) if rollout.is_comparable else ():
                missing = SettingRef(name, getattr(index.plan, name))
                self.add("rollout", name, f"line {index.where(row)}", "nothing under ", missing)
        reasons = [
            why.reason
            for why in map(index.plan.why_not_compared, group.rollouts)
            if why is not None
        ]
        blank = reasons.count(Reason.BLANK)
        if blank * 2 > len(rows) > 1:
            self.add("group", ProblemKind.MOSTLY_BLANK, group.key)
        if group.mixed is not None:
            self.add("group", group.mixed, group.key, group.mixed.text)
