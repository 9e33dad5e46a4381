"""What of a line is the prompt and what the response: nothing is guessed, and nothing of the prompt
is dropped.
"""

import copy
import json

import pytest

from genrm_cli.rollouts.formats import recognise
from genrm_cli.rollouts.group_keys import group_key
from genrm_cli.rollouts.rollout import Media, Text, UnreadableRecordError

GOLD = "GOLD"
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


def system(text):
    """Make a system message."""
    return {"role": "system", "content": text}


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


# A line of a task (its two distinct parts, the response), and the prompt as shown.
SHAPES = {
    "messages and response": (
        lambda a, b, r: {
            "messages": [*OLD, asked(a + b)],
            "response": r,
        },
        "Hi OLD {a}{b}",
    ),
    "messages and output": (
        lambda a, b, r: {
            "messages": [asked(a + b)],
            "output": r,
        },
        "{a}{b}",
    ),
    "messages and completion": (
        lambda a, b, r: {
            "messages": [asked(a + b)],
            "completion": r,
        },
        "{a}{b}",
    ),
    "messages, the response twice": (
        lambda a, b, r: {
            "messages": [asked(a + b), said(r)],
            "response": r,
        },
        "{a}{b}",
    ),
    "question, answer, messages": (
        lambda a, b, r: {
            "question": a + b,
            "answer": GOLD,
            "messages": [asked(a + b), said(r)],
        },
        "{a}{b}",
    ),
    "a prediction of LLaMA-Factory": (
        lambda a, b, r: {
            "prompt": a + b,
            "predict": r,
            "label": GOLD,
        },
        "{a}{b}",
    ),
    "generated_text": (
        lambda a, b, r: {
            "prompt": a + b,
            "generated_text": r,
            "target": GOLD,
        },
        "{a}{b}",
    ),
    "instruction and input": (
        lambda a, b, r: {
            "instruction": a,
            "input": b,
            "response": r,
        },
        "{a} {b}",
    ),
    "instruction, input, generation": (
        lambda a, b, r: {
            "instruction": a,
            "input": b,
            "generation": r,
        },
        "{a} {b}",
    ),
    "alpaca with system": (
        lambda a, b, r: {
            "system": a,
            "instruction": b,
            "input": "",
            "output": r,
        },
        "{a} {b}",
    ),
    "system and messages": (
        lambda a, b, r: {
            "system": a,
            "messages": [asked(b), said(r)],
        },
        "{a} {b}",
    ),
    "system as parts": (
        lambda a, b, r: {
            "system": [{"type": "text", "text": a}],
            "messages": [asked(b), said(r)],
        },
        "{a} {b}",
    ),
    "system_prompt and prompt": (
        lambda a, b, r: {
            "system_prompt": a,
            "prompt": b,
            "completion": r,
        },
        "{a} {b}",
    ),
    "system_prompt within the prompt": (
        lambda a, b, r: {
            "system_prompt": a,
            "prompt": a + b,
            "completion": r,
        },
        "{a}{b}",
    ),
    "history of pairs": (
        lambda a, b, r: {
            "query": b,
            "response": r,
            "history": [["Hi", a]],
        },
        "Hi {a} {b}",
    ),
    "history of messages": (
        lambda a, b, r: {
            "query": b,
            "response": r,
            "history": [asked("Hi"), said(a)],
        },
        "Hi {a} {b}",
    ),
    "Dolly": (
        lambda a, b, r: {
            "instruction": b,
            "context": a,
            "response": r,
        },
        "{b} {a}",
    ),
    "question and context": (
        lambda a, b, r: {
            "question": b,
            "context": a,
            "output": r,
            "answer": GOLD,
        },
        "{b} {a}",
    ),
    "options of a question": (
        lambda a, b, r: {
            "question": b,
            "choices": [{"label": "A", "text": a}],
            "response": r,
        },
        "{b} A. {a}",
    ),
    "a Responses object": (
        lambda a, b, r: {
            "instructions": a,
            "input": b,
            "output": [
                {
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": r}],
                }
            ],
            "text": {"format": {"type": "text"}},
        },
        "{a} {b}",
    ),
    "a logged call": (
        lambda a, b, r: {
            "messages": [asked(a + b)],
            "response": {"choices": [{"index": 0, "message": said(r)}]},
        },
        "{a}{b}",
    ),
    "a response with choices": (
        lambda a, b, r: {
            "messages": [asked(a + b)],
            "choices": [{"index": 0, "message": said(r)}],
        },
        "{a}{b}",
    ),
    "arena-hard": (
        lambda a, b, r: {
            "uid": a + b,
            "messages": [asked(a + b), said({"answer": r, "thought": "Hm."})],
        },
        "{a}{b}",
    ),
    "conversation": (
        lambda a, b, r: {
            "conversation": [asked(a + b), said(r)],
            "model": "m",
        },
        "{a}{b}",
    ),
    "ART": (
        lambda a, b, r: {
            "messages_and_choices": [
                asked(a),
                said("OLD"),
                asked(b),
                {"index": 0, "message": said(r)},
            ]
        },
        "{a} OLD {b}",
    ),
    "Anthropic": (
        lambda a, b, r: {
            "custom_id": a + b,
            "params": {"system": a, "messages": [asked(b)]},
            "result": {
                "type": "succeeded",
                "message": said([{"type": "thinking", "thinking": "x"}, {"text": r}]),
            },
        },
        "{a} {b}",
    ),
    "Gemini": (
        lambda a, b, r: {
            "request": {
                "systemInstruction": {"parts": [{"text": a}]},
                "contents": [{"parts": [{"text": b}]}],
            },
            "response": {
                "candidates": [
                    {"content": {"parts": [{"text": "x", "thought": True}, {"text": r}]}}
                ]
            },
        },
        "{a} {b}",
    ),
}
_ITEMS = {"type": "message", "role": "assistant"}
# A request and a reply, as logs and batches store them.
CALLS = {
    "a log": lambda a, b, r: {
        "request": {"messages": [system(a), asked(b)]},
        "response": {"choices": [{"message": said(r)}]},
    },
    "Helicone": lambda a, b, r: {
        "request_body": {"messages": [system(a), asked(b)]},
        "response_body": {"choices": [{"message": said(r)}]},
    },
    "Weave": lambda a, b, r: {
        "inputs": {"messages": [system(a), asked(b)]},
        "output": {"choices": [{"message": said(r)}]},
    },
    "the Responses API": lambda a, b, r: {
        "request": {"instructions": a, "input": b},
        "response": {"output": [_ITEMS | {"content": [{"type": "output_text", "text": r}]}]},
    },
    "a batch with its requests": lambda a, b, r: {
        "custom_id": r,
        "body": {"messages": [system(a), asked(b)]},
        "response": {
            "status_code": 200,
            "body": {"choices": [{"message": said(r)}]},
        },
    },
    "Bedrock": lambda a, b, r: {
        "recordId": r,
        "modelInput": {"system": a, "messages": [asked(b)]},
        "modelOutput": _ITEMS | {"content": [{"type": "text", "text": r}]},
    },
    "ms-swift": lambda a, b, r: {
        "response": r,
        "infer_request": {"messages": [system(a), asked(b)]},
    },
    "a decoded prompt": lambda a, b, r: {
        "request": {
            "prompt": f"<|im_start|>system\n{a}<|im_end|>\n<|im_start|>user\n{b}<|im_end|>\n<|im_start|>assistant\n"  # noqa: E501
        },
        "response": {"choices": [{"index": 0, "text": r}]},
    },
}
SHAPES |= {name: (line, "{a} {b}") for name, line in CALLS.items()}
SHAPES |= {
    "a spelling of system_prompt": (
        lambda a, b, r: {
            "systemPrompt": a,
            "prompt": b,
            "response": r,
        },
        "{a} {b}",
    ),
    "Ollama": (
        lambda a, b, r: {
            "messages": [asked(a + b)],
            "message": said(r),
        },
        "{a}{b}",
    ),
    "RAGAS": (
        lambda a, b, r: {
            "user_input": b,
            "retrieved_contexts": [a],
            "response": r,
            "reference": GOLD,
        },
        "{b} {a}",
    ),
    "DeepEval": (
        lambda a, b, r: {
            "input": b,
            "actual_output": r,
            "expected_output": GOLD,
            "retrieval_context": [a],
        },
        "{b} {a}",
    ),
    "SYNTHETIC-1": (
        lambda a, b, r: {
            "prompt": a + b,
            "llm_response": r,
            "gold_standard_solution": GOLD,
        },
        "{a}{b}",
    ),
    "messages as their JSON text": (
        lambda a, b, r: {
            "messages": json.dumps([system(a), asked(b)]),
            "response": r,
        },
        "{a} {b}",
    ),
    "labelled options": (
        lambda a, b, r: {
            "question": b,
            "options": {"A": a, "B": "x"},
            "response": r,
        },
        "{b} A. {a} B. x",
    ),
    "options of ARC": (
        lambda a, b, r: {
            "question": b,
            "choices": {"text": [a], "label": ["A"]},
            "output": r,
        },
        "{b} A. {a}",
    ),
    "outputs that are one conversation": (
        lambda a, b, r: {
            "prompt": a + b,
            "outputs": [said(""), {"role": "tool", "content": "30"}, said(r)],
        },
        "{a}{b}",
    ),
    "content under another name": (
        lambda a, b, r: {
            "messages": [
                {"role": "USER", "message": a},
                {"role": "HUMAN", "prompt": b},
            ],
            "response": {
                "role": "model",
                "parts": [{"text": r}],
            },
        },
        "{a} {b}",
    ),
    "roles in capitals": (
        lambda a, b, r: {
            "conversations": [
                {"from": "User", "value": a + b},
                {"from": "Assistant", "value": r},
            ]
        },
        "{a}{b}",
    ),
}
TASKS = [
    ("Translate.", "Hello"),
    ("Count.", "Hello"),
]


