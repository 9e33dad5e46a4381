"""`POST /v1/groups` and `/compare` over a real server with a real judge."""

import json

import pytest
from served import judge_flags, serving, texts


def responses(count, group):
    """Return responses with ids; the last is the longest."""
    return [{"id": f"r{place}", "text": text} for place, text in enumerate(texts(count, group))]


def test_a_group_gets_rewards_in_the_order_of_its_responses(served):
    """With status and comparisons by id; ids, not positions, decide who meets whom."""
    given = responses(4, "order")
    reply = served.group(id="order", messages="Why?", responses=given[::-1])
    assert reply["status"] == "scored"
    assert [each["id"] for each in reply["responses"]] == ["r3", "r2", "r1", "r0"]
    assert reply["rewards"] == sorted(reply["rewards"], reverse=True)
    assert reply["rewards"] == [each["reward"] for each in reply["responses"]]
    assert sum(each["advantage"] for each in reply["responses"]) == pytest.approx(0)
    assert {id_ for each in reply["comparisons"] for id_ in each["shown"]} == {
        "r0",
        "r1",
        "r2",
        "r3",
    }
    assert reply["metrics"]["scored"] == 4
    assert reply["metrics"]["failed"] == 0


def test_a_repeated_group_is_answered_again_without_a_call(served, judge_server):
    """The same id and content: the same reply, byte for byte but for nothing."""
    given = {
        "id": "repeated",
        "messages": [{"role": "user", "content": "Why?"}],
        "responses": responses(3, "rep"),
    }
    first = served.group(**given)
    asked = judge_server.stats()["requests"]
    assert served.group(**given) == first
    assert judge_server.stats()["requests"] == asked


def test_a_group_without_an_id_is_named_by_its_content(served):
    """Two posts of one content are one group; another content is another one."""
    given = {
        "messages": "Why not?",
        "responses": responses(2, "unnamed"),
    }
    first = served.group(**given)
    again = served.group(**given)
    assert first == again
    assert (
        served.group(messages="Why then?", responses=responses(2, "unnamed"))["id"] != first["id"]
    )


def test_another_content_under_the_same_id_is_refused(served):
    """409 names the group and the response."""
    served.group(id="taken", messages="Why?", responses=responses(2, "one"))
    reply = served.post(
        "/v1/groups",
        {
            "id": "taken",
            "messages": "Why?",
            "responses": responses(2, "two"),
        },
    )
    assert reply.status_code == 409
    assert "'taken'" in reply.json()["error"]["message"]


def test_a_failed_comparison_is_null_and_never_a_number(served, judge_server):
    """With a judge that only fails: status failed, rewards null, a reason each; asking again judges
    again.
    """
    judge_server.behave(fault={"status": 400})
    given = {
        "id": "failing",
        "messages": "Why?",
        "responses": responses(3, "fail"),
    }
    reply = served.group(**given)
    assert reply["status"] == "failed"
    assert reply["rewards"] == [None] * 3
    assert all(each["reason"] for each in reply["responses"])
    assert {each["failure"]["kind"] for each in reply["comparisons"]} == {"refused"}
    judge_server.behave()
    assert served.group(**given)["status"] == "scored"


def test_the_deadline_of_a_group_ends_the_wait_for_the_judge(served, judge_server):
    """Comparisons without an answer are failures of the kind timeout."""
    judge_server.behave(latency_s=30)
    reply = served.group(
        id="hurried", messages="Why?", responses=responses(2, "hurry"), deadline_s=0.2
    )
    assert reply["status"] == "failed"
    assert reply["rewards"] == [None, None]
    assert {each["failure"]["kind"] for each in reply["comparisons"]} == {"timeout"}


