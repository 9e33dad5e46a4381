"""Under `--compat nemo-gym` the judge's server receives what NeMo Gym shows, whatever items a
rollout holds, in files and in memory.
"""

import json
from functools import partial
from pathlib import Path

import pytest
from gym_oracle import shown_by_gym
from scored_here import gym_line, said

import genrm_cli as genrm
from genrm_cli.judging.lookup import profile_of
from genrm_cli.settings import settings_from
from genrm_cli.settings.panel import judges_of
from genrm_cli.verdicts import Reason

ITEMS = json.loads(Path(__file__).with_name("gym_items.json").read_bytes())


@pytest.fixture
def compat(judged):
    """Return what scores lines as NeMo Gym does."""
    return partial(judged, profile="nemotron", compat="nemo-gym", max_unscored="1")


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


def test_the_judge_receives_gyms_words_of_a_response(compat, judge_server):
    """Every kind of output item, beside a response of plain words, each in a group of its own."""
    groups = [
        [gym_line(output, task=task), gym_line(said("Fixed words."), task=task)]
        for task, output in enumerate(ITEMS["outputs"].values())
    ]
    scored = compat([each for lines in groups for each in lines])
    expected = {tuple(sent) for lines in groups for sent in sent_by_gym(lines)}
    # Equal requests are sent once.
    assert {tuple(sent) for sent in received(judge_server)} == expected
    assert None not in scored.rewards


def test_the_judge_receives_gyms_conversation(compat, judge_server):
    """Every kind of input item; instructions and tools are not part of it."""
    groups = [
        [gym_line(said("Fixed words."), given, task), gym_line(said("Others."), given, task)]
        for task, given in enumerate(ITEMS["inputs"].values())
    ]
    lines = [each for lines in groups for each in lines]
    tools = [{"type": "function", "name": "look"}]
    for each in lines:
        each["responses_create_params"] |= {"instructions": "Be brief.", "tools": tools}
    compat(lines)
    assert received(judge_server) == sorted(sent for lines in groups for sent in sent_by_gym(lines))


@pytest.mark.parametrize("response", [{}, {"output": None}])
def test_an_empty_object_in_a_request_is_a_response(compat, judge_server, response):
    """In a line of a file, too, it is shown as the word None; null is no response."""
    own = {"output": said("Fixed words.")}
    request = {
        "conversation_history": [{"role": "user", "content": "Why?"}],
        "response_objs": [response, own, None],
    }
    scored = compat([request])
    assert received(judge_server) == sent_by_gym(
        [request | {"response_objs": each} for each in ({}, own)]
    )
    assert [reward is None for reward in scored.lines[0]["rewards"]] == [False, False, True]


@pytest.mark.parametrize("prompt", ["Why?", [{"role": "user", "content": "How?"}]])
async def test_the_python_api_shows_what_gym_shows(judge_server, prompt):
    """Messages are joined, thinking and tokens stay, and an empty object is the word None; null is
    no response.
    """
    thinking = {"output": said("<think>I wonder.</think>One.", "Two.</s>")}
    responses = [thinking, {"output": said("Three.")}, {}, None]
    async with genrm.Scorer(
        base_url=judge_server.base_url,
        model="m",
        profile="nemotron",
        probe=False,
        compat="nemo-gym",
    ) as scorer:
        rewards = (await scorer.score(prompt, responses)).rewards
    assert [reward is None for reward in rewards] == [False, False, False, True]
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    request = {"input": messages}
    lines = [{"responses_create_params": request, "response": each} for each in responses[:3]]
    assert received(judge_server) == sent_by_gym(lines)
    assert "<think>I wonder.</think>One.Two.</s>" in str(received(judge_server))


def test_other_responses_are_shown_as_without_compat():
    """A text is no object of the Responses API: a group with one has the view of genrm."""
    one = {"output": said("One.")}
    assert not genrm.Group.of("Why?", ["One.", one]).records
    assert len(genrm.Group.of("Why?", [one, None]).records) == 2


ATTEMPTS = [
    ({"_ng_rollout_index": 1}, {"_ng_rollout_index": 1, "_ng_attempt_index": 1}),
    (
        {"_ng_group_id": "g", "_ng_group_attempt": 0},
        {"_ng_group_id": "g", "_ng_group_attempt": 1},
    ),
]


@pytest.mark.parametrize(("first", "last"), ATTEMPTS, ids=["of a rollout", "of a group"])
def test_a_superseded_attempt_is_neither_planned_nor_asked(compat, judge_server, first, last):
    """As without `--compat`: the plan counts exactly what is asked."""
    others = [
        gym_line(said(text), **last | {"_ng_rollout_index": index})
        for text, index in (("A.", 0), ("B.", 2))
    ]
    scored = compat(
        [gym_line(said("Never sent."), **first), *others, gym_line(said("Sent."), **last)]
    )
    assert scored.metrics["comparisons_planned"] == judge_server.stats()["requests"] == 3
    assert "Never sent." not in str(received(judge_server))
    assert scored.reasons[0] == Reason.SUPERSEDED
    assert None not in scored.rewards[1:]


@pytest.mark.parametrize(
    ("settings", "principle"), [({}, None), ({"principle": "The run's."}, "The line's.")]
)
def test_a_lines_principle_is_sent_only_if_asked_for(compat, judge_server, settings, principle):
    """As with Gym's `use_principle`."""
    lines = [gym_line(said(text), principle="The line's.") for text in ("One.", "Two.")]
    compat(lines, **settings)
    assert received(judge_server) == sent_by_gym(lines, principle)


def test_the_lower_index_is_always_shown_first(compat):
    """As NeMo Gym shows all pairs."""
    lines = [gym_line(said(text)) for text in ("One.", "Two.", "Three.", "Four.", "Five.")]
    scored = compat(lines, strategy="all_pairs")
    assert len(scored.comparisons) == 10
    assert all(each["i"] < each["j"] for each in scored.comparisons)


def test_a_missing_ranking_becomes_the_default(compat, judge_server):
    """A reply that holds scores alone is completed."""
    judge_server.behave(fault={"content": '```json\n{"score_1": 4, "score_2": 2}\n```'})
    scored = compat([gym_line(said(text)) for text in ("One.", "Two.")])
    assert [(each["score_1"], each["score_2"], each["ranking"]) for each in scored.comparisons] == [
        (4, 2, 3.5)
    ] * 2


def test_the_journal_knows_the_defaults():
    """Verdicts of another default are others; those of Gym's own keep the name that they always
    had.
    """
    cases = [({}, "nemotron+nemo-gym-3"), ({"default_score": 2.0}, "nemotron+nemo-gym-2")]
    for defaults, name in cases:
        (config,) = judges_of(settings_from(model="m", compat="nemo-gym", **defaults))
        assert profile_of(config).name == name


def test_lengths_are_those_of_gyms_texts(compat):
    """Inline thinking is part of the answer: without it the first response would be the shorter
    one.
    """
    lines = [gym_line(said(text)) for text in ("<think>A long thought.</think>So.", "So it is.")]
    scored = compat(lines, "[shaping]\ngroup_answer_length_penalty_coeff = 1")
    terms = [each["genrm"]["adjustments"]["answer_length"] for each in scored.lines]
    assert terms == [-0.5, 0.5]
