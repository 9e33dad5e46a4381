"""What the sources of loaders require that no registry serves for a CPU: schema tests, not load tests.

Each docstring names the source. By hand, the classes and functions named were run on the files of these tests, with
the imports that they do not use replaced: every row arrived, with prompt, chosen and rejected as in the sample.
"""

import json
from itertools import pairwise

import pytest
from trainer_sample import PLAIN

pytestmark = pytest.mark.slow


def rows_of(path):
    """Read lines as NeMo-Aligner does: plain JSON, one object each."""
    with path.open(encoding="utf-8") as file:
        return [json.loads(line.strip()) for line in file]


def test_nemo_rl(export):
    """NeMo RL takes a context, and exactly two completions of unequal rank, of which the lower is better.

    Source: NVIDIA-NeMo/RL 7ea279ab, `PreferenceDataset` (it adds a column `task_name`, so the file may not have one)
    and `preference_preprocessor`. Run by hand at that commit, on JSON lines and Parquet.
    """
    for row, task in zip(rows_of(export("nemo-rl")), PLAIN, strict=True):
        assert "task_name" not in row
        better, worse = sorted(row["completions"], key=lambda completion: completion["rank"])
        assert better["rank"] < worse["rank"]
        assert [row["context"] + each["completion"] for each in (better, worse)] == [
            task.prompt + task.chosen,
            task.prompt + task.rejected,
        ]


def test_nemo_rl_binary(export):
    """NeMo RL takes a prompt that is a list of messages, and answers that are text, and makes messages of them.

    Source: NVIDIA-NeMo/RL 7ea279ab, `BinaryPreferenceDataset.format_data` and `preference_preprocessor`. Run by hand
    at that commit, on JSON lines and Parquet.
    """
    for row, task in zip(rows_of(export("nemo-rl-binary")), PLAIN, strict=True):
        assert row["prompt"] == task.prompt
        answers = [[{"role": "assistant", "content": row[key]}] for key in ("chosen", "rejected")]
        assert answers == [task.chosen, task.rejected]


def test_nemo_aligner(export):
    """NeMo-Aligner joins prompt and response as they are; turns begin at `<extra_id_1>`, and rewards are numbers.

    Source: NVIDIA/NeMo-Aligner af2b3bd9 and nemo-aligner 0.7.0, `DPOModelDataset` with `prompt` as text. Run by hand
    at 0.7.0, on JSON lines.
    """
    for row, task in zip(rows_of(export("nemo-aligner-rpo")), PLAIN, strict=True):
        assert (row["chosen_reward"], row["rejected_reward"]) == (5.0, 1.0)
        for key, answer in (("chosen_response", task.chosen), ("rejected_response", task.rejected)):
            system, *turns = (row["prompt"] + row[key]).split("<extra_id_1>")
            assert turns.pop() == ""
            messages = [dict(zip(("role", "content"), turn.split("\n", 1), strict=True)) for turn in turns]
            spoken = [message for message in task.prompt if message["role"] != "system"] + answer
            assert [(one["role"].lower(), one["content"].removesuffix("\n")) for one in messages] == [
                (one["role"], one["content"]) for one in spoken
            ]
            assert all(one["role"] != other["role"] for one, other in pairwise(messages))
            first = task.prompt[0]
            assert system == f"<extra_id_0>System\n{first['content'] if first['role'] == 'system' else ''}\n"