def test_each_task_is_shown_whole_in_its_own_group():
    """Two tasks that differ in one part, with two responses each, are two groups with the policy's
    words.
    """
    for name in SHAPES:
        line, shown = SHAPES[name]
        lines = [line(a, b, f"{a} {n}") for a, b in TASKS for n in (1, 2)]
        found = [(" ".join(prompt.split()), answers) for prompt, answers in groups_of(lines)]
        assert found == [
            (" ".join(shown.format(a=a, b=b).split()), [f"{a} 1", f"{a} 2"]) for a, b in TASKS
        ]


LISTS = {
    "OpenR1": lambda q, r: {
        **{
            "problem": q,
            "solution": GOLD,
            "answer": GOLD,
            "generations": r,
            "finish_reasons": ["stop", "stop"],
        },
        "messages": [asked(q), said(r[0])],
    },
    "search-and-learn": lambda q, r: {
        "problem": q,
        "answer": GOLD,
        "completions": r,
        "pred": r[0],
        "scores": [[1.0], [0.0]],
    },
    **{
        name: lambda q, r, name=name: {"question": q, "answer": GOLD, name: r}
        for name in (
            "outputs",
            "samples",
            "generations",
            "responses",
            "candidates",
            "completions",
        )
    },
    "messages and responses": lambda q, r: {
        "messages": [*OLD, asked(q)],
        "responses": r,
    },
    "objects with a response each": lambda q, r: {
        "prompt": q,
        "rollouts": [{"response": each, "reward": 1} for each in r],
    },
    "alternatives as messages": lambda q, r: {"prompt": q, "responses": [said(each) for each in r]},
    "a generation that is a list": lambda q, r: {"instruction": q, "generation": r},
    "system beside": lambda q, r: {
        "system_prompt": q,
        "prompt": "Hello",
        "completions": r,
    },
    "UltraFeedback": lambda q, r: {
        "instruction": q,
        "completions": [
            {
                "response": each,
                "custom_system_prompt": "Be brief.",
                "principle": "honesty",
            }
            for each in r
        ],
        "correct_answers": [GOLD],
    },
    "ART": lambda q, r: {
        "trajectories": [
            {"messages_and_choices": [asked(q), {"index": 0, "message": said(each)}]} for each in r
        ]
    },
}


