"""What of a line is the prompt and what the response: nothing is guessed, and nothing of the prompt
is dropped.
"""

import copy
import json
from pathlib import Path

import pytest

from genrm_cli.rollouts.formats import recognise
from genrm_cli.rollouts.group_keys import group_key
from genrm_cli.rollouts.rollout import Media, Text, UnreadableRecordError

# Lines of a task, with placeholders: of its two distinct parts and of the response.
CASES = json.loads(Path(__file__).with_name("known_names.json").read_bytes())
OLD = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "OLD"},
]


def asked(text):
    """Make a user message."""
    return {"role": "user", "content": text}


def said(text):
    """Make an assistant message."""
    return {"role": "assistant", "content": text}


def filled(line, **values):
    """Return a line of a case with the placeholders of its texts filled."""
    text = json.dumps(line)
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return json.loads(text)


def groups_of(lines):
    """Read lines, and return the shown prompts and answers of each group."""
    groups = {}
    for number, line in enumerate(lines, 1):
        for rollout in recognise(line).read(copy.deepcopy(line)):
            groups.setdefault(group_key(rollout, number), []).append(rollout)
    return [
        ("\n".join(turn.text for turn in each[0].prompt), [one.answer for one in each])
        for each in groups.values()
    ]


TASKS = [
    ("Translate.", "Hello"),
    ("Count.", "Hello"),
]


def test_each_task_is_shown_whole_in_its_own_group():
    """Two tasks that differ in one part, with two responses each, are two groups with the policy's
    words.
    """
    for case in CASES["shapes"]:
        line = case["line"]
        lines = [filled(line, a=a, b=b, r=f"{a} {n}") for a, b in TASKS for n in (1, 2)]
        found = [(" ".join(prompt.split()), answers) for prompt, answers in groups_of(lines)]
        assert found == [
            (" ".join(case["shown"].format(a=a, b=b).split()), [f"{a} 1", f"{a} 2"])
            for a, b in TASKS
        ], case["name"]


def test_a_list_of_responses_is_a_group():
    """Alternatives in one line are a group, whatever their list is called; the reference is none of
    them.
    """
    for case in CASES["lists"]:
        found = groups_of([filled(case["line"], q=task) for task in ("One?", "Two?")])
        assert [answers for _, answers in found] == [
            ["One? 1", "One? 2"],
            ["Two? 1", "Two? 2"],
        ], case["name"]
        assert "One?" in found[0][0]
        assert "Two?" in found[1][0]


def test_a_line_that_is_not_clear_is_rejected_with_the_choices():
    """No weaker name stands in for another; the message names the candidates and the settings that
    choose.
    """
    for case in CASES["unclear"]:
        with pytest.raises(UnreadableRecordError, match=case["message"]) as caught:
            recognise(case["line"])
        assert "response_field" in str(caught.value)
        assert "response_field='answer'" not in str(caught.value)


def test_a_response_that_repeats_the_prompt_is_what_follows_it():
    """Pipelines of transformers return the conversation with the answer; only the answer is the
    policy's.
    """
    (rollout,) = recognise(
        line := {
            "prompt": [asked("Q?")],
            "generated_text": [asked("Q?"), said("A")],
        }
    ).read(line)
    assert rollout.response == (Text("A"),)


def test_a_system_prompt_of_one_response_alone_is_part_of_its_prompt():
    """Alternatives with other system prompts answer other prompts: they are not compared."""
    line = {
        "prompt": "Q?",
        "samples": [{"response": "A", "system_prompt": "S"}, {"response": "B"}],
    }
    assert groups_of([line]) == [("S\nQ?", ["A"]), ("Q?", ["B"])]


def test_texts_that_are_neither_prompt_nor_response_are_left_alone():
    """What a judge, a test or a parser said is metadata, as are numbers and a `message` that is a
    text.
    """
    others = (
        "judge_response",
        "expected_output",
        "reference_completion",
        "message",
    )
    line = {
        "prompt": "Q?",
        "response": "A",
        "turns": 2,
    } | dict.fromkeys(others, "X")
    assert [answers for _, answers in groups_of([line])] == [["A"]]


def test_messages_that_wait_for_an_answer_have_no_response():
    """An old turn of the history is not judged, and no choice is no response."""
    waiting = [*OLD, asked("Q?")]
    for line in ({"messages": waiting}, {"messages": waiting, "choices": []}):
        (rollout,) = recognise(line).read(line)
        assert [turn.text for turn in rollout.prompt] == ["Hi", "OLD", "Q?"]
        assert rollout.answer is None


def test_images_beside_a_prompt_are_media_of_it():
    """A column of images belongs to the prompt, which a text judge cannot see; the name of a
    container does not.
    """
    for images, media in (
        ([{"bytes": "x"}], (Media("image"),)),
        ([], ()),
        ("docker.io/x", ()),
    ):
        (rollout,) = recognise(
            line := {
                "prompt": "<image>Q?",
                "images": images,
                "response": "A",
            }
        ).read(line)
        assert rollout.media == media
