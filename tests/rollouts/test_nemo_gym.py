"""NeMo Gym lines, with every trap that real files hold."""

import json
from pathlib import Path

import pytest

from genrm_cli.rollouts.formats import FORMATS, recognise
from genrm_cli.rollouts.rollout import (
    Media,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    UnreadableRecordError,
)
from genrm_cli.rollouts.views import view_group

READ = FORMATS["nemo_gym"].read


def said(text, role="assistant"):
    """Make a message item as a server writes it."""
    kind = "output_text" if role == "assistant" else "input_text"
    return {
        "type": "message",
        "role": role,
        "content": [
            {
                "type": kind,
                "text": text,
                "annotations": [],
            }
        ],
    }


def thought(text):
    """Make a reasoning item with a summary."""
    return {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": text}],
    }


def called(name="look", arguments='{"at": 1}'):
    """Make a tool call."""
    return {
        "type": "function_call",
        "name": name,
        "arguments": arguments,
        "call_id": "c",
    }


def returned(output="nothing there"):
    """Make a tool's answer."""
    return {
        "type": "function_call_output",
        "call_id": "c",
        "output": output,
    }


def line(output=None, given="Why?", **others):
    """Make a line; without an output it has no response."""
    record = {
        "responses_create_params": {"input": given},
        **others,
    }
    return record if output is None else record | {"response": {"id": "r", "output": output}}


def read_one(record):
    """Read a record that holds one rollout."""
    assert recognise(record).name == "nemo_gym"
    (rollout,) = READ(record)
    return rollout


def test_a_string_input_is_one_user_turn():
    """An input that is a string means the same as a list with one user message."""
    assert read_one(line([said("x")], "Why?")).prompt == (Turn("user", "Why?"),)
    assert read_one(line([said("x")], [{"role": "user", "content": "Why?"}])).prompt == (
        Turn("user", "Why?"),
    )


def test_the_parts_of_an_input_are_read():
    """Unlike in the reference they are no empty prompt; one that is not text is named, as the judge
    lacks it.
    """
    cases = [
        ({"type": "input_text", "text": "this?"}, "this?"),
        ({"type": "input_image"}, "[input_image]"),
    ]
    for part, text in cases:
        content = [{"type": "input_text", "text": "See "}, part]
        rollout = read_one(line([said("x")], [{"role": "user", "content": content}]))
        assert rollout.prompt == (Turn("user", f"See {text}"),)
        assert rollout.media == ((Media("input_image"),) if part["type"] == "input_image" else ())


def test_developer_turns_are_system_turns():
    """`developer` is the newer name of `system`."""
    given = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "Why?"},
    ]
    assert read_one(line([said("x")], given)).prompt == (
        Turn("system", "Be brief."),
        Turn("user", "Why?"),
    )


def test_instructions_come_before_the_input():
    """The request's `instructions` are a system turn."""
    record = line([said("x")])
    record["responses_create_params"]["instructions"] = "Be brief."
    assert read_one(record).prompt == (Turn("system", "Be brief."), Turn("user", "Why?"))


def test_tool_calls_and_reasoning_in_the_input():
    """Calls and what tools answered are part of the prompt; an earlier turn's reasoning is not."""
    given = [
        {"role": "user", "content": "Why?"},
        thought("secret"),
        called(),
        returned(),
        said("Because."),
    ]
    assert read_one(line([said("x")], given)).prompt == (
        Turn("user", "Why?"),
        Turn("assistant", '[calls look({"at": 1})]'),
        Turn("tool", "nothing there"),
        Turn("assistant", "Because."),
    )


def test_an_input_without_text_is_no_prompt():
    """Six servers leave the input empty: such a prompt must not name a group."""
    for given in [None, [], ""]:
        assert not read_one(line([said("x")], given)).has_prompt


