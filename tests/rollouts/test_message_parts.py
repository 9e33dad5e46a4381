"""Messages and items in the shapes of many writers: calls are never lost, reasoning is never shown,
and what is not understood is refused.
"""

import json

import pytest

from genrm_cli.rollouts.formats import recognise
from genrm_cli.rollouts.rollout import Reasoning, Text, ToolCall, ToolResult, UnreadableRecordError

ASKED = {"role": "user", "content": "How many days has April?"}
CALL = "the days of April in the calendar"
ARGUMENTS = {"query": CALL}
THOUGHT = "SECRET thoughts about the calendar."
SAID = "April has 30 days."


def said(content=SAID, **more):
    """Make an assistant message."""
    return {"role": "assistant", "content": content, **more}


def read(*messages):
    """Read a conversation after the question."""
    line = {"messages": [ASKED, *messages]}
    (rollout,) = recognise(line).read(line)
    return rollout


def test_the_arguments_of_a_call_are_read_in_every_shape():
    """Under any name, flat or nested, as JSON text or one object, and as parts of the content."""
    text = f'{{"query": "{CALL}"}}'
    part = {"type": "text", "text": SAID}
    cases = {
        "args": said(tool_calls=[{"name": "look", "args": ARGUMENTS}]),
        "parameters": said(tool_calls=[{"name": "look", "parameters": ARGUMENTS}]),
        "one object": said(tool_calls={"name": "look", "arguments": ARGUMENTS}),
        "JSON text": said(tool_calls=f'[{{"name": "look", "arguments": {text}}}]'),
        "function_call": said(function_call=f'{{"name": "look", "arguments": {text}}}'),
        "Gemini": said([part, {"functionCall": {"name": "look", "args": ARGUMENTS}}]),
        "AI SDK": said([part, {"type": "tool-call", "toolName": "look", "input": ARGUMENTS}]),
        "Bedrock": said([{"text": SAID}, {"toolUse": {"name": "look", "input": ARGUMENTS}}]),
        "OpenTelemetry": {
            "role": "assistant",
            "parts": [
                {"type": "text", "content": SAID},
                {"type": "tool_call", "name": "look", "arguments": ARGUMENTS},
            ],
        },
    }
    for name, message in cases.items():
        assert read(message).response == (Text(SAID), ToolCall("look", text)), name


def test_what_a_server_executes_is_shown_with_its_result():
    """The logs of an interpreter and the passages of a search are results of their calls."""
    output = [
        {
            "type": "code_interpreter_call",
            "code": "print(30)",
            "outputs": [{"type": "logs", "logs": "30"}],
        },
        {"type": "file_search_call", "queries": ["April"], "results": [{"text": CALL}]},
        {"type": "message", **said([{"type": "output_text", "text": SAID}])},
    ]
    line = {"responses_create_params": {"input": "Why?"}, "response": {"output": output}}
    (rollout,) = recognise(line).read(line)
    assert rollout.response == (
        ToolCall("code_interpreter", "print(30)"),
        ToolResult("30", "code_interpreter"),
        ToolCall("file_search", '["April"]'),
        ToolResult(CALL, "file_search"),
        Text(SAID),
    )


def test_reasoning_is_never_the_response():
    """A channel, a role, a type or a mark of a part says that it is reasoning."""
    cases = [
        [said(THOUGHT, channel="analysis"), said(channel="final")],
        [{"role": "thought", "content": THOUGHT}, said()],
        [{"role": "reasoning", "content": THOUGHT}, said()],
        [{"role": "model", "parts": [{"text": THOUGHT, "thought": True}, {"text": SAID}]}],
        [said([{"type": "thought", "thought": THOUGHT}, {"type": "text", "text": SAID}])],
        [said([{"type": "reasoning", "content": THOUGHT}, {"type": "text", "text": SAID}])],
        [said(thinking=THOUGHT)],
        [said(reasoning=[{"type": "reasoning.text", "text": THOUGHT}])],
        [said(reasoning_details=[{"type": "reasoning.text", "text": THOUGHT}], reasoning=None)],
        [said(reasoning_details=[{"type": "reasoning.summary", "summary": THOUGHT}])],
        [said(thinking_blocks=[{"type": "thinking", "thinking": THOUGHT, "signature": "x"}])],
        [said(reasoning_content=THOUGHT, thinking_blocks=[{"type": "thinking", "thinking": "b"}])],
        [
            said(
                [
                    {"type": "reasoning", "summary": [{"type": "summary_text", "text": THOUGHT}]},
                    {"type": "text", "text": SAID},
                ]
            )
        ],
    ]
    for messages in cases:
        assert read(*messages).response == (Reasoning(THOUGHT), Text(SAID))
    again = read({"role": "thinking", "content": THOUGHT}, said("Wait."), ASKED, said())
    assert THOUGHT not in "".join(turn.text for turn in again.prompt)
    assert again.response == (Text(SAID),)