def test_a_request_that_cannot_be_read_says_why(served):
    """422 with a sentence."""
    cases = [
        ({"messages": "Why?"}, "responses is not a list"),
        (
            {
                "messages": "Why?",
                "responses": [],
            },
            "responses is not a list of 1 to 1024",
        ),
        ({"responses": [{"text": "a"}]}, "messages is neither"),
        (
            {"messages": "Why?", "responses": [{"text": "a"}], "deadline_s": 0},
            "deadline_s is not a positive",
        ),
        (
            {
                "messages": "Why?",
                "responses": [
                    {"id": 1, "text": "a"},
                    {"id": "1", "text": "b"},
                ],
            },
            "two responses have",
        ),
        (
            {
                "messages": "Why?",
                "responses": [{"text": "a", "item": "b"}],
            },
            "either text or item",
        ),
        (
            {
                "messages": "Why?",
                "responses": [{"text": 3}],
            },
            "text is not a text",
        ),
        (
            {
                "messages": "Why?",
                "responses": [
                    {
                        "text": "a",
                        "record": {"output": "b", "response": "c"},
                    }
                ],
            },
            "the record's output, response could be",
        ),
    ]
    for body, said in cases:
        reply = served.post("/v1/groups", body)
        assert reply.status_code == 422
        assert said in reply.json()["error"]["message"]


def compare_request(name):
    """Make a compare request with parts of both kinds."""
    return {
        "conversation_history": [{"role": "user", "content": f"Why {name}?"}],
        "response_objs": [
            {
                "output": [
                    {
                        "type": "message",
                        "role": "assistant",
                        "content": [{"type": "output_text", "text": text}],
                    }
                ]
            }
            for text in texts(3, name)
        ],
    }


def test_compare_has_the_reply_of_nemo_gym(served):
    """Rewards, comparison results with indices, three metrics; nothing else."""
    reply = served.post("/compare", compare_request("compared")).json()
    assert set(reply) == {"rewards", "comparison_results", "metrics"}
    assert reply["rewards"] == sorted(reply["rewards"])
    assert set(reply["comparison_results"][0]) == {
        "response_i", "response_j", "judge_idx", "score_1", "score_2", "ranking",
    }  # fmt: skip
    assert set(reply["metrics"]) == {
        "mean_individual_score",
        "std_individual_score",
        "tiebreak_usage_rate",
    }


def test_compare_without_a_judge_is_an_error_to_be_retried(served, judge_server):
    """503 and Retry-After, as a number is required; NeMo Gym's server would answer 3.0."""
    judge_server.behave(fault={"status": 400})
    reply = served.post("/compare", compare_request("no judge"))
    assert reply.status_code == 503
    assert int(reply.headers["Retry-After"]) > 0
    assert "no reward" in reply.json()["error"]["message"]


@pytest.mark.slow
def test_compat_gives_the_numbers_of_nemo_gym(genrm, judge_server):
    """HTTP and `genrm compare` agree in every number; empty objects are the word None; wrong types
    get a 422.
    """
    request = compare_request("compat")
    flags = [*judge_flags(judge_server.base_url), "--compat", "nemo-gym"]
    with serving(genrm, *flags, "--cohort-size", "2") as compat:
        served = compat.post("/compare", request).json()
        empty = compat.group(
            messages="Why?", responses=[{"item": {}}, {"item": {"output": None}}, {"text": "a"}]
        )
        assert None not in empty["rewards"][:2]
        row = {
            "responses_create_params": {"input": "Why?"},
            "response": {"output": []},
        }
        refused = [
            compat.post("/verify", row | wrong).status_code
            for wrong in ({"prompt_id": 5}, {"response": {}})
        ]
        assert refused == [422, 422]
    compared = genrm.run("compare", "-", "--json", *flags, stdin=json.dumps(request).encode())
    assert served == json.loads(compared.out)


def test_a_group_in_which_the_judge_failed_is_judged_again(served, judge_server):
    """All comparisons fail with 500: no response has a reward until the request is repeated."""
    judge_server.behave(script=[{"status": 500}] * 3)
    given = {
        "id": "failed-in-part",
        "messages": "Why?",
        "responses": [{"text": text} for text in texts(3, "part")],
    }
    first, second, third = (served.group(**given) for _ in range(3))
    assert first["status"] == "failed"
    assert first["metrics"]["unanswered"] == 3
    assert second["status"] == "scored"
    assert second["metrics"]["calls"] == 3
    assert third == second