def test_a_list_of_responses_is_a_group():
    """Alternatives in one line are a group, whatever their list is called; the reference is none of
    them.
    """
    for name in LISTS:
        lines = [LISTS[name](task, [f"{task} 1", f"{task} 2"]) for task in ("One?", "Two?")]
        found = groups_of(lines)
        assert [answers for _, answers in found] == [
            ["One? 1", "One? 2"],
            ["Two? 1", "Two? 2"],
        ]
        assert all(
            task in prompt for task, (prompt, _) in zip(("One?", "Two?"), found, strict=True)
        )


def test_a_line_that_is_not_clear_is_rejected_with_the_choices():
    """No weaker name stands in for another; the message names the candidates and the settings that
    choose.
    """
    cases = [
        (
            {
                "question": "Q?",
                "answer": GOLD,
                "prediction": "P",
            },
            "could be prediction; say what each is",
        ),
        (
            {
                "question": "Q?",
                "answer": GOLD,
                "pred": "P",
            },
            "answer is a reference",
        ),
        ({"question": "Q?", "answer": GOLD}, "answer is a reference"),
        (
            {
                "question": "Q?",
                "answer": GOLD,
                "code": ["a", "b"],
            },
            "answer is a reference",
        ),
        (
            {
                "instruction": "Q?",
                "input": "",
                "output": "R",
                "generation": "G",
            },
            "could be output, generation",
        ),
        (
            {
                "prompt": "Q?",
                "question": "Else?",
                "completion": "A",
            },
            "the prompt could be prompt, question",
        ),
        (
            {
                "messages": [asked("Q?"), said("R")],
                "generation": "G",
            },
            "the response could be messages, generation",
        ),
        (
            {
                "messages": [asked("Q?"), said("R")],
                "question": "Else?",
            },
            r"question \(.*could be part",
        ),
        (
            {
                "prompt": ["Q?"],
                "completion": ["A"],
                "system_prompt": "S",
            },
            r"system_prompt \(.*could be part",
        ),
        (
            {
                "conversations": [
                    {"from": "human", "value": "Q"},
                    {"from": "gpt", "value": "A"},
                ],
                "output": "B",
            },
            "output",
        ),
        (
            {
                "prompt": "Q?",
                "response": "A",
                "reply": "B",
            },
            "the response could be response, reply",
        ),
        (
            {
                "prompt": "Q?",
                "response": "A",
                "text": "B",
            },
            "the response could be response, text",
        ),
        (
            {
                "question": "Q?",
                "choices": [{"label": "A", "text": "Volga"}],
            },
            "unknown format",
        ),
        (
            {
                "prompt": "Q?",
                "response": "A",
                "dialogue_history": "H",
            },
            r"dialogue_history \('H'\) could be part",
        ),
        (
            {
                "key": 1,
                "user_query": "Q?",
                "output": {"text": "A"},
            },
            r"user_query \(.*could be part",
        ),
        (
            {
                "prompt": "Q?",
                "response": "A",
                "Document": "D",
            },
            r"Document \(.*could be part",
        ),
        (
            {
                "prompt": "Q?",
                "response": "A",
                "orig_response": "B",
            },
            r"orig_response \('B'\) could be part",
        ),
        (
            {
                "prompt": "Q?",
                "response": "A",
                "responseB": "B",
            },
            r"responseB \('B'\) could be part",
        ),
        (
            {
                "prompt": "Q?",
                "response": "A",
                "options": {"stop": ["B"], "seed": 1},
            },
            r"options.stop \(.*could be part",
        ),
        (
            {
                "choices": [{"message": said("A")}],
                "raw_input": {"question": "Q?"},
            },
            r"raw_input.question \(.*could be part",
        ),
        (
            {
                "prompt": {"raw": "Q?"},
                "response": {"output": "A"},
            },
            r"prompt.raw \('Q\?'\), response.output \('A'\) could be",
        ),
        (
            {"question": "Q?", "best_answer": GOLD},
            r"best_answer is a reference.* question \('Q\?'\) could be",
        ),
    ]
    for line, choices in cases:
        with pytest.raises(UnreadableRecordError, match=choices) as caught:
            recognise(line)
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


