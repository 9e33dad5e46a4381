"""tinker-cookbook's `trajectories.jsonl`: `turns` of role and content, `example_id`, `reward`, one rollout per line.

Source: thinking-machines-lab/tinker-cookbook `tinker_cookbook/eval/benchmarks/_types.py`.
"""

from collections.abc import Mapping

from genrm_cli.rollouts.formats.format import ANSWERED, ASKED, Format, annotate_line
from genrm_cli.rollouts.reading.fields import Record, excluded_of, failure_of, identifier, list_at, rollout_of
from genrm_cli.rollouts.reading.messages import items_of_messages, turns_of_messages
from genrm_cli.rollouts.rollout import Rollout


def _recognise(record: Record) -> bool:
    return isinstance(record.get("turns"), list) and ("example_id" in record or "benchmark" in record)


def _read(record: Record) -> list[Rollout]:
    # The grader speaks after the rollout has ended.
    turns = [
        turn for turn in list_at(record, "turns") if not (isinstance(turn, Mapping) and turn.get("role") == "grader")
    ]
    roles = [turn.role for turn in turns_of_messages(turns)]
    first = roles.index("assistant") if "assistant" in roles else len(roles)
    example = identifier(record.get("example_id")) or identifier(record.get("idx"))
    return [
        rollout_of(
            record,
            turns_of_messages(turns[:first]),
            items_of_messages(turns[first:]),
            task=None if example is None else f"example:{record.get('benchmark', '')}:{example}",
            excluded=excluded_of(record) or failure_of(record.get("error")),
        )
    ]


FORMAT = Format(
    "tinker",
    _recognise,
    _read,
    annotate_line,
    keys=("turns", "example_id", "benchmark"),
    example={"example_id": "river", "turns": [ASKED, ANSWERED]},
)