def test_the_answer_is_the_assistants_text_and_reasoning_stays_apart():
    """Reasoning items never reach the answer, which is what a judge sees."""
    rollout = read_one(line([thought("Let me think."), said("Because.")]))
    assert rollout.answer == "Because."
    assert rollout.reasoning == "Let me think."


def test_reasoning_items_in_every_shape():
    """Reasoning is in the summary, sometimes in the content, sometimes only encrypted, but never
    counted twice.
    """
    cases = {
        "summary": (
            {
                "summary": [
                    {"type": "summary_text", "text": "a"},
                    {"type": "summary_text", "text": "b"},
                ]
            },
            "ab",
        ),
        "content": (
            {
                "summary": [],
                "content": [{"type": "reasoning_text", "text": "c"}],
            },
            "c",
        ),
        "both": (
            {
                "summary": [{"text": "same"}],
                "content": [{"text": "same"}],
            },
            "same",
        ),
        "encrypted only": (
            {
                "summary": [],
                "encrypted_content": "gAAAA",
            },
            "",
        ),
        "nulls": ({"summary": None, "content": None}, ""),
        "bare": ({}, ""),
    }
    for case, (item, reasoning) in cases.items():
        rollout = read_one(line([{"type": "reasoning"} | item, said("Because.")]))
        assert rollout.answer == "Because.", case
        assert rollout.reasoning == reasoning, case


def test_a_message_without_a_role_is_the_policys():
    """Compare requests written by hand leave the role of a message out."""
    assert (
        read_one(
            line(
                [
                    {
                        "type": "message",
                        "content": [{"text": "Hi"}],
                    }
                ]
            )
        ).answer
        == "Hi"
    )


def test_inline_thinking_is_reasoning():
    """A server without a reasoning parser leaves `<think>` in the text; a judge must not see it."""
    rollout = read_one(line([said("<think>Hm.</think>\n\nBecause.")]))
    assert rollout.answer == "Because."
    assert rollout.reasoning == "Hm."


def test_turns_of_the_environment_are_no_answer():
    """User and system messages inside the output are the environment's, not the policy's."""
    output = [
        said("Hit."),
        said("You have 17.", "user"),
        said("Rules changed.", "system"),
        said("Stand."),
    ]
    assert read_one(line(output)).answer == "Hit.\n\nStand."


def test_the_environment_may_state_the_task_first():
    """Turns of the environment before the policy first acts belong to the prompt."""
    output = [
        said("You have 12.", "user"),
        thought("Low."),
        said("Hit."),
        said("You have 17.", "user"),
    ]
    rollout = read_one(line(output, []))
    assert rollout.prompt == (Turn("user", "You have 12."),)
    assert rollout.answer == "Hit."
    assert rollout.reasoning == "Low."


def test_a_policy_that_never_acts_answers_the_same_prompt_with_nothing():
    """A rollout cut off before its first action keeps the prompt of its group."""
    silent = read_one(line([said("You have 12.", "user")], []))
    acting = read_one(line([said("You have 12.", "user"), said("Hit.")], []))
    assert silent.prompt == acting.prompt
    assert silent.answer == ""


def test_a_trajectory_may_end_in_a_tool_call():
    """Tool calls are no answer; a trajectory that ends in one keeps what was said before, or
    nothing.
    """
    assert read_one(line([called(), returned(), called()])).answer == ""
    assert read_one(line([said("I look."), called(), returned()])).answer == "I look."
    assert read_one(line([called(), returned(), said("It is 4.")])).answer == "It is 4."


def test_nested_lists_of_items_are_flattened():
    """Aviary nests lists of items in the output."""
    assert read_one(line([[said("a")], [called(), [returned(), said("b")]]])).answer == "a\n\nb"


def test_growing_histories_count_once():
    """Where each step repeats all before it, the last step is the whole story."""
    first = [said("Task.", "user"), said("one")]
    second = [*first, returned(), said("two")]
    rollout = read_one(line([first, second], []))
    assert rollout.prompt == (Turn("user", "Task."),)
    assert rollout.answer == "one\n\ntwo"


