"""Write a file of many rollouts for measurements: groups of 8, lines interleaved as a collector
writes them.
"""

import random
from pathlib import Path

import orjson

_TEXT = (
    "river stone garden window market engine winter letter bridge copper lantern harvest signal "
    "carbon orchard "
    "compass velvet meadow thunder pocket marble journey kettle ribbon shelter canyon mirror "
    "saddle anchor feather"
)
_WORDS = _TEXT.split()


def write_rollouts(
    path: Path,
    rollouts: int,
    text_chars: int,
    *,
    group_size: int = 8,
    part: int = 0,
    parts: int = 1,
) -> None:
    """Write a JSONL file of NeMo Gym rollouts with answers of about `text_chars` characters.

    A part holds every so many of all rollouts, so that groups span the parts.
    """
    generator = random.Random(part)
    window: list[bytes] = []
    with path.open("wb") as file:
        for row in range(part, rollouts, parts):
            task, index = divmod(row, group_size)
            window.append(_line(generator, task, index, text_chars))
            if len(window) == 4_096:
                generator.shuffle(window)
                file.writelines(window)
                window.clear()
        generator.shuffle(window)
        file.writelines(window)


def _line(generator: random.Random, task: int, index: int, text_chars: int) -> bytes:
    words = generator.choices(_WORDS, k=max(1, text_chars // 7))
    question = f"What does item {task} have to do with the {_WORDS[task % len(_WORDS)]}?"
    message = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": " ".join(words)}],
    }
    record = {
        "_ng_task_index": task,
        "_ng_rollout_index": index,
        "responses_create_params": {"input": [{"role": "user", "content": question}]},
        "response": {"id": f"resp_{task}_{index}", "object": "response", "output": [message]},
        "reward": 0.0,
    }
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
