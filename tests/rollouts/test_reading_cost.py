"""What reading a line costs: the prompt of a task is read once, and any text in linear time."""

import json
import sys
from collections import Counter
from contextlib import suppress

from linear_time import LINEAR, growth

from genrm_cli.rollouts.formats import recognise
from genrm_cli.rollouts.rollout import UnreadableRecordError


def calls_while_reading(lines):
    """Count the calls of our functions while lines are read, each a JSON of its own."""
    records = [json.loads(json.dumps(line)) for line in lines]
    calls = Counter()

    def count(frame, event, _):
        if event == "call":
            calls[frame.f_code.co_name] += 1

    sys.setprofile(count)
    try:
        for record in records:
            recognise(record).read(record)
    finally:
        sys.setprofile(None)
    return calls


def gym_line(question, answer):
    """Make a row of NeMo Gym with three messages in its prompt."""
    asked = [{"role": role, "content": question} for role in ("system", "user", "user")]
    message = {"type": "message", "role": "assistant", "content": answer}
    return {"responses_create_params": {"input": asked}, "response": {"output": [message]}}


def test_the_prompt_of_a_task_is_read_once():
    """Messages and decoded texts alike: further lines of the task cost their responses only."""
    rows = [gym_line("Why is the sky so blue?", f"Answer {i}.") for i in range(8)]
    assert calls_while_reading(rows)["_read_message"] == 3 + 8
    asked = [{"role": "user", "content": "Why is it so red?"}]
    chats = [{"prompt": asked, "completion": f"Answer {i}."} for i in range(8)]
    assert calls_while_reading(chats)["_read_message"] == 1
    texts = [{"prompt": "Why is it so green?", "completion": f"Answer {i}."} for i in range(8)]
    assert calls_while_reading(texts)["_read_prompt"] == 1


def test_a_long_text_that_no_format_knows_takes_linear_time():
    """Whatever it holds: it is looked through for sentences and code."""

    def read(text):
        record = {"prompt": "Why?", "completion": "So it is.", "kept": text}
        with suppress(UnreadableRecordError):
            recognise(record).read(record)

    for unit in ("x", "a ", "a(", "; ", "} ", "\\n"):
        assert growth(read, unit) <= LINEAR, unit
