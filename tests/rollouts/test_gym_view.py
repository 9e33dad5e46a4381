"""The view of `--compat nemo-gym`, held against what NeMo Gym's functions return for every kind of
item.

The expected values are facts about NVIDIA-NeMo/Gym 07d6b0d0, worked out by hand from what it
documents and does."""

import json
import re
from pathlib import Path

from gym_oracle import gym_response_text, shown_by_gym

from genrm_cli.rollouts.gym_view import (
    gym_conversation,
    gym_history,
    gym_texts,
    refuse_as_gym,
    refuse_unanswered,
)
from genrm_cli.rollouts.rollout import Turn, UnreadableRecordError

# What NeMo Gym shows of the outputs of responses, and of inputs, turn by turn.
CASES = json.loads(Path(__file__).with_name("gym_views.json").read_bytes())


def message(*texts, kind="output_text", **others):
    """Make a message of text parts."""
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": kind, "text": text} for text in texts],
    } | others


REASONING = {
    "type": "reasoning",
    "id": "r",
    "summary": [{"type": "summary_text", "text": "Hm."}],
}


def test_a_response_is_its_output_texts_joined_with_nothing():
    """Calls, refusals, strings and nested lists count for nothing; nothing is the word None."""
    for output, text in CASES["responses"]:
        assert gym_response_text({"id": "r", "output": output}) == text


def test_lengths_are_measured_on_summaries_and_texts():
    """Reasoning is what the summaries hold, its content aside; an empty text is no None here."""
    items = [
        REASONING,
        REASONING | {"content": [{"type": "reasoning_text", "text": "more"}]},
        message("a"),
        message("b"),
    ]
    assert gym_texts({"output": items}) == ("Hm.Hm.", "ab")
    assert gym_texts({}) == ("", "")


def test_an_input_becomes_a_conversation():
    """One empty turn a character of a text; an item without a role is an empty user turn; parts are
    mostly lost.
    """
    for given, turns in CASES["inputs"]:
        assert [[*turn] for turn in gym_conversation(given)] == turns


def test_a_line_shows_neither_instructions_nor_the_environments_opening():
    """Only `input` is the conversation, and the first line's counts for the group."""
    request = {
        "instructions": "Be brief.",
        "input": [{"role": "user", "content": "Why?"}],
    }
    lines = [
        {
            "responses_create_params": request,
            "response": {"output": [message("rules", role="system"), message("a")]},
        },
        {"responses_create_params": request, "response": None},
    ]
    assert shown_by_gym(lines) == ((Turn("user", "Why?"),), ["rulesa", "None"])


def test_a_request_takes_a_message_without_a_role_for_the_users():
    """One empty object among the responses is shown as None and refuses nothing; one or many
    responses are taken.
    """
    history = [{"content": "Why?"}, {"role": "assistant"}]
    responses = [{}, {"output": None}, *({"output": [message(str(n))]} for n in range(70))]
    conversation, texts = shown_by_gym(
        [{"conversation_history": history, "response_objs": each} for each in responses]
    )
    assert conversation == gym_history(history) == (Turn("user", "Why?"), Turn("assistant", ""))
    assert texts[:4] == ["None", "None", "0", "1"]
    assert len(texts) == 72


ROW = {
    "responses_create_params": {"input": []},
    "response": {"output": []},
}


def test_a_row_with_a_field_of_another_type_is_refused():
    """As by NeMo Gym, whose `/verify` answers with HTTP 422; the message names the field."""
    cases = [
        ("prompt_id", 5),
        ("prompt_id", ["a"]),
        ("_ng_task_index", "first"),
        ("_ng_task_index", 1.5),
        ("task_index", {}),
        ("_ng_rollout_index", []),
        ("response", {}),
        ("response", {"output": None}),
        ("response", "text"),
    ]
    for name, value in cases:
        assert re.match(f"{name} .*HTTP 422", refusal_of(ROW | {name: value}))


def test_a_row_is_accepted_as_by_pydantic():
    """An optional index may be a text or a float that is an integer."""
    cases = [
        {},
        {"prompt_id": "p"},
        {"_ng_task_index": "3"},
        {"task_index": 3.0},
    ]
    for more in cases:
        assert refusal_of(ROW | more) == ""


def refusal_of(row):
    """Return why `/verify` refuses a row; nothing if it does not."""
    try:
        refuse_as_gym(row)
        refuse_unanswered(row)
    except UnreadableRecordError as error:
        return str(error)
    return ""
