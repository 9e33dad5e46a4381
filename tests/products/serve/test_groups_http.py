"""`POST /v1/groups` over a real server with a real judge."""

import pytest
from served import texts

from genrm_cli.groups.plan import GroupPlan
from genrm_cli.products.serve.shapes.call import rollout_of


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
    shown = {id_ for each in reply["comparisons"] for id_ in each["shown"]}
    assert shown == {"r0", "r1", "r2", "r3"}
    assert (reply["metrics"]["scored"], reply["metrics"]["failed"]) == (4, 0)


@pytest.mark.parametrize("named", [{"id": "repeated"}, {}], ids=["by its id", "by its content"])
def test_a_repeated_group_is_answered_again_without_a_call(served, judge_server, named):
    """The same reply, and with an id also where a text stands for an object with a text; without
    one, that is another content, and so another group.
    """
    given = {**named, "messages": [{"role": "user", "content": f"Why {len(named)}?"}]}
    objects = [{"text": text} for text in texts(3, "rep")]
    first = served.group(**given, responses=objects)
    asked = judge_server.stats()["requests"]
    assert served.group(**given, responses=objects) == first
    assert judge_server.stats()["requests"] == asked
    as_texts = served.group(**given, responses=texts(3, "rep"))
    assert (as_texts == first) is bool(named)
    assert as_texts["rewards"] == pytest.approx(first["rewards"], abs=0.02)  # calibrated on more


def test_another_content_under_the_same_id_is_refused(served):
    """409 names the group and the response."""
    served.group(id="taken", messages="Why?", responses=responses(2, "one"))
    other = {"id": "taken", "messages": "Why?", "responses": responses(2, "two")}
    reply = served.post("/v1/groups", other)
    assert reply.status_code == 409
    assert "'taken'" in reply.json()["error"]["message"]


@pytest.mark.parametrize(("status", "kind", "unanswered"), [(400, "refused", 0), (500, "http", 3)])
def test_a_failed_comparison_is_null_and_never_a_number(
    served, judge_server, status, kind, unanswered
):
    """With a judge that only fails: status failed, rewards null, a reason each; asking again judges
    again.
    """
    judge_server.behave(fault={"status": status})
    name = f"failing-{status}"
    given = {"id": name, "messages": "Why?", "responses": responses(3, name)}
    reply = served.group(**given)
    assert (reply["status"], reply["rewards"]) == ("failed", [None] * 3)
    assert all(each["reason"] for each in reply["responses"])
    assert {each["failure"]["kind"] for each in reply["comparisons"]} == {kind}
    assert reply["metrics"]["unanswered"] == unanswered
    judge_server.behave()
    second = served.group(**given)
    assert (second["status"], second["metrics"]["calls"]) == ("scored", 3)
    assert served.group(**given) == second


def test_the_deadline_of_a_group_ends_the_wait_for_the_judge(served, judge_server):
    """Comparisons without an answer are failures of the kind timeout."""
    judge_server.behave(latency_s=30)
    reply = served.group(messages="Why?", responses=texts(2, "hurry"), deadline_s=0.2)
    assert (reply["status"], reply["rewards"]) == ("failed", [None, None])
    assert {each["failure"]["kind"] for each in reply["comparisons"]} == {"timeout"}


ASKED = {"messages": "Why?"}
TWO_OF_ONE_NAME = [{"id": 1, "text": "a"}, {"id": "1", "text": "b"}]
AMBIGUOUS = [{"text": "a", "record": {"output": "b", "response": "c"}}]
SLIME = {"prompt": "Why?", "response": "a", "label": "b"}
BETWEEN = "between 1 and 1024"


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/v1/groups", ASKED, "responses is not a list"),
        ("/v1/groups", ASKED | {"responses": []}, "responses is not a list of 1 to 1024"),
        ("/v1/groups", {"responses": [{"text": "a"}]}, "messages is neither"),
        ("/v1/groups", ASKED | {"responses": ["a"], "deadline_s": 0}, "deadline_s is not a pos"),
        ("/v1/groups", ASKED | {"responses": TWO_OF_ONE_NAME}, "two responses have"),
        ("/v1/groups", ASKED | {"responses": [{"text": "a", "item": "b"}]}, "either text or item"),
        ("/v1/groups", ASKED | {"responses": [{"text": 3}]}, "text is not a text"),
        ("/v1/groups", ASKED | {"responses": AMBIGUOUS}, "record's output, response could be"),
        ("/v1/cohorts/bytes/members/%ff", ASKED | {"size": 1, "text": "a"}, "not UTF-8"),
        ("/slime", SLIME, "cohort_size"),
        ("/slime", SLIME, "?size=N"),
        # A cohort of 65,536 would keep all others waiting for seconds.
        *((f"/slime?size={size}", SLIME, BETWEEN) for size in ("1025", "0", "-1", "1.0", "many")),
        *((f"/slime?size={size}", SLIME, BETWEEN) for size in ("9" * 5_000, "%D9%A3")),
        *((f"/v1/groups?wait={wait}", {}, "a number of sec") for wait in ("soon", "-1", "nan")),
    ],
)
def test_a_request_that_cannot_be_read_says_why(served, path, body, said):
    """422 with a sentence, before anything is planned or waits."""
    reply = served.post(path, body)
    assert reply.status_code == 422
    assert said in reply.json()["error"]["message"]


@pytest.mark.parametrize(("as_gym", "name"), [(True, "response"), (False, "completion")])
def test_an_item_is_a_response_of_gym_under_compat_only(as_gym, name):
    """Its line has the fields of its record and the principle of the request; a text stays a
    completion.
    """
    plan = GroupPlan(shows_as_gym=as_gym)
    request = {"messages": "Why?", "principle": "Be short."}
    item = rollout_of("a", "g", request, {"item": {"output": []}, "record": {"id": 7}}, plan)
    assert item.line[name] == {"output": []}
    assert (item.line["id"], item.line["prompt_id"]) == (7, "g")
    assert item.rollout.principle == "Be short."
    text = rollout_of("b", "g", request, {"text": "One."}, plan)
    assert text.line["completion"] == "One."
    assert text.task == item.task
