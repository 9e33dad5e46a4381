"""Chat, completion, verifiers, many responses in one line, and the compare request."""

import pytest

from genrm_cli.rollouts.formats import FORMATS, recognise
from genrm_cli.rollouts.rollout import Turn, UnreadableRecordError

QUESTION = (Turn("user", "Why?"),)
ASKED = {"role": "user", "content": "Why?"}


def answered(text, **others):
    """Make an assistant message."""
    return {
        "role": "assistant",
        "content": text,
        **others,
    }


def read_as(format_, record):
    """Read a record after checking which format it is recognised as."""
    assert recognise(record).name == format_
    return FORMATS[format_].read(record)


def test_chat_judges_the_last_assistant_turn():
    """All turns before the last assistant turn are the prompt."""
    messages = [
        ASKED,
        answered("Because."),
        {"role": "user", "content": "Really?"},
        answered("Yes."),
    ]
    (rollout,) = read_as("chat", {"messages": messages})
    assert rollout.prompt == (*QUESTION, Turn("assistant", "Because."), Turn("user", "Really?"))
    assert rollout.answer == "Yes."


def test_chat_keeps_tool_turns_with_the_answer():
    """A response that uses tools begins with its first call, not after the last tool turn."""
    call = {
        "id": "c",
        "type": "function",
        "function": {"name": "look", "arguments": "{}"},
    }
    messages = [
        ASKED,
        answered(None, tool_calls=[call]),
        {"role": "tool", "content": "4"},
        answered("It is 4."),
    ]
    (rollout,) = read_as("chat", {"messages": messages})
    assert rollout.prompt == QUESTION
    assert rollout.answer == "It is 4."


def test_verifiers_rows_group_by_example():
    """`example_id` names the task, 0 included."""
    record = {
        "example_id": 0,
        "prompt": [ASKED],
        "completion": [answered("Because.")],
        "reward": 1.0,
        "info": {},
    }
    (rollout,) = read_as("completion", record)
    assert rollout.task == "example:0"
    assert rollout.prompt == QUESTION
    assert rollout.answer == "Because."


def test_a_null_completion_is_no_response():
    """A verifiers row whose generation failed has no answer; it is not the text `None`."""
    record = {
        "example_id": 4,
        "prompt": [ASKED],
        "completion": None,
        "reward": 0.0,
        "error": "timeout",
    }
    assert read_as("completion", record)[0].answer is None
    assert read_as("completion", {"prompt": "Why?", "completion": None})[0].answer is None


def test_tool_calls_of_a_prompt_are_written_out():
    """Calls in OpenAI's shape, flat, or as JSON strings are part of the prompt: none is lost."""
    cases = {
        "openai": (
            {"function": {"name": "look", "arguments": '{"at": 1}'}},
            '[calls look({"at": 1})]',
        ),
        "object arguments": (
            {"function": {"name": "look", "arguments": {"at": 1}}},
            '[calls look({"at": 1})]',
        ),
        "flat": ({"name": "look", "arguments": '{"at": 1}'}, '[calls look({"at": 1})]'),
        "JSON string": (
            '{"name": "look", "arguments": "{}"}',
            '[calls {"name": "look", "arguments": "{}"}]',
        ),
        "null": (None, ""),
    }
    for case, (call, text) in cases.items():
        prompt = [ASKED, answered(None, tool_calls=[call]), {"role": "tool", "content": "4"}]
        (rollout,) = read_as(
            "completion",
            {
                "example_id": 1,
                "prompt": prompt,
                "completion": "It is 4.",
            },
        )
        assert rollout.prompt == (*QUESTION, Turn("assistant", text), Turn("tool", "4")), case


def test_many_responses_are_one_group_in_their_order():
    """One line with a list of responses is a whole group, also when it names its task."""
    for name in ["responses", "completions"]:
        rollouts = read_as(
            "completion",
            {
                "prompt": "Why?",
                name: ["a", [answered("b")], None],
                "prompt_id": "p",
            },
        )
        assert [rollout.answer for rollout in rollouts] == ["a", "b", None]
        assert all(rollout.line_is_group and rollout.prompt == QUESTION for rollout in rollouts)


def test_the_compare_request_is_one_group():
    """`conversation_history`, `response_objs` and a principle, as the reference takes them."""
    history = [
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "Why?"}],
        }
    ]
    responses = [
        {
            "id": "r",
            "output": [
                {
                    "type": "message",
                    "role": "assistant",
                    "content": [{"text": text}],
                }
            ],
        }
        for text in ("a", "")
    ]
    request = {
        "conversation_history": history,
        "response_objs": responses,
        "principle": "Be safe.",
    }
    rollouts = read_as("compare", request)
    assert [rollout.answer for rollout in rollouts] == ["a", ""]
    assert {(rollout.prompt, rollout.principle, rollout.line_is_group) for rollout in rollouts} == {
        (QUESTION, "Be safe.", True)
    }


def test_wrong_shapes_are_refused_with_a_reason():
    """A part in the wrong shape makes the line unreadable, and the message says what was found."""
    cases = [
        ("chat", {"messages": [{"role": "user", "content": 5}]}),
        ("chat", {"messages": [{"role": 5, "content": "x"}]}),
        ("completion", {"prompt": 5, "completion": "x"}),
        ("completion", {"prompt": "x", "completion": 5}),
        ("completion", {"prompt": "x", "response": {"id": "r"}}),
        ("completion", {"prompt": "x", "responses": []}),
        ("completion", {"prompt": "x", "responses": [5]}),
        (
            "compare",
            {
                "conversation_history": [5],
                "response_objs": ["a"],
            },
        ),
        (
            "compare",
            {
                "conversation_history": [],
                "response_objs": [],
            },
        ),
    ]
    for format_, record in cases:
        with pytest.raises(UnreadableRecordError, match=r"expected|neither|empty|no field"):
            read_as(format_, record)
