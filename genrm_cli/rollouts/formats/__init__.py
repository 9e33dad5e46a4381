"""The formats, and the detection of the format of a record."""

from genrm_cli.rollouts.formats.evaluators import inspect_log, lm_eval, openai_batch, openai_chat, vllm
from genrm_cli.rollouts.formats.format import Format, Score
from genrm_cli.rollouts.formats.gym import compare, nemo_gym, nemo_rl
from genrm_cli.rollouts.formats.named_fields import named_fields
from genrm_cli.rollouts.formats.plain import alpaca, chat, columns, completion, episode, many, sharegpt
from genrm_cli.rollouts.formats.trainers import (
    areal,
    atropos,
    atropos_text,
    ms_swift,
    nemo_skills,
    rllm,
    roll,
    skyrl,
    tinker,
    verifiers,
    verifiers_traces,
    verl,
)
from genrm_cli.rollouts.reading.fields import Record
from genrm_cli.rollouts.reading.unrecognised import describe_unrecognised
from genrm_cli.rollouts.rollout import UnreadableRecordError

# Recognised in this order, more specific shapes first.
FORMATS: dict[str, Format] = {
    format_.name: format_
    for format_ in (
        nemo_gym.FORMAT,
        compare.FORMAT,
        verifiers_traces.FORMAT,
        rllm.FORMAT,
        inspect_log.FORMAT,
        openai_batch.FORMAT,
        lm_eval.FORMAT,
        atropos.FORMAT,
        roll.FORMAT,
        ms_swift.FORMAT,
        columns.FORMAT,
        many.FORMAT,
        vllm.FORMAT,
        openai_chat.FORMAT,
        nemo_rl.FORMAT,
        tinker.FORMAT,
        verifiers.FORMAT,
        areal.FORMAT,
        skyrl.FORMAT,
        nemo_skills.FORMAT,
        verl.FORMAT,
        atropos_text.FORMAT,
        episode.FORMAT,
        alpaca.FORMAT,
        completion.FORMAT,
        sharegpt.FORMAT,
        chat.FORMAT,
    )
}


def recognise(record: Record) -> Format:
    """Return the format of a record.

    Raises:
        UnreadableRecordError: no format matches. The message names the keys present, and what to do.
    """
    for format_ in FORMATS.values():
        if format_.recognise(record):
            return format_
    raise UnreadableRecordError(describe_unrecognised(record))


__all__ = ["FORMATS", "Format", "Record", "Score", "named_fields", "recognise"]
