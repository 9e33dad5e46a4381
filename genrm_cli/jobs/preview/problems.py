"""Problems of an input, counted by kind."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from genrm_cli.groups.group import Group
from genrm_cli.jobs.cost import LARGE_GROUP
from genrm_cli.jobs.index import InputIndex, Reject
from genrm_cli.verdicts import Reason

_NAMED = 5
_DETAIL = re.compile(r"(?<= with the keys ).*?(?=;)|[0-9][0-9,]*")


@dataclass(slots=True)
class Problem:
    """One kind of problem.

    Attributes:
        unit: what has it: `line`, `item`, `rollout` or `group`.
        message: what is wrong, with the details of the first.
        count: how many have it.
        where: the first of them: line numbers, or keys of groups.
    """

    unit: str
    message: str
    count: int = 0
    where: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return the problem, JSON-ready."""
        return {"problem": self.message, "unit": self.unit, "count": self.count, "where": self.where}


class Problems:
    """The problems of an input; those that differ in numbers or keys only are one."""

    def __init__(self) -> None:
        self._by_kind: dict[tuple[str, str], Problem] = {}

    def __iter__(self) -> Iterator[Problem]:
        """Yield the problems, the most frequent first."""
        yield from sorted(self._by_kind.values(), key=lambda problem: -problem.count)

    def add(self, unit: str, message: str, where: object) -> None:
        """Count a problem."""
        kind = unit, _DETAIL.sub("0", message)
        problem = self._by_kind.setdefault(kind, Problem(unit, message))
        problem.count += 1
        if len(problem.where) < _NAMED:
            problem.where.append(str(where))

    def add_reject(self, reject: Reject) -> None:
        """Count a line that cannot be read."""
        self.add(reject.unit, reject.reason, reject.where)

    def add_group(self, group: Group, rows: list[int], index: InputIndex, group_by: str | None) -> None:
        """Count the problems of a group.

        Args:
            group: the group.
            rows: its rollouts.
            index: of the input.
            group_by: the field that names groups, if the user says.
        """
        table = index.table
        if group_by is not None and (group.key is None or group.key.startswith("line:")):
            told = "it is not compared" if group.key is None else "the line is a group of its own"
            self.add("line", f"no field {group_by}, which --group-by names: {told}", index.where(rows[0]))
        for row in table.duplicates(rows):
            self.add("rollout", "duplicate, with the group and index of another", f"line {index.where(row)}")
        for row, rollout in zip(rows, group.rollouts, strict=True):
            if rollout.is_comparable and not rollout.has_prompt and not rollout.is_session:
                self.add("rollout", "no prompt: the judge would see the response only", f"line {index.where(row)}")
        reasons = [why.reason for why in map(index.plan.why_not_compared, group.rollouts) if why is not None]
        blank = reasons.count(Reason.BLANK)
        if blank * 2 > len(rows) > 1:
            self.add("group", "more than half of its responses are blank", group.key)
        if group.mixed_prompts:
            self.add("group", Reason.MIXED_PROMPTS.text, group.key)
        elif (comparisons := index.plan.pairing.count(table.count_answered(rows))) > LARGE_GROUP:
            self.add(
                "group",
                f"{len(rows):,} rollouts need {comparisons:,} comparisons; "
                "consider --strategy ring, a smaller --ring-k or --budget",
                group.key,
            )
