"""The formats, and the detection of the format of a record."""

from genrm_cli.rollouts.dialects.evaluators import inspect_log, lm_eval, openai_batch, openai_chat, vllm
from genrm_cli.rollouts.dialects.gym import compare, nemo_gym, nemo_rl
from genrm_cli.rollouts.dialects.named_fields import named_fields
from genrm_cli.rollouts.dialects.plain import alpaca, chat, columns, completion, episode, many, sharegpt
from genrm_cli.rollouts.dialects.trainers import (
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
from genrm_cli.rollouts.reading.dialect import Dialect, Score
from genrm_cli.rollouts.reading.fields import Record
from genrm_cli.rollouts.reading.unrecognised import describe_unrecognised
from genrm_cli.rollouts.record import UnreadableRecordError

# Recognised in this order, more specific shapes first.
DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        nemo_gym.DIALECT,
        compare.DIALECT,
        verifiers_traces.DIALECT,
        rllm.DIALECT,
        inspect_log.DIALECT,
        openai_batch.DIALECT,
        lm_eval.DIALECT,
        atropos.DIALECT,
        roll.DIALECT,
        ms_swift.DIALECT,
        columns.DIALECT,
        many.DIALECT,
        vllm.DIALECT,
        openai_chat.DIALECT,
        nemo_rl.DIALECT,
        tinker.DIALECT,
        verifiers.DIALECT,
        areal.DIALECT,
        skyrl.DIALECT,
        nemo_skills.DIALECT,
        verl.DIALECT,
        atropos_text.DIALECT,
        episode.DIALECT,
        alpaca.DIALECT,
        completion.DIALECT,
        sharegpt.DIALECT,
        chat.DIALECT,
    )
}


def recognise(record: Record) -> Dialect:
    """Return the format of a record.

    Raises:
        UnreadableRecordError: no format matches. The message names the keys present, and what to do.
    """
    for dialect in DIALECTS.values():
        if dialect.recognise(record):
            return dialect
    raise UnreadableRecordError(describe_unrecognised(record))


__all__ = ["DIALECTS", "Dialect", "Record", "Score", "named_fields", "recognise"]
