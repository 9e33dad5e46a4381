"""Bodies that are almost valid: each is answered or refused, and none is a bug of the server."""

import json

import pytest
from almost_json import Mangler
from genrm_process import Genrm
from served import gym_response, serving

ASKED = {"role": "user", "content": "Why?"}


ROW = {
    "responses_create_params": {"input": [ASKED]},
    "response": gym_response("a"),
    "_ng_task_index": 1,
    "reward": 1.0,
}
BODIES = {
    "/v1/groups": {"id": "g", "messages": [ASKED], "responses": [{"text": "a"}, {"text": "b"}]},
    "/compare": {
        "conversation_history": [ASKED],
        "response_objs": [gym_response("a"), gym_response("b")],
    },
    "/aggregate_metrics": {"verify_responses": [ROW, ROW]},
    "/seed_session": {"resources_session_id": "x"},
}


@pytest.fixture(scope="module")
def offline(tmp_path_factory):
    """Keep a server with the built-in judge."""
    with serving(Genrm(tmp_path_factory.mktemp("offline")), "--offline") as served:
        yield served


@pytest.mark.parametrize("path", BODIES)
def test_an_almost_valid_body_is_no_bug(offline, path):
    """Whatever is changed in a body, the reply is a result or a refusal, which is never a 500."""
    mangler = Mangler(path)
    documents = [mangler.document(BODIES[path]) for _ in range(60)]
    documents.append(json.dumps({**BODIES[path], "_ng_task_index": 2**80}).encode())
    for document in documents:
        reply = offline.client.post(path, content=document)
        assert reply.status_code in (200, 400, 409, 422, 503), document


def test_metrics_of_rows_with_odd_numbers_are_refused_or_leave_them_out(offline):
    """A reward that no statistic can hold does not count; a task that is no name is refused."""
    rows = [ROW, {**ROW, "reward": 1e300}, {**ROW, "reward": 10**20}]
    reply = offline.post("/aggregate_metrics", {"verify_responses": rows})
    assert reply.json()["agent_metrics"]["max/reward"] == 1e20
    odd = [{**ROW, "_ng_task_index": [1]}]
    assert offline.post("/aggregate_metrics", {"verify_responses": odd}).status_code == 422
