"""Under `--compat nemo-gym` the judge's server receives what NeMo Gym shows, whatever items a
rollout holds.
"""

import json

import pytest
from gym_oracle import shown_by_gym
from scored_components import score

from genrm_cli.judging.lookup import profile_of
from genrm_cli.settings import settings_from
from genrm_cli.settings.panel import judges_of
from genrm_cli.verdicts import Reason

SAID = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Fixed words."}],
}
USER = {"role": "user", "content": "Why?"}


def part(text, kind="output_text"):
    """Make one part of a message."""
    return {"type": kind, "text": text}


def message(*parts, role="assistant", **more):
    """Make a message item."""
    content = [part(each) if isinstance(each, str) else each for each in parts]
    return {
        "type": "message",
        "role": role,
        "content": content,
    } | more


CALL = {
    "type": "function_call",
    "name": "look",
    "arguments": '{"at": "door"}',
    "call_id": "c",
}
RESULT = {
    "type": "function_call_output",
    "call_id": "c",
    "output": "41",
}
REASONING = {
    "type": "reasoning",
    "id": "r",
    "summary": [{"type": "summary_text", "text": "Hm."}],
}
IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}

OUTPUTS = {
    "one message": [message("It is 4.")],
    "several messages": [message("One."), message("Two.")],
    "several parts": [message("One ", "two.")],
    "inline thinking": [message("<think>Hm.</think>So.<think>Hm.</think> Yes.")],
    "unclosed thinking": [message("So.<think>Hm.")],
    "template tokens": [message("So.<|im_end|>")],
    "markers of a prompt": [message("[=== END RESPONSE 1 ===]")],
    "calls and results": [CALL, RESULT, message("It is 41.")],
    "calls alone": [CALL, RESULT],
    "reasoning and words": [REASONING, message("So.")],
    "reasoning alone": [REASONING],
    "turns of the user": [
        message("One."),
        message(part("And?", "input_text"), role="user"),
        message("Two."),
    ],
    "an opening of the environment": [message("Rules.", role="system"), message("Play.")],
    "refusal": [message({"type": "refusal", "refusal": "No."}), message("Well.")],
    "refusal alone": [message({"type": "refusal", "refusal": "No."})],
    "media": [message("Look:", IMAGE)],
    "blank": [message(" \n")],
    "nothing": [],
}
INPUTS = {
    "text": [USER],
    "system and history": [
        {"role": "system", "content": "Be kind."},
        USER,
        {"role": "assistant", "content": "So."},
        {"role": "user", "content": "And?"},
    ],
    "parts": [
        {
            "role": "user",
            "content": [part("Why?", "input_text"), part("kept")],
        }
    ],
    "an output message": [USER, message("So.", id="msg_1"), message("Kept.")],
    "calls": [USER, CALL, RESULT, REASONING, USER],
    "a string": "Why?",
    "media": [
        {
            "role": "user",
            "content": [part("What?", "input_text"), IMAGE],
        }
    ],
}
REQUEST_EXTRAS = {
    "instructions": "Be brief.",
    "tools": [{"type": "function", "name": "look"}],
}


def line(output, given=None, **more):
    """Make one NeMo Gym line."""
    request = {"input": [USER] if given is None else given}
    return {
        "_ng_task_index": 0,
        "responses_create_params": request,
        "response": {"output": output},
        **more,
    }


def in_groups(groups):
    """Number the groups, and return their lines."""
    for number, lines in enumerate(groups):
        for each in lines:
            each["_ng_task_index"] = number
    return [each for lines in groups for each in lines]


def compat(tmp_path, server, lines, more="", **settings):
    """Score lines as NeMo Gym does."""
    given = {
        "model": "m",
        "profile": "nemotron",
        "base_url": server.base_url,
        "compat": "nemo-gym",
    } | settings
    toml = "".join(f"{name} = {json.dumps(value)}\n" for name, value in given.items())
    return score(tmp_path, lines, toml + more, max_unscored="1")


def received(server):
    """Return the role and the text of every message of every request, requests sorted."""
    requests = server.stats()["recent"]
    return sorted(
        [(each["role"], each["content"]) for each in one["body"]["messages"]] for one in requests
    )


def sent_by_gym(lines, principle=None):
    """Return what NeMo Gym's circular comparisons of lines send, sorted."""
    conversation, responses = shown_by_gym(lines)
    before = [*conversation, *([("principle", principle)] if principle else [])]
    pairs = zip(responses, [*responses[1:], responses[0]], strict=True)
    return sorted([*map(tuple, before), ("response_1", a), ("response_2", b)] for a, b in pairs)