def test_an_input_without_a_response_has_no_answer():
    """A line of inputs only is a rollout without a response, which is not the same as an empty
    one.
    """
    for record in [line(), line() | {"response": None}]:
        assert read_one(record).answer is None
        assert read_one(line([])).answer == ""


def test_the_fields_of_a_line_say_what_its_rollout_is():
    """Its task is the first name that says something (0 does, an empty text does not), attempts are
    counts, and what the writer took out of training is excluded with the reason.
    """
    cases = json.loads(Path(__file__).with_name("record_fields.json").read_bytes())
    for case in cases:
        rollout = read_one(line([said("x")]) | case["line"])
        read = {name: getattr(rollout, name) for name in case["rollout"]}
        assert read == case["rollout"], case["line"]


def test_every_kind_of_item_is_kept_in_order():
    """Calls, results, turns, refusals and media stand where they happened; an unknown item is
    named.
    """
    output = [
        thought("Hm."),
        said("I look."),
        called(),
        returned(),
        {
            "type": "web_search_call",
            "action": {"query": "April"},
        },
        {
            "type": "mcp_call",
            "name": "m",
            "arguments": "{}",
            "output": "5",
        },
        {
            "type": "custom_tool_call",
            "name": "c",
            "input": "free text",
        },
        {
            "type": "computer_call_output",
            "output": [{"type": "computer_screenshot", "image_url": "u"}],
        },
        said("Go on.", "user"),
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "refusal", "refusal": "No."}],
        },
        {"type": "image_generation_call", "result": "..."},
        {"type": "compaction"},
    ]
    rollout = read_one(line(output))
    assert rollout.response == (
        Reasoning("Hm."),
        Text("I look."),
        ToolCall("look", '{"at": 1}'),
        ToolResult("nothing there", "look"),
        ToolCall("web_search", '{"query": "April"}'),
        ToolCall("m", "{}"),
        ToolResult("5", "m"),
        ToolCall("c", "free text"),
        ToolResult("[computer_screenshot]"),
        Media("computer_screenshot"),
        Turn("user", "Go on."),
        Refusal("No."),
        Media("image", "data:image/png;base64,..."),
        Turn("environment", "[compaction]"),
    )


def test_an_empty_object_is_no_response():
    """As in a compare request: the generation failed."""
    for response in [None, {}, {"output": None}]:
        assert READ(line("x") | {"response": response})[0].response is None


def test_what_cannot_be_read_says_so():
    """A line of this format with a part in the wrong shape is refused with a reason."""
    cases = [
        line([said("x")], given=5),
        line("x") | {"response": "text"},
        line("x") | {"response": {"output": 5}},
        line([5]),
        line(
            [
                {
                    "type": "message",
                    "role": "assistant",
                    "content": 5,
                }
            ]
        ),
        line(
            [
                {
                    "type": "message",
                    "role": "assistant",
                    "content": [5],
                }
            ]
        ),
    ]
    for record in cases:
        with pytest.raises(UnreadableRecordError, match=r"expected|neither|not|no "):
            READ(record)


def test_a_session_keeps_its_client():
    """A session of `gymnasium_agent` is judged as a whole, with the turns of the client."""
    output = [
        said("Are you safe?"),
        said("I want to die.", "user"),
        said("Call 988, I stay with you."),
    ]
    rollout = read_one(line(output, [{"role": "user", "content": "I can't go on."}]))
    assert rollout.is_session
    assert rollout.session is not None
    assert [turn.role for turn in rollout.session] == ["assistant", "user", "assistant"]
    assert "I want to die." in view_group([rollout, rollout]).responses[0]


def test_tools_and_rules_of_the_environment_make_no_session():
    """Tool results and system messages are no client."""
    assert not read_one(line([called(), returned(), said("Because.")])).is_session
    assert not read_one(
        line([said("Hit."), said("Rules changed.", "system"), said("Stand.")])
    ).is_session
