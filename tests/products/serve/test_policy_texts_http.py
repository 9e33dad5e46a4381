"""What a policy writes refuses nobody over HTTP: every shape answers any text with a number."""

import json

import pytest
from genrm_process import Genrm
from served import gym_response, serving, verify_row

WRITTEN = ["half \ud83d", "...", "\U0001f60a", "\x00", "{", "\u2028", '{"a": NaN}']
COMPONENTS = "".join(
    f"[components.{name}]\n{options}\n"
    for name, options in {
        "win_rate": "",
        "guard": 'kind = "rule"',
        "form": 'kind = "rule"',
        "consistency": 'pattern = "([0-9]+)"',
    }.items()
)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Keep a server that measures what it is shown by every rule."""
    genrm = Genrm(tmp_path_factory.mktemp("measured"))
    (genrm.folder / "genrm.toml").write_text(COMPONENTS)
    flags = ("--config", "genrm.toml", "--record", "records", "--on-failure", "0")
    with serving(genrm, "--offline", *flags) as served:
        yield served
        assert served.terminate() == 0
    assert "Traceback" not in "".join(served.messages)


def test_a_group_with_any_text_is_answered(measured):
    """The text may stand in a response, in a call of a tool, or in a record beside a NaN."""
    for place, text in enumerate(WRITTEN):
        call = {"role": "assistant", "content": None, "tool_calls": [{"function": text}, {}]}
        responses = [
            {"text": text, "record": {"note": text, "score": float("nan")}},
            {"item": [call]},
            {"text": "A whole answer."},
        ]
        reply = measured.post("/v1/groups", {"messages": f"Q{place}?", "responses": responses})
        assert reply.status_code == 200, (text, reply.text)
        assert reply.json()["rewards"][2] is not None


def test_every_shape_of_a_trainer_answers_any_text(measured):
    """A cohort of two, one of them with the text; a row comes back with the text that it had."""
    for place, text in enumerate(WRITTEN):
        row = verify_row(0, "x", _ng_task_index=place, cohort_size=2)
        rows = [row | {"response": gym_response(text)}, {**row, "_ng_rollout_index": 1}]
        begun = [measured.begin("/verify", each) for each in rows]
        first, _ = [each.reply() for each in begun]
        assert first.status_code == 200, (text, first.text)
        assert first.json()["response"] == json.loads(json.dumps(gym_response(text)))
        samples = [
            {"prompt": f"S{place}?", "response": said, "label": f"label {place}"}
            for said in (text, "A whole answer.")
        ]
        begun = [measured.begin("/slime?size=2", each) for each in samples]
        assert {each.reply().status_code for each in begun} == {200}
        compared = {
            "conversation_history": [{"role": "user", "content": "Why?"}],
            "response_objs": [gym_response(text), gym_response("A whole answer.")],
        }
        assert measured.post("/compare", compared).status_code == 200
