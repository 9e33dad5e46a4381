"""The formats, and the one that a record is written in."""

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
from genrm_cli.rollouts.record import UnreadableRecordError

# Recognised in this order: the more particular shapes first.
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

# Files that are not rollouts but easily taken for them: the keys that tell, and what to do instead.
_NOT_ROLLOUTS = (
    (("chosen", "rejected"), "this looks like labelled pairs: use `genrm eval`"),
    (("response_A", "response_B"), "this looks like labelled pairs: use `genrm eval`"),
    (("custom_id", "method", "url"), "this looks like the input of a batch: give its output file"),
    (("group_level_metrics",), "this looks like metrics: give the file of rollouts"),
    (("mean/reward",), "this looks like a reward profile: give the file of rollouts"),
    (("response_i", "response_j"), "this looks like comparisons: give the file of rollouts"),
)
_SHOWN_KEYS = 8


def recognise(record: Record) -> Dialect:
    """Return the format that a record is written in.

    Raises:
        UnreadableRecordError: none; the message names the keys that are there, and what to type.
    """
    for dialect in DIALECTS.values():
        if dialect.recognise(record):
            return dialect
    keys = sorted(record)
    shown = ", ".join(keys[:_SHOWN_KEYS]) or "none"
    more = f" and {len(keys) - _SHOWN_KEYS} more" if len(keys) > _SHOWN_KEYS else ""
    advice = next((advice for signs, advice in _NOT_ROLLOUTS if all(sign in record for sign in signs)), None)
    advice = advice or "name its fields, as in --prompt-field question --response-field reply.text"
    raise UnreadableRecordError(f"unknown shape with the keys {shown}{more}; {advice}")


__all__ = ["DIALECTS", "Dialect", "Record", "Score", "named_fields", "recognise"]
