"""Objects of the Responses API under `compat`, given without a file: the judge receives what NeMo
Gym shows.
"""

import pytest
from gym_oracle import shown_by_gym

import genrm_cli as genrm
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.products.serve.shapes.call import rollout_of


def said(*texts):
    """Return a response of one message for each text."""
    parts = [{"type": "output_text", "text": text} for text in texts]
    return {
        "output": [
            {
                "type": "message",
                "role": "assistant",
                "content": [part],
            }
            for part in parts
        ]
    }


PROMPTS = ["Why?", [{"role": "user", "content": "How?"}]]
RESPONSES = [
    said("<think>I wonder.</think>One.", "Two.</s>"),
    said("Three."),
    {},
    None,
]


@pytest.mark.parametrize("prompt", PROMPTS)
async def test_the_python_api_shows_what_gym_shows(judge_server, prompt):
    """Messages are joined, thinking and tokens stay, and an empty object is the word None; null is
    no response.
    """
    settings = {
        "base_url": judge_server.base_url,
        "model": "m",
        "profile": "nemotron",
        "probe": False,
    }
    async with genrm.Scorer(compat="nemo-gym", **settings) as scorer:
        assert [reward is None for reward in (await scorer.score(prompt, RESPONSES)).rewards] == [
            False,
            False,
            False,
            True,
        ]
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    request = {"input": messages}
    lines = [
        {"responses_create_params": request, "response": response} for response in RESPONSES[:3]
    ]
    _, texts = shown_by_gym(lines)
    shown = [
        [each["content"] for each in one["body"]["messages"]]
        for one in judge_server.stats()["recent"]
    ]
    pairs = zip(texts, [*texts[1:], texts[0]], strict=True)
    assert sorted(shown) == sorted([messages[0]["content"], *pair] for pair in pairs)
    assert texts[0] == "<think>I wonder.</think>One.Two.</s>"


def test_other_responses_are_shown_as_without_compat():
    """A text is no object of the Responses API: a group with one has the view of genrm."""
    assert not genrm.Group.of("Why?", ["One.", said("Two.")]).records
    assert len(genrm.Group.of("Why?", [said("One."), None]).records) == 2


def test_a_response_of_a_request_becomes_a_line_of_gym_under_compat():
    """An `item` that is an object of the Responses API; a text stays a completion."""
    for as_gym, name in [(True, "response"), (False, "completion")]:
        request = {"messages": "Why?", "principle": "Be short."}
        plan = GroupPlan(shows_as_gym=as_gym)
        item = rollout_of(
            "a",
            "group",
            request,
            {
                "item": said("One."),
                "record": {"id": 7},
            },
            plan,
        )
        assert item.line[name] == said("One.")
        assert item.line["id"] == 7
        assert item.line["prompt_id"] == "group"
        assert item.rollout.principle == "Be short."
        text = rollout_of("b", "group", request, {"text": "One."}, plan)
        assert text.line["completion"] == "One."
        assert text.task == item.task
