"""Bodies that are almost valid: each is answered or refused, and none is a bug of the server."""

import json

from almost_json import Mangler
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


def test_an_almost_valid_body_is_no_bug(genrm):
    """Whatever is changed in a body, the reply is a result or a refusal, which is never a 500."""
    with serving(genrm, "--offline") as served:
        for path, body in BODIES.items():
            mangler = Mangler(path)
            documents = [mangler.document(body) for _ in range(60)]
            documents.append(json.dumps({**body, "_ng_task_index": 2**80}).encode())
            for document in documents:
                reply = served.client.post(path, content=document)
                assert reply.status_code in (200, 400, 409, 422, 503), (path, document)
        assert served.terminate() == 0
    assert "Traceback" not in "".join(served.messages)


def test_metrics_of_rows_with_odd_numbers_are_refused_or_leave_them_out(genrm):
    """A reward that no statistic can hold does not count; a task that is no name is refused."""
    with serving(genrm, "--offline") as served:
        rows = [ROW, {**ROW, "reward": 1e300}, {**ROW, "reward": 10**20}]
        reply = served.post("/aggregate_metrics", {"verify_responses": rows})
        assert reply.json()["agent_metrics"]["max/reward"] == 1e20
        odd = [{**ROW, "_ng_task_index": [1]}]
        assert served.post("/aggregate_metrics", {"verify_responses": odd}).status_code == 422
        assert served.terminate() == 0
