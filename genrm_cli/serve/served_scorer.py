"""The judges of a server, and the calibration that grows with every group they judge."""

from collections.abc import Mapping

from genrm_cli.group_scorer import GroupScorer
from genrm_cli.groups.arriving import ArrivingGroup
from genrm_cli.groups.group import Group, JudgedGroup
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.groups.results import GroupRewards
from genrm_cli.judging.open_judges import OnEvent, ignore_event
from genrm_cli.serve.answers import CalibrationRecord
from genrm_cli.settings import Settings


class ServedScorer(GroupScorer):
    """Judges groups that arrive; keeps asking after the judge was down."""

    def __init__(self, settings: Settings, api_keys: Mapping[str, str], on_event: OnEvent = ignore_event) -> None:
        """Check and compile the settings; opens nothing.

        Raises:
            UsageError: as for `GroupScorer`.
        """
        super().__init__(settings, api_keys, on_event=on_event, resumes=True)
        self._comparisons = 0

    @property
    def plan(self) -> GroupPlan:
        """The compiled plan."""
        return self._plan

    def arriving(self, key: str, size: int | None) -> ArrivingGroup:
        """Begin a group; with its size, `ArrivingGroup.add` may ask early."""
        return ArrivingGroup(key, self._plan, self._open_set(), size)

    def conclude(self, group: Group, judged: JudgedGroup) -> tuple[GroupRewards, CalibrationRecord]:
        """Return the rewards of a judged group, with the calibration of everything judged so far."""
        verdicts = self._finish(judged, self._plan)
        self._begin(group, self._plan)
        self._comparisons += len(verdicts.used)
        calibration = self.calibration
        (rewards,) = self._reward([verdicts], self._plan, calibration)
        return rewards, CalibrationRecord(self._statistics.groups, self._comparisons, calibration)
