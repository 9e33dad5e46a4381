"""What a dialect is: recognise a line, read its rollouts, write their scores back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from genrm_cli.rollouts.dialects.fields import Record
from genrm_cli.rollouts.record import Rollout


@dataclass(frozen=True, slots=True)
class Score:
    """What becomes of one rollout of a line: its reward (None = unscored) and the `genrm` object."""

    reward: float | None
    detail: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Dialect:
    """One way to write rollouts as lines.

    Attributes:
        name: what `--dialect` takes.
        recognise: whether a record looks like this dialect; cheap, by the keys that are there.
        read: the rollouts of a record, in order; raises `UnreadableRecordError`.
        annotate: set rewards and the `genrm` object in the record, one score a rollout, in the order of `read`.
            Every other field stays; a value that is replaced is kept under `genrm`.
        parallel: fields that hold one entry for each rollout of a line; all others belong to the line.
    """

    name: str
    recognise: Callable[[Record], bool]
    read: Callable[[Record], list[Rollout]]
    annotate: Callable[[Record, Sequence[Score]], None]
    parallel: tuple[str, ...] = ()

    def own_record(self, record: Record, position: int) -> Record:
        """Return a line's fields for one of its rollouts: of its parallel lists, the rollout's own entry."""
        lists = {name: record[name] for name in self.parallel if isinstance(record.get(name), list)}
        return record | {name: values[position] for name, values in lists.items() if position < len(values)}


def annotate_line(record: Record, scores: Sequence[Score]) -> None:
    """Annotate a line that is one rollout: `reward` is the number, `genrm` says how it came about."""
    (score,) = scores
    detail = score.detail | {"previous_reward": record.get("reward")}
    record["reward"] = score.reward
    set_detail(record, detail)


def annotate_list(record: Record, scores: Sequence[Score]) -> None:
    """Annotate a line that is a whole group: `rewards` is a list, `genrm.rollouts` too, in the same order."""
    detail = {
        "rollouts": [score.detail for score in scores],
        "previous_rewards": record.get("rewards"),
    }
    record["rewards"] = [score.reward for score in scores]
    set_detail(record, detail)


def set_detail(record: Record, detail: dict[str, Any]) -> None:
    """Set `genrm`, keeping what stood there before (a file scored earlier) as `genrm.previous_genrm`."""
    if "genrm" in record:
        detail["previous_genrm"] = record["genrm"]
    record["genrm"] = detail
