"""The definition of a format: recognise a line, read its rollouts, write their scores back."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from genrm_cli.json_types import JsonObject, Record
from genrm_cli.rollouts.reading.account import describe_open, open_fields, roles_of
from genrm_cli.rollouts.reading.known_names import REFERENCES, Fields, part_named
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError

# The texts of every format's example: one question and two answers.
QUESTION = "Name a river."
ANSWER = "The Volga."
OTHER_ANSWER = "A river."
ASKED = {"role": "user", "content": QUESTION}
ANSWERED, ANSWERED_TOO = ({"role": "assistant", "content": text} for text in (ANSWER, OTHER_ANSWER))


class Score(NamedTuple):
    """The result of one rollout of a line: its reward (None = unscored) and the `genrm` object."""

    reward: float | None
    detail: Record


def written_scores(record: Record) -> list[Score]:
    """Read back what `annotate_line` or `annotate_list` wrote, in the order of the rollouts."""
    detail = detail_of(record)
    if "rollouts" not in detail:
        return [Score(number_or_none(record.get("reward")), detail)]
    field = "scores" if "previous_scores" in detail else "rewards"
    return paired_scores(flattened(record.get(field)), detail)


def detail_of(record: JsonObject) -> Record:
    """Return the `genrm` object of a scored line."""
    detail = record.get("genrm")
    if not isinstance(detail, dict):
        raise UnreadableRecordError("not scored: no genrm object; run `genrm score` on it first")
    return detail


def paired_scores(rewards: Sequence[object], detail: JsonObject) -> list[Score]:
    """Return the scores of a line from its rewards and the `genrm` objects of its rollouts."""
    details = flattened(detail.get("rollouts"))
    if len(rewards) != len(details) or not all(isinstance(each, dict) for each in details):
        raise UnreadableRecordError(
            f"{len(rewards)} rewards but {len(details)} genrm objects; score it again"
        )
    return [
        Score(number_or_none(reward), each) for reward, each in zip(rewards, details, strict=True)
    ]


def flattened(values: object) -> list[Any]:
    """Return the values of a list, and of the lists in it; nothing for anything else."""
    if not isinstance(values, list):
        return []
    return [each for value in values for each in (value if isinstance(value, list) else [value])]


def number_or_none(value: object) -> float | None:
    """Return a number unchanged; None for anything else."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def annotate_line(record: Record, scores: Sequence[Score], also: Collection[str] = ()) -> None:
    """Annotate a line that is one rollout: `genrm` explains its `reward`, which the fields `also`
    repeat.
    """
    (score,) = scores
    detail = score.detail | {"previous_reward": record.get("reward")}
    for name in also:
        if name in record:
            detail[f"previous_{name}"] = record[name]
            record[name] = score.reward
    record["reward"] = score.reward
    set_detail(record, detail)


def annotate_list(
    record: Record, scores: Sequence[Score], field: str = "rewards", also: Collection[str] = ()
) -> None:
    """Annotate a line with several rollouts: the rewards and `genrm.rollouts` are lists in the same
    order.

    `field` is the format's name for its list of rewards; the lists in `also` repeat it, and get the
    same numbers."""
    rewards = [score.reward for score in scores]
    detail: Record = {"rollouts": [score.detail for score in scores]}
    for name in (field, *(name for name in also if name in record)):
        detail[f"previous_{name}"] = record.get(name)
        record[name] = list(rewards)
    set_detail(record, detail)


def set_detail(record: Record, detail: Record) -> None:
    """Set `genrm`, and keep its earlier value (from an earlier run) as `genrm.previous_genrm`."""
    if "genrm" in record:
        detail["previous_genrm"] = without_history(record["genrm"])
    record["genrm"] = detail


def without_history(detail: object) -> object:
    """Return an earlier `genrm` object without the one before it, so that lines do not grow with
    each run.
    """
    if not isinstance(detail, dict):
        return detail
    return {name: value for name, value in detail.items() if name != "previous_genrm"}


def own_of_lists(
    parallel: Collection[str], responses: Sequence[str]
) -> Callable[[Record, int], Record]:
    """Return an `own_record` for lines whose responses are a list, the first of the fields
    `responses` that is one.

    The fields of a response object are added to those of the line, which take precedence. Fields in
    `parallel` have one entry per response, if they are lists of the same length; all other fields
    belong to the line."""

    def own_record(record: Record, position: int) -> Record:
        found: list[Any] = next(
            (record[name] for name in responses if isinstance(record.get(name), list)), []
        )
        own = found[position] if position < len(found) else None
        row = {
            name: value[position]
            if (name in parallel or name in responses)
            and isinstance(value, list)
            and len(value) == len(found) > position
            else value
            for name, value in record.items()
        }
        return {**own, **row} if isinstance(own, dict) else row

    return own_record


@dataclass(frozen=True, slots=True)
class Format:
    """One way to write rollouts as lines. Its readers raise `UnreadableRecordError`.

    Attributes:
        name: value of the setting `format`.
        recognise: whether a record looks like this format; a cheap check of its keys.
        read: the rollouts of a record, in order.
        annotate: set rewards and the `genrm` object in the record, one score per rollout, in the
            order of `read`. All other fields stay; a replaced value is kept under `genrm`.
        own_record: the fields of a record that belong to the rollout at a position; by default, all
            of them.
        scores: the inverse of `annotate`: the scores of a scored record, in the order of `read`.
        resolve: the fields that it reads of a record, if their names alone do not say it.
        owns_line: whether all other fields are metadata of its writer, whatever their names: its
            shape is unmistakable.
    """

    name: str
    recognise: Callable[[Record], bool]
    read: Callable[[Record], list[Rollout]]
    annotate: Callable[[Record, Sequence[Score]], None] = annotate_line
    own_record: Callable[[Record, int], Record] = lambda record, position: record
    scores: Callable[[Record], list[Score]] = written_scores
    fields: Fields = field(kw_only=True)
    example: Record = field(kw_only=True)
    resolve: Callable[[Record], Fields] | None = field(default=None, kw_only=True)
    owns_line: bool = field(default=False, kw_only=True)

    def fields_in(self, record: Record) -> Fields:
        """Return the fields of a record that it reads, by role."""
        return self.fields.present_in(record) if self.resolve is None else self.resolve(record)

    def open_fields(self, record: Record, settled: Collection[str] = ()) -> dict[str, str]:
        """Return an example of each field of a record that it does not account for, by path.

        `settled` are the paths of fields that the user has said something about."""
        if self.owns_line:
            return {}
        read = self.fields_in(record)
        read = replace(read, metadata=read.metadata + self.fields.metadata)
        if isinstance(record.get("genrm"), dict):
            # A scored line was accounted for when it was scored, with the settings of that run.
            settled = (*settled, *(name for name in record if part_named(name) is None))
        return open_fields(record, read, settled)

    def roles_in(self, record: Record, settled: Mapping[str, str]) -> dict[str, list[str]]:
        """Return the fields of a record by what each is taken for; `settled` has the roles that the
        user gave, by path.
        """
        read = self.fields_in(record)
        if self.owns_line:
            others = (name for name in record if name not in REFERENCES)
            read = replace(read, metadata=(*read.metadata, *others))
        return roles_of(record, read, settled)

    def refuse_open(self, record: Record, settled: Collection[str] = ()) -> None:
        """Refuse a record with fields that it does not account for."""
        if left := self.open_fields(record, settled):
            paths = ", ".join(left)
            told = describe_open(left, f"{self.name} lines have no such field")
            raise UnreadableRecordError(told, kind=f"{self.name} lines with {paths}")
