"""Evaluation while training: the share of comparisons that a response wins against a fixed
answer.
"""

import asyncio
import json

import pytest
from served import reward_in, verify_row

from genrm_cli.adapters.reward_client import RewardClient

QUESTION = "Why is the sky blue?"
ANSWER = "Rayleigh scattering" + " of light" * 8
SHORT = "It is."
LONG = ANSWER + " by the molecules of the air" * 6


@pytest.fixture(scope="module")
def evaluating(keep):
    """Keep a server with a reference answer to one prompt; its judge prefers longer texts."""
    answers = json.dumps({"prompt": QUESTION, "completion": ANSWER})
    with keep("--reference answers.jsonl", {"answers.jsonl": answers}) as served:
        yield served


def test_a_single_response_has_a_comparable_number(evaluating, judge_server):
    """In every shape, without siblings: 1 for the better one, 0 for a worse or a blank one, .5 for
    the answer itself; each is compared in both orders.
    """
    rlhf = {"prompts": [QUESTION], "labels": ['{"as": "reference"}']}
    row = {"_ng_task_index": 1, "genrm_as": "reference"}
    for text, share in ((LONG, 1.0), (SHORT, 0.0), ("", 0.0), (ANSWER, 0.5)):
        judge_server.reset()
        group = {"messages": QUESTION, "responses": [text]}
        reply = evaluating.post("/v1/groups?as=reference", group).json()
        assert (reply["rewards"], reply["status"]) == ([share], "scored")
        assert judge_server.stats()["requests"] == (2 if text in (LONG, SHORT) else 0)
        member = {"size": 8, "messages": QUESTION, "text": text}
        asked = [
            ("/v1/cohorts/e/members/0?as=reference", member),
            ("/openrlhf?size=8", {"query": [QUESTION + text], **rlhf}),
            ("/verify", verify_row(0, text, asked=QUESTION, **row)),
        ]
        # A row that is blank is masked.
        replies = [evaluating.post(*each) for each in (asked if text else asked[:2])]
        assert [reward_in(reply) for reply in replies] == [share] * len(replies)


def test_responses_of_one_prompt_do_not_matter_to_each_other(evaluating):
    """Several samples of one prompt, and the mean is the win rate; nothing is calibrated."""
    client = RewardClient(evaluating.url)
    reply = asyncio.run(
        client.score_group(QUESTION, ["It was.", f"{LONG}!", f"{LONG}!"], evaluates=True)
    )
    assert reply["rewards"] == [0.0, 1.0, 1.0]
    assert reply["metrics"]["reward_mean"] == pytest.approx(2 / 3)
    assert evaluating.metric("genrm_calibration_comparisons") == 0


def test_equal_responses_at_the_same_time_share_the_calls_and_nothing_else(
    evaluating, judge_server
):
    """Two members with one text, as of a policy without temperature: each gets its own reply."""
    judge_server.behave(latency_s=0.2)
    before = judge_server.stats()["requests"]
    member = {"size": 2, "messages": QUESTION, "text": f"{LONG} twice"}
    path = "/v1/cohorts/equal/members/{}?as=reference"
    waiting = [evaluating.begin(path.format(id_), member) for id_ in ("a", "b")]
    replies = [each.json() for each in waiting]
    assert [(each["id"], each["members"], each["reward"]) for each in replies] == [
        ("a", ["a"], 1.0),
        ("b", ["b"], 1.0),
    ]
    assert judge_server.stats()["requests"] == before + 2


def test_a_judge_that_fails_gives_no_number(evaluating, judge_server):
    """The reward is null with a reason, not a loss."""
    judge_server.behave(refuses="FORBIDDEN")
    group = {"messages": QUESTION, "responses": [f"FORBIDDEN {LONG}", f"{LONG} and more"]}
    reply = evaluating.post("/v1/groups?as=reference", group).json()
    assert reply["rewards"] == [None, 1.0]
    assert reply["responses"][0]["reason_text"]


def test_a_prompt_without_an_answer_is_an_error(evaluating, served):
    """It names the setting and the remedy; so does a server without any, and another word."""
    group = {"messages": "When?", "responses": ["a"]}
    for server, how, says in (
        (evaluating, "reference", "no reference answer to this prompt"),
        (served, "reference", "needs the setting reference"),
        (served, "referense", "expected reference"),
    ):
        reply = server.post(f"/v1/groups?as={how}", group)
        assert reply.status_code == 422
        assert says in reply.text