def test_a_known_shape_that_is_no_rollout_says_what_to_do():
    """The message names the writer, the command that converts the file, and the fields."""
    cases = [
        (
            {"task_id": "x/1", "completion": "A"},
            r"completion \('A'\) could be part of the prompt or a response",
        ),
        (
            {
                "prompt": "Q?",
                "response_0": "A",
                "response_1": "B",
            },
            "genrm eval",
        ),
    ]
    for line, told in cases:
        with pytest.raises(UnreadableRecordError, match=told):
            recognise(line)


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


def test_a_failed_generation_among_others_has_no_response():
    """It is a rollout of its group that is not compared."""
    (group,) = groups_of(
        [
            {
                "instruction": "Q?",
                "generation": ["A", None],
            }
        ]
    )
    assert group == ("Q?", ["A", None])


def test_completions_with_other_system_prompts_answer_other_prompts():
    """UltraFeedback's system prompt differs by completion: these are not compared with each
    other.
    """
    completions = [
        {
            "response": text,
            "custom_system_prompt": text.upper(),
        }
        for text in ("a", "b")
    ]
    assert [
        answers for _, answers in groups_of([{"instruction": "Q?", "completions": completions}])
    ] == [["a"], ["b"]]
    assert groups_of([{"instruction": "Q?", "completions": completions[:1]}]) == [("A\nQ?", ["a"])]
