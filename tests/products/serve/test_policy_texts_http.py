"""What a policy writes refuses nobody over HTTP: every shape answers any text with a number. Bodies
that are almost valid are answered or refused, and none is a bug of the server.
"""

import json

import pytest
from almost_json import Mangler
from genrm_process import Genrm
from served import SHAPES, gym_response, serving, verify_row

WRITTEN = ["half \ud83d", "...", "\U0001f60a", "\x00", "{", "\u2028", '{"a": NaN}']
COMPONENTS = """\
[components.win_rate]
[components.guard]
kind = "rule"
[components.form]
kind = "rule"
[components.consistency]
pattern = "([0-9]+)"
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Keep a server that measures what it is shown by every rule."""
    genrm = Genrm(tmp_path_factory.mktemp("measured"))
    (genrm.folder / "genrm.toml").write_text(COMPONENTS)
    flags = ("--config", "genrm.toml", "--record", "records", "--on-failure", "0")
    with serving(genrm, "--offline", *flags) as served:
        yield served
        assert served.terminate() == 0


def test_a_group_with_any_text_is_answered(measured):
    """The text may stand in a response, in a call of a tool, or in a record beside a NaN."""
    for place, text in enumerate(WRITTEN):
        call = {"role": "assistant", "content": None, "tool_calls": [{"function": text}, {}]}
        responses = [
            {"text": text, "record": {"note": text, "score": float("nan")}},
            {"item": [call]},
            {"text": "A whole answer."},
        ]
        reply = measured.group(messages=f"Q{place}?", responses=responses)
        assert reply["rewards"][2] is not None


@pytest.mark.parametrize("shape", [*SHAPES, "compare"])
def test_every_shape_of_a_trainer_answers_any_text(measured, shape):
    """A cohort of two, one of them with the text; a row comes back with the text that it had."""
    for place, text in enumerate(WRITTEN):
        if shape == "compare":
            responses = [gym_response(text), gym_response("A whole answer.")]
            body = {**COMPARED, "response_objs": responses}
            assert measured.post("/compare", body).status_code == 200
            continue
        given = {0: text, 1: "A whole answer."}
        first, other = measured.begin_all(shape, f"{shape}-{place}", given, 2)
        assert {first.reply().status_code, other.reply().status_code} == {200}, text
        if shape == "gym":
            assert first.json()["response"] == json.loads(json.dumps(gym_response(text)))


ROW = verify_row(0, "a", _ng_task_index=1, reward=1.0)
COMPARED = {"conversation_history": [{"content": "Why?"}], "response_objs": [gym_response("a")] * 2}
BODIES = {
    "/v1/groups": {"id": "g", "messages": [{"content": "Why?"}], "responses": [{"text": "a"}] * 2},
    "/compare": COMPARED,
    "/aggregate_metrics": {"verify_responses": [ROW, ROW]},
    "/seed_session": {"resources_session_id": "x"},
}


@pytest.mark.parametrize("path", BODIES)
def test_an_almost_valid_body_is_no_bug(measured, path):
    """Whatever is changed in a body, the reply is a result or a refusal, which is never a 500."""
    mangler = Mangler(path)
    documents = [mangler.document(BODIES[path]) for _ in range(60)]
    documents.append(json.dumps({**BODIES[path], "_ng_task_index": 2**80}).encode())
    for document in documents:
        reply = measured.client.post(path, content=document)
        assert reply.status_code in (200, 400, 409, 422, 503), document


def test_metrics_of_rows_with_odd_numbers_are_refused_or_leave_them_out(measured):
    """A reward that no statistic can hold does not count; a task that is no name is refused."""
    rows = [ROW, {**ROW, "reward": 1e300}, {**ROW, "reward": 10**20}]
    reply = measured.post("/aggregate_metrics", {"verify_responses": rows})
    assert reply.json()["agent_metrics"]["max/reward"] == 1e20
    odd = [{**ROW, "_ng_task_index": [1]}]
    assert measured.post("/aggregate_metrics", {"verify_responses": odd}).status_code == 422
