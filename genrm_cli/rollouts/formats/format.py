"""The definition of a format: recognise a line, read its rollouts, write their scores back."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from genrm_cli.json_types import JsonObject, Record
from genrm_cli.rollouts.reading.all_texts import describe_open, open_fields, roles_of
from genrm_cli.rollouts.reading.known_names import REFERENCES, Fields, part_named
from genrm_cli.rollouts.reading.values import is_objects, list_or_empty, object_or_empty, words
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError

# One entry per response, if the list has as many; all other fields belong to the line.
PARALLEL = frozenset(
    words(
        "rewards filtered_rewards scores advantages ids response_ids seeds rollout_ids "
        "finish_reasons stop_reasons lengths logprobs token_ids response_logprobs masks "
        "sampling_params models reward_components tokens predicted_answers labels is_correct "
        "metrics agent_ref input_lengths token_loss_mask sample_loss_mask generation_logprobs "
        "prev_logprobs ref_logprobs inference_logprobs overrides distill_token_ids"
    )
)


class Score(NamedTuple):
    """The result of one rollout of a line: its reward (None = unscored) and the `genrm` object."""

    reward: float | None
    detail: Record


def detail_of(record: JsonObject) -> Record:
    """Return the `genrm` object of a scored line."""
    detail = record.get("genrm")
    if not isinstance(detail, dict):
        raise UnreadableRecordError("not scored: no genrm object; run `genrm score` on it first")
    return detail


def number_or_none(value: object) -> float | None:
    """Return a number unchanged; None for anything else."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def annotate_line(record: Record, scores: Sequence[Score], also: Sequence[str] = ()) -> None:
    """Annotate a line that is one rollout: `genrm` explains its `reward`, which the fields `also`
    restate.
    """
    (score,) = scores
    _set_rewards(record, dict(score.detail), ("reward", *also), score.reward)


def _set_rewards(record: Record, detail: Record, names: Sequence[str], reward: object) -> None:
    """Set a reward under the first of these names, and under the others that the record has."""
    for name in (names[0], *(name for name in names[1:] if name in record)):
        detail[f"previous_{name}"] = record.get(name)
        record[name] = reward
    set_detail(record, detail)


def written_scores(record: Record) -> list[Score]:
    """Read back what a format's `annotate` wrote, in the order of the rollouts."""
    detail = detail_of(record)
    if "rollouts" not in detail:
        return [Score(number_or_none(record.get("reward")), detail)]
    rewards = list_or_empty(record.get("rewards"))
    details = list_or_empty(detail["rollouts"])
    if len(rewards) != len(details) or not is_objects(details):
        raise UnreadableRecordError(
            f"{len(rewards)} rewards but {len(details)} genrm objects; score it again"
        )
    return [
        Score(number_or_none(reward), each) for reward, each in zip(rewards, details, strict=True)
    ]


def set_detail(record: Record, detail: Record) -> None:
    """Set `genrm`, and keep its earlier value (from an earlier run) as `genrm.previous_genrm`,
    without the one before it: lines do not grow with each run.
    """
    earlier = record.get("genrm")
    if isinstance(earlier, dict):
        earlier = {name: value for name, value in earlier.items() if name != "previous_genrm"}
    if "genrm" in record:
        detail["previous_genrm"] = earlier
    record["genrm"] = detail


class Format(Struct, frozen=True):
    """One way to write rollouts as lines. Its readers raise `UnreadableRecordError`.

    Attributes:
        name: value of the setting `format`.
        recognise: whether a record looks like this format; a cheap check of its keys.
        read: the rollouts of a record, in order.
        rows: the values of a record that hold its rollouts, in order; empty if it is one rollout.
        annotate_rollout: set the reward and the `genrm` object of a record that is one rollout. All
            other fields stay; a replaced value is kept under `genrm`.
        scores: the scores of a scored record, in the order of `read`.
        restating: fields that restate the `rewards` of a line with several rollouts.
        resolve: the fields that it reads of a record, if their names alone do not say it.
        owns_line: whether all other fields are metadata of its writer, whatever their names: its
            shape is unmistakable.
        example: a line, which `genrm formats` prints; those of built-in formats are in
            `examples.json`.
    """

    name: str
    recognise: Callable[[Record], bool]
    read: Callable[[Record], list[Rollout]]
    fields: Fields
    rows: Callable[[Record], Sequence[object]] = lambda record: ()
    annotate_rollout: Callable[[Record, Sequence[Score]], None] = annotate_line
    scores: Callable[[Record], list[Score]] = written_scores
    example: Record = {}
    resolve: Callable[[Record], Fields] | None = None
    owns_line: bool = False
    restating: tuple[str, ...] = ()

    def annotate(self, record: Record, scores: Sequence[Score]) -> None:
        """Set rewards and the `genrm` object in a record: one score per rollout, in the order of
        `read`. In a line with several, `rewards` and `genrm.rollouts` are lists.
        """
        if not self.rows(record):
            self.annotate_rollout(record, scores)
            return
        detail = {"rollouts": [score.detail for score in scores]}
        rewards = [score.reward for score in scores]
        _set_rewards(record, detail, ("rewards", *self.restating), rewards)

    def own_record(self, record: Record, position: int) -> Record:
        """Return the fields of a record that belong to the rollout at a position.

        Those of its own object take precedence over those of the line. Of parallel lists, it has
        its own entry; all other fields belong to the line."""
        rows = self.rows(record)
        if position >= len(rows):
            return record
        line = {
            name: value[position]
            if isinstance(value, list)
            and len(value) == len(rows)
            and (name in PARALLEL or name in self.fields.response)
            else value
            for name, value in record.items()
        }
        return {**line, **object_or_empty(rows[position])}

    def fields_in(self, record: Record) -> Fields:
        """Return the fields of a record that it reads, by role."""
        return self.fields.present_in(record) if self.resolve is None else self.resolve(record)

    def open_fields(self, record: Record, settled: Collection[str] = ()) -> dict[str, str]:
        """Return an example of each field of a record that it does not account for, by path.

        `settled` are the paths of fields that the user has said something about."""
        if self.owns_line:
            return {}
        read = self.fields_in(record)
        read = read._replace(metadata=read.metadata + self.fields.metadata)
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
            read = read._replace(metadata=(*read.metadata, *others))
        return roles_of(record, read, settled)

    def refuse_open(self, record: Record, settled: Collection[str] = ()) -> None:
        """Refuse a record with fields that it does not account for."""
        if left := self.open_fields(record, settled):
            told = describe_open(left, f"{self.name} lines have no such field")
            raise UnreadableRecordError(told, kind=f"{self.name} lines with {', '.join(left)}")
