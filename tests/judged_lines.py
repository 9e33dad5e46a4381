"""Score rollouts with the replies that a test writes, by way of request files: no judge, and every
reply is known.
"""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from answered_requests import openai_line
from genrm_process import Call, read_lines
from scored_lines import Json, write_lines

FLAGS = (
    "--model",
    "m",
    "--both-orders",
    "--strategy",
    "all_pairs",
)
Reply = Callable[[str, str], str | None]
"""The judge's reply to two responses in the order shown; None for none."""


def says(score_1: float, score_2: float, ranking: float, before: str = "") -> str:
    """Return a reply in the form that most profiles ask for."""
    return before + json.dumps(
        {
            "score_1": score_1,
            "score_2": score_2,
            "ranking": ranking,
        }
    )


def by_name(first: str, second: str) -> str:
    """Prefer what comes earlier in the alphabet; say that responses with the same first letter are
    equal.
    """
    if first[0] == second[0]:
        return says(3, 3, 3.5)
    return says(5, 2, 2) if first < second else says(2, 5, 5)


def score_replies(
    call: Call, folder: Path, groups: Sequence[Sequence[str]], reply: Reply = by_name, *flags: str
) -> None:
    """Write `x.scored.jsonl` of groups of responses, each group with a prompt of its own."""
    lines = [
        {
            "prompt": f"Question {number}?",
            "response": f"Response {text}",
            "step": number,
        }
        for number, texts in enumerate(groups)
        for text in texts
    ]
    write_lines(folder / "x.jsonl", lines)
    flags = (*FLAGS, *(() if "--profile" in flags else ("--profile", "nemotron-plain")), *flags)
    asked = call("score", "x.jsonl", "--requests-to", "q.jsonl", *flags)
    assert asked.code in (0, 6), asked.err
    write_lines(
        folder / "a.jsonl",
        [line for each in read_lines(folder / "q.jsonl") for line in _answer(each, reply)],
    )
    done = call("score", "x.jsonl", "--replies-from", "a.jsonl", *flags)
    assert done.code in (0, 6), done.err


def _answer(request: Json, reply: Reply) -> list[Json]:
    shown = " ".join(message["content"] for message in request["body"]["messages"])
    first, second = re.findall(r"Response ([a-z]\w*)", shown)
    said = reply(first, second)
    if said is None:
        return []
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": said},
        "finish_reason": "stop",
    }
    return [
        openai_line(
            request["custom_id"],
            200,
            {
                "object": "chat.completion",
                "choices": [choice],
            },
        )
    ]
