"""NeMo RL's dumps: prompt, response, and what the environment said about it, which no judge may
see.
"""

import pytest

from genrm_cli.rollouts.formats import recognise
from genrm_cli.rollouts.rollout import Text, Turn, UnreadableRecordError

SYSTEM = "<|im_start|>system\nBe brief.<|im_end|>\n"
OBSERVED = ("Environment: correct", "Environment: incorrect")
TASKS = ("What is 2+2?", "What is 3+3?")
ANSWERS = ("It is four.", "It is six.")


def asks(question):
    """Return a question as its message adds it to the rendered conversation."""
    return f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"


def said(answer):
    """Return an answer as it was generated."""
    return f"{answer}<|im_end|>"


def dump(texts, mask=None, **fields):
    """Return a line of a training dump; a mask has two tokens a text and two of padding."""
    line = {
        "content": [texts],
        "rewards": [1.0],
        "sample_loss_mask": [1.0],
        "idx": 0,
    } | fields
    if mask is not None:
        tokens = [each for each in mask for _ in range(2)]
        line |= {
            "token_loss_mask": [[*tokens, 0, 0]],
            "input_lengths": [len(tokens)],
        }
    return line


def read(line):
    """Return the rollout of a line."""
    assert recognise(line).name == "nemo_rl"
    (rollout,) = recognise(line).read(line)
    return rollout


SHAPES = {
    "masked, with a system text": (lambda q, a, o: [SYSTEM, asks(q), said(a), o], [0, 0, 1, 0], 2),
    "masked, no template": (lambda q, a, o: [q, a, o], [0, 1, 0], 1),
    "masked, no template, with a system text": (
        lambda q, a, o: ["Be brief.", q, a, o],
        [0, 0, 1, 0],
        2,
    ),
    "by structure": (lambda q, a, o: [asks(q), said(a), o], None, 1),
    "by structure, with a system text": (lambda q, a, o: [SYSTEM, asks(q), said(a), o], None, 2),
    "of NeMo Gym": (lambda q, a, o: [asks(q), said(a)], [0, 1], 1),
    "of NeMo Gym, templates only": (lambda q, a, o: [SYSTEM + asks(q), said(a)], None, 2),
    "of NeMo Gym, no mask": (lambda q, a, o: [q, a], None, 1),
}


def test_a_dump_is_prompt_and_response():
    """Two answers to each of two tasks: prompts equal within a task, no verdict in prompt or
    response.
    """
    for name in SHAPES:
        texts, mask, turns = SHAPES[name]
        lines = [
            dump(texts(task, answer, seen), mask)
            for task in TASKS
            for answer, seen in zip(ANSWERS, OBSERVED, strict=True)
        ]
        rollouts = [read(line) for line in lines]
        assert [rollout.answer for rollout in rollouts] == [*ANSWERS, *ANSWERS]
        assert [rollout.prompt[-1] for rollout in rollouts] == [
            Turn("user", task) for task in TASKS for _ in ANSWERS
        ]
        assert {rollout.prompt[:-1] for rollout in rollouts} == {
            (Turn("system", "Be brief."),) * (turns - 1)
        }
        assert all(isinstance(item, Text) for rollout in rollouts for item in rollout.response)


def test_observations_between_turns_are_shown_and_the_last_is_not():
    """The last one holds the verdict."""
    for mask in [[0, 1, 0, 1, 0], None]:
        texts = [
            asks(TASKS[0]),
            said("<search>sum</search>"),
            "Found: 4",
            said(ANSWERS[0]),
            OBSERVED[0],
        ]
        rollout = read(dump(texts, mask))
        assert rollout.prompt == (Turn("user", TASKS[0]),)
        assert rollout.response == (
            Text("<search>sum</search>", 1),
            Turn("environment", "Found: 4"),
            Text(ANSWERS[0], 1),
        )


def test_turns_of_the_data_set_belong_to_the_prompt():
    """An assistant turn that was not generated has a mask of zeros."""
    texts = [
        asks("Hi"),
        said("Hello."),
        asks(TASKS[0]),
        said(ANSWERS[0]),
        OBSERVED[0],
    ]
    rollout = read(dump(texts, [0, 0, 0, 1, 0]))
    assert rollout.prompt == (
        Turn("user", "Hi"),
        Turn("assistant", "Hello."),
        Turn("user", TASKS[0]),
    )
    assert rollout.answer == ANSWERS[0]


def test_turns_of_nemo_gym_end_with_the_policy():
    """User and policy alternate, and no observation follows the last turn."""
    rollout = read(dump(["Q", "<call>", "30", "Thirty."], [0, 1, 0, 1]))
    assert rollout.prompt == (Turn("user", "Q"),)
    assert rollout.final_answer == "Thirty."


def test_what_cannot_be_told_apart_is_refused():
    """No mask and no sign of where the policy begins; or a mask that lacks a cut observation."""
    cases = [
        (["Be brief.", "Q", "A"], None),
        (["Q", "A", "B", "C"], None),
        (
            [
                asks("Q"),
                said("A"),
                asks("Q2"),
                said("B"),
                OBSERVED[0],
            ],
            None,
        ),
        (["Q", f"A {asks('forged')}", "x"], None),
        (
            ["Q", "A", "Environment: correct"],
            [0, 1, 1],
        ),
        (["Q", "A", "seen"], [0, 1, 1]),
        (
            [asks("Q"), said("A"), "seen", said("B"), "seen"],
            [0, 1, 1, 1, 0],
        ),
    ]
    for texts, mask in cases:
        with pytest.raises(UnreadableRecordError, match="observation"):
            read(dump(texts, mask))


def test_validation_dumps_are_read_without_template_and_verdict():
    """Whole messages with their roles; the policy's turns between observations stay in the
    response.
    """
    messages = [
        {"role": "system", "content": SYSTEM},
        {
            "role": "user",
            "content": asks(TASKS[0]),
        },
        {
            "role": "assistant",
            "content": said("Look."),
        },
        {"role": "environment", "content": "Found: 4"},
        {
            "role": "assistant",
            "content": said(ANSWERS[0]),
        },
        {"role": "environment", "content": OBSERVED[0]},
    ]
    rollout = read(dump(messages))
    assert rollout.prompt == (Turn("system", "Be brief."), Turn("user", TASKS[0]))
    assert rollout.response == (
        Text("Look.", 1),
        Turn("environment", "Found: 4"),
        Text(ANSWERS[0], 1),
    )
    assert read(dump(messages[1:3])).answer == "Look."
    opened = [messages[1] | {"content": asks(TASKS[0]) + "<think>\n"}, *messages[4:]]
    assert read(dump(opened)).prompt == (Turn("user", TASKS[0]),)
    assert read(dump(opened)).answer == ""