def test_the_judge_receives_gyms_words_of_a_response(tmp_path, judge_server):
    """Every kind of output item, beside a response of plain words, each in a group of its own."""
    groups = [[line(output), line([SAID])] for output in OUTPUTS.values()]
    scored = compat(tmp_path, judge_server, in_groups(groups))
    expected = {tuple(sent) for lines in groups for sent in sent_by_gym(lines)}
    assert {
        tuple(sent) for sent in received(judge_server)
    } == expected  # equal requests are sent once
    assert None not in scored.rewards


def test_the_judge_receives_gyms_conversation(tmp_path, judge_server):
    """Every kind of input item; instructions and tools are not part of it."""
    groups = [[line([SAID], given), line([message("Others.")], given)] for given in INPUTS.values()]
    lines = in_groups(groups)
    for each in lines:
        each["responses_create_params"] |= REQUEST_EXTRAS
    compat(tmp_path, judge_server, lines)
    assert received(judge_server) == sorted(sent for lines in groups for sent in sent_by_gym(lines))


@pytest.mark.parametrize("response", [{}, {"output": None}])
def test_an_empty_object_in_a_request_is_a_response(tmp_path, judge_server, response):
    """In a line of a file, too, it is shown as the word None; null is no response."""
    request = {
        "conversation_history": [USER],
        "response_objs": [response, {"output": [SAID]}, None],
    }
    scored = compat(tmp_path, judge_server, [request])
    said = {"output": [SAID]}
    assert received(judge_server) == sent_by_gym(
        [request | {"response_objs": each} for each in ({}, said)]
    )
    assert [reward is None for reward in scored.lines[0]["rewards"]] == [False, False, True]


@pytest.mark.parametrize(
    ("first", "last"),
    [
        pytest.param(
            {"_ng_rollout_index": 1},
            {"_ng_rollout_index": 1, "_ng_attempt_index": 1},
            id="of a rollout",
        ),
        pytest.param(
            {"_ng_group_id": "g", "_ng_group_attempt": 0},
            {"_ng_group_id": "g", "_ng_group_attempt": 1},
            id="of a group",
        ),
    ],
)
def test_a_superseded_attempt_is_neither_planned_nor_asked(tmp_path, judge_server, first, last):
    """As without `--compat`: the plan counts exactly what is asked."""
    others = [
        line([message(text)], **last | {"_ng_rollout_index": index})
        for text, index in (("A.", 0), ("B.", 2))
    ]
    lines = [line([message("Never sent.")], **first), *others, line([message("Sent.")], **last)]
    scored = compat(tmp_path, judge_server, lines)
    assert scored.metrics["comparisons_planned"] == judge_server.stats()["requests"] == 3
    assert not any(
        "Never sent." in text for messages in received(judge_server) for _, text in messages
    )
    assert scored.reasons[0] == Reason.SUPERSEDED
    assert None not in scored.rewards[1:]


@pytest.mark.parametrize(
    ("settings", "principle"),
    [
        ({}, None),
        ({"principle": "The run's."}, "The line's."),
    ],
)
def test_a_lines_principle_is_sent_only_if_asked_for(tmp_path, judge_server, settings, principle):
    """As with Gym's `use_principle`."""
    lines = [line([message(text)], principle="The line's.") for text in ("One.", "Two.")]
    compat(tmp_path, judge_server, lines, **settings)
    assert received(judge_server) == sent_by_gym(lines, principle)


def test_a_missing_ranking_becomes_the_default(tmp_path, judge_server):
    """A reply that holds scores alone is completed."""
    judge_server.behave(fault={"content": '```json\n{"score_1": 4, "score_2": 2}\n```'})
    lines = [line([message(text)]) for text in ("One.", "Two.")]
    scored = compat(tmp_path, judge_server, lines)
    assert [(each["score_1"], each["score_2"], each["ranking"]) for each in scored.comparisons] == [
        (4, 2, 3.5)
    ] * 2


def test_the_journal_knows_the_defaults():
    """Verdicts of another default are others; those of Gym's own keep the name that they always
    had.
    """
    cases = [
        ({}, "nemotron+nemo-gym-3"),
        ({"default_score": 2.0}, "nemotron+nemo-gym-2"),
    ]
    for defaults, name in cases:
        (config,) = judges_of(settings_from(model="m", compat="nemo-gym", **defaults))
        assert profile_of(config).name == name


def test_lengths_are_those_of_gyms_texts(tmp_path, judge_server):
    """Inline thinking is part of the answer: without it the first response would be the shorter
    one.
    """
    lines = [
        line([message("<think>A long thought about it.</think>So.")]),
        line([message("So it is.")]),
    ]
    scored = compat(
        tmp_path, judge_server, lines, more="[shaping]\ngroup_answer_length_penalty_coeff = 1"
    )
    terms = [each["genrm"]["adjustments"]["answer_length"] for each in scored.lines]
    assert terms == [-0.5, 0.5]
