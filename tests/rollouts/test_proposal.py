"""What is proposed for lines that cannot be read: the one way that passes a trial, or none."""

from genrm_cli.jobs.due.propose_fields import propose_fields
from genrm_cli.rollouts.reading.proposal import Proposal, describe_choices

GOLD = "The known answer of the task."


def lines_of(make):
    """Make two lines for each of two tasks."""
    return [
        make(f"What is the {task} thing?", f"It is {task} {number} here.")
        for task in ("red", "blue")
        for number in (1, 2)
    ]


def messages(*texts):
    """Make messages of alternating roles."""
    roles = ("user", "assistant") * len(texts)
    return [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]


def test_fields_are_proposed_if_they_form_groups_with_a_prompt():
    """Nested fields, lists, conversations under any name, and a prompt of two fields."""
    cases = [
        (lambda q, a: {"user_question": q, "info": {"reply": a}}, "info.reply", "user_question"),
        (lambda q, a: {"ask": q, "samples": [a, "So."]}, "samples", "ask"),
        (
            lambda q, a: {"data": {"prompt": messages(q), "sampled": [a, "So."]}},
            "data.sampled",
            "data.prompt",
        ),
        (lambda q, a: {"traj": messages(q, a)}, "traj", None),
        (
            lambda q, a: {"instruction": "Be brief, please.", "user_task": q, "output": a},
            "output",
            "instruction,user_task",
        ),
        (
            lambda q, a: {"doc": {"query": q, "choices": [GOLD]}, "reply": {"text": [a, "So."]}},
            "reply.text",
            "doc.query",
        ),
        (
            lambda q, a: {"instruction": q, "response": GOLD, "generated_answer": a},
            "generated_answer",
            "instruction",
        ),
    ]
    for make, response, prompt in cases:
        assert propose_fields(lines_of(make)) == Proposal(response, prompt)


def test_nothing_is_proposed_that_could_be_wrong():
    """Two texts vary, the prompt is unknown or has no name, no two responses meet, or there is no
    policy's text.
    """
    cases = [
        lambda q, a: {"question": q, "zot": a, "plim": f"So it is {a}", "kram": f"Well {a}?"},
        lambda q, a: {"question": q, "generation": f"Let me think: {a[::-1]}", "zot": a},
        lambda q, a: {"zot": q, "kram": GOLD, "output": a},
        lambda q, a: {"user_question": q + a, "info": {"reply": a}},
        lambda q, a: {"question": q, "answer": GOLD},
        lambda q, a: {"prompt": q, "response_a": "A", "response_b": a},
        lambda q, a: {"messages": messages("Hello there.", "Well, hello.", q), "zot": a},
        lambda q, a: {"task_id": q[12:15], "completion": a},
    ]
    for make in cases:
        assert propose_fields(lines_of(make)) is None


def test_without_a_proposal_the_likelier_choices_come_first():
    """What varies within a prompt may be the response, what does not a part of the prompt."""
    lines = lines_of(
        lambda q, a: {"prompt": q, "output": a, "zot": f"So {a} it is.", "plim": f"Use {q} now."}
    )
    told = str(describe_choices(lines, ["zot", "plim"]))
    assert "zot varies among the lines of a prompt: response_field='zot' or ignore_fields" in told
    assert "plim is the same in all lines of a prompt: prompt_field='prompt,plim' or" in told
