"""What a run says of rollouts that are alone: the setting that it tried on the first lines."""

import json

import pytest

from genrm_cli.errors import InputError
from genrm_cli.jobs.context import new_run
from genrm_cli.jobs.previews.preview import Preview, iter_previews
from genrm_cli.settings import settings_from


def preview(folder, lines, **given):
    """Return what `genrm validate` finds in lines."""
    path = folder / "in.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (found,) = iter_previews([str(path)], new_run(settings_from(model="m", **given)))
    return found


def turn(role, text):
    """Make a message."""
    return {"role": role, "content": text}


PRINCIPLES = [
    {"task": "t", "prompt": "What?", "completion": f"A {i}.", "principle": f"p{i}"} for i in (0, 1)
]
CHATS = [
    {
        "messages": [
            turn("user", f"Hello {i // 2}"),
            turn("assistant", f"Hi {i}"),
            turn("user", f"And {i}?"),
            turn("assistant", "Bye."),
        ]
    }
    for i in range(4)
]
ITEMS = [
    {"prompt": f"Q{i // 2}?", "completion": f"A {i}.", "prompt_id": i, "item": i // 2}
    for i in range(4)
]
REPLIES = [
    {
        "custom_id": f"r{i}",
        "response": {
            "status_code": 200,
            "body": {"choices": [{"message": {"role": "assistant", "content": f"A {i}."}}]},
        },
    }
    for i in range(4)
]
NOTHING = [{"prompt": f"Q{i}?", "completion": f"A {i}.", "model": "m"} for i in range(4)]


@pytest.mark.parametrize(
    ("lines", "given", "told", "works"),
    [
        (PRINCIPLES, {"group_by": "task"}, "differ in their principle", None),
        (PRINCIPLES, {}, "differ in their principle", None),
        (CHATS, {}, "form groups with $format", {"format": "episode"}),
        (ITEMS, {}, "form groups with $group_by", {"group_by": "item"}),
        (REPLIES, {}, "put the request of each reply into its line", None),
        (NOTHING, {}, "name the field that rollouts of one task share", None),
    ],
)
def test_the_advice_works(tmp_path, lines, given, told, works):
    """It names what tells the rollouts apart, and never the setting that was given."""
    error = preview(tmp_path, lines, **given).error
    assert told.replace("$", "") in str(error)
    if works is not None:
        found = preview(tmp_path, lines, **works)
        assert found.error is None
        assert found.can_be_scored


def test_what_groups_are_by_names_the_principle(tmp_path):
    """It is a part of their key."""
    assert preview(tmp_path, PRINCIPLES).grouped_by == {"prompt text and principle": 2}


def test_a_file_of_which_most_are_alone_has_a_problem(tmp_path):
    """Also if some can be compared."""
    found = preview(tmp_path, [*NOTHING, {**NOTHING[0], "completion": "Another."}])
    assert found.can_be_scored
    assert "3 of 5 are alone" in str(found.problems[0].problem)


def outputs_of_sessions():
    """Make a dump of verl with the tool call and the answer of each session but one."""
    for session in range(3):
        asked = "user\nWhat is the time?\nassistant\n"
        call = f"<tool_call>clock {session}</tool_call>"
        line = {"gts": "g", "score": 1.0, "step": 3}
        yield line | {"input": asked, "output": call, "uid": f"a_b_{session}_0"}
        if session < 2:
            asked += f"{call}\nuser\n<tool_response>{session}</tool_response>\nassistant\n"
            yield line | {"input": asked, "output": "Late.", "uid": f"a_b_{session}_1"}


def test_the_last_output_of_a_session_stands_for_it(tmp_path):
    """Its response is the whole session after the task; earlier outputs are superseded."""
    found = preview(tmp_path, list(outputs_of_sessions()))
    assert isinstance(found, Preview)
    assert found.counts.group_sizes == {5: 1}
    assert found.excluded.total() == 2
    assert found.plan.calls == 3
    assert found.problems == []


def test_a_misspelt_answer_is_refused(tmp_path):
    """A field or a tool that no response has is no blank response."""
    lines = [{"prompt": "Q?", "completion": json.dumps({"final": each})} for each in ("a", "b")]
    assert preview(tmp_path, lines, answer_field="final").error is None
    for given in ({"answer_field": "finl"}, {"answer_tool": "submit"}):
        with pytest.raises(InputError, match="no response has a value under"):
            raise preview(tmp_path, lines, **given)


@pytest.mark.parametrize("name", ["qwen3_8b", "model_a", "x", "pred"])
def test_a_short_text_beside_equal_responses_is_named(tmp_path, call, genrm, name):
    """It may be what the policy wrote, while the responses that were read are the known answer."""
    lines = [{"prompt": "6 times 7?", "response": "It is 42.", name: text} for text in ("42", "41")]
    told = f"lines with the same prompt and response differ in {name}; if one of them is the"
    assert told in str(preview(tmp_path, lines).error)
    genrm.write("in.jsonl", lines)
    assert told in call("score in.jsonl --offline").ended(0).err
    collapsed = [{"prompt": "6 times 7?", "response": "42", "step": step} for step in range(2)]
    genrm.write("same.jsonl", collapsed)
    assert "differ in" not in call("score same.jsonl --offline").ended(0).err