def test_a_message_that_is_not_understood_refuses_its_line():
    """A text or a call in a field that nobody knows could be what the policy did."""
    cases = [
        (said(actions=[{"do": "look", "with": {"query": "x"}}]), "message 2 has a field actions"),
        (said(final_words="These are some more words."), "message 2 has a field final_words"),
        (said([{"type": "card", "body": "These are some more words."}]), "of type 'card'"),
    ]
    for message, told in cases:
        with pytest.raises(UnreadableRecordError, match=told):
            read(message)
    noted = said(actions=[], usage={"total_tokens": 3}, extra={"raw": "A long raw reply of it."})
    assert read(noted).response == (Text(SAID),)


def test_a_conversation_that_ends_with_the_user_has_no_response():
    """An old turn is not judged."""
    old = [{"from": "human", "value": "Hi"}, {"from": "chatgpt", "value": "OLD"}]
    object_ = {"role": "assistant", "content": {"answer": "OLD"}}
    cases = [
        {"conversations": [*old, {"from": "human", "value": "And May?"}]},
        {"uid": "u", "messages": [ASKED, object_, ASKED]},
        {"tokens": [[1]], "masks": [[1]], "scores": [1.0], "messages": [[ASKED, said(), ASKED]]},
    ]
    for line in cases:
        (rollout,) = recognise(line).read(line)
        assert rollout.response is None
    (rollout,) = recognise({"conversations": old}).read({"conversations": old})
    assert rollout.answer == "OLD"


def test_lines_that_only_look_like_rollouts_are_refused():
    """Known solutions, steps of one response, a lone choice, documents, and turns as columns."""
    gold = "It has thirty days."
    cases = [
        ({"solution": gold, "messages": [ASKED, said(gold)]}, r"known answer \(solution\)"),
        ({"prompt": "Why?", "completions": ["a", "b"], "labels": [True, False]}, "the steps of"),
        ({"question": "Why?", "choices": [gold], "response": SAID}, "choices .* could be part"),
        ({"content": ["A first text here.", "A second one."], "rewards": [1, 0]}, "unknown format"),
        ({"prompt": ["Why?", "And how?"], "responses": ["a", "b"]}, "unknown format"),
    ]
    for line, told in cases:
        with pytest.raises(UnreadableRecordError, match=told):
            recognise(line)
    assert recognise({"messages": [ASKED, said()], "scenario": {"kind": "x"}}).name == "chat"


def test_a_text_may_stand_in_an_object_of_its_own():
    """OpenAI's Assistants API writes `{"value": ..., "annotations": []}`."""

    def part(text):
        return [{"type": "text", "text": {"value": text, "annotations": []}}]

    line = {
        "messages": [
            {"role": "user", "content": part("Why?")},
            {"role": "assistant", "content": part("So.")},
        ]
    }
    (rollout,) = recognise(line).read(line)
    assert [turn.text for turn in rollout.prompt] == ["Why?"]
    assert rollout.answer == "So."


def test_all_parts_of_a_prompt_are_shown():
    """Messages as JSON text, the text after a gap, and options of a sample without messages."""
    cases = [
        (
            {"messages": json.dumps([{"role": "user", "content": "Why?"}, said("So.")])},
            "Why?",
        ),
        (
            {"prompt": "def f(x):", "suffix": "return y", "completion": "y = x"},
            "def f(x):\n\nThe text that follows the response:\nreturn y",
        ),
        (
            {
                "id": 1,
                "epoch": 1,
                "input": "Why?",
                "choices": ["So.", "No."],
                "output": {"choices": [{"message": said()}]},
            },
            "Why?\n\nSo.\nNo.",
        ),
    ]
    for line, shown in cases:
        (rollout,) = recognise(line).read(line)
        assert [turn.text for turn in rollout.prompt] == [shown]
