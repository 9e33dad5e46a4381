"""The groups that scored lines and comparison records form."""

from dataclasses import dataclass, field

from genrm_cli.groups.line_records import ComparisonRecord, ScoredLine
from genrm_cli.json_types import Record
from genrm_cli.rollouts.formats import Score
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError
from genrm_cli.typed_json import FormError, from_json


@dataclass(frozen=True, slots=True)
class ScoredRollout:
    """A rollout with its scored line, and the fields of the line that belong to it where they are
    needed.
    """

    rollout: Rollout
    line: ScoredLine
    record: Record = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScoredGroup:
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
