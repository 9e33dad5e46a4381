"""What the judges would be shown of an input."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from genrm_cli.groups.group import Group
from genrm_cli.groups.judge_group import begin_group, view_for_judges
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.verdicts import Reason

_EXAMPLE_LINES = 4
_EXAMPLE_CHARS = 75  # of a line
_EXAMPLE_RESPONSES = 2
NO_FIELD = "nothing, each rollout alone"
# What the beginning of a group's key says.
_KEY_KINDS = {
    "group": "_ng_group_id",
    "task": "task index",
    "example": "example_id",
    "scenario": "scenario.scenario_id",
    "prompt": "prompt text",
}


@dataclass(slots=True)
class Contents:
    """Counts of groups and rollouts, and an example.

    Attributes:
        grouped_by: groups by what names them.
        excluded: rollouts by the reason for which they are excluded.
        views: groups by the view that was chosen.
        mostly_blank: groups more than half of whose responses are blank.
        example: of the first group that can be compared, the first responses as the judges are shown them; of a group
            that cannot where no other is found.
    """

    grouped_by: Counter[str] = field(default_factory=Counter)
    excluded: Counter[str] = field(default_factory=Counter)
    views: Counter[str] = field(default_factory=Counter)
    mostly_blank: int = 0
    example: dict[str, Any] | None = None
    _example_is_compared: bool = False

    def add(self, group: Group, plan: GroupPlan) -> None:
        """Add a group."""
        kind = NO_FIELD if group.key is None else group.key.partition(":")[0]
        self.grouped_by[_KEY_KINDS.get(kind, kind)] += 1
        judged = begin_group(group, plan)
        excluded = [why for why in judged.not_compared if why is not None and why.reason.is_exclusion]
        self.excluded.update(why.detail if why.reason is Reason.EXCLUDED else why.text for why in excluded)
        self.mostly_blank += len(judged.blank) * 2 > judged.size > 1
        if not judged.answered:
            return
        self.views[judged.view] += 1
        is_compared = len(judged.answered) > 1
        if self.example is None or is_compared > self._example_is_compared:
            view = view_for_judges(judged, group, plan)[0]
            shown = zip(judged.answered, view.responses[:_EXAMPLE_RESPONSES], strict=False)
            self.example = {
                "group": group.key,
                "view": judged.view,
                "prompt": _excerpt(view.conversation[-1].text if view.conversation else ""),
                "responses": [{"index": index, "text": _excerpt(text)} for index, text in shown],
            }
            self._example_is_compared = is_compared


def _excerpt(text: str) -> str:
    """Return the beginning of a text, with a visible mark where lines are cut short or left out."""
    lines = [line if len(line) <= _EXAMPLE_CHARS else f"{line[:_EXAMPLE_CHARS]}…" for line in text.strip().split("\n")]
    if len(lines) > _EXAMPLE_LINES + 1:
        lines = [*lines[:_EXAMPLE_LINES], f"… and {len(lines) - _EXAMPLE_LINES:,} more lines"]
    return "\n".join(lines)
