"""SkyRL's evaluation dumps: `input_prompt`, `output_response`, `score`, `stop_reason`, one rollout per line.

Source: NovaSky-AI/SkyRL `skyrl/train/utils/trainer_utils.py`.
"""

from collections.abc import Sequence

from genrm_cli.rollouts.formats.format import ANSWER, QUESTION, Format, Score, annotate_line
from genrm_cli.rollouts.formats.trainers.verl import items_of_turns
from genrm_cli.rollouts.reading.decoded import turns_of_template
from genrm_cli.rollouts.reading.fields import Record, first_of, has_all, rollout_of
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError


def _recognise(record: Record) -> bool:
    return has_all(record, ("input_prompt", "output_response"))


def _read(record: Record) -> list[Rollout]:
    prompt, output = (first_of(record, (name,)) for name in ("input_prompt", "output_response"))
    if not isinstance(prompt, str) or not isinstance(output, str | None):
        raise UnreadableRecordError("input_prompt or output_response is not a string, expected decoded texts")
    return [rollout_of(record, turns_of_template(prompt), None if output is None else items_of_turns(output))]


def _annotate(record: Record, scores: Sequence[Score]) -> None:
    annotate_line(record, scores, also=("score",))


FORMAT = Format(
    "skyrl",
    _recognise,
    _read,
    _annotate,
    keys=("input_prompt", "output_response"),
    example={"input_prompt": QUESTION, "output_response": ANSWER},
)
