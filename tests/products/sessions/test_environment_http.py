"""A real server that offers sessions to agents."""

import json

import httpx
import pytest
from genrm_process import Genrm
from served import REPLY_LIMIT_S, TOKEN, serving
from sessions import ENVIRONMENT, begin, sample_set, samples, step

from genrm_cli.http_server.router import AccessLimits
from genrm_cli.products.sessions.hosting.gymnasium import build_environment_app
from genrm_cli.products.sessions.hosting.hosted import HostedSessions
from genrm_cli.products.sessions.session_judge import plumbing_reward
from genrm_cli.products.sessions.therapy.session import TherapeuticSession
from genrm_cli.settings.file_settings import ServeSettings

SAID = (
    "That sounds really hard, and it makes sense that you feel this way. What is it like for you?"
)
THERAPY = ("--environment", "therapeutic_session")
EXAM = {
    "scenario_id": "exam_stress_001",
    "variant": 1,
    "seed": 3,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Keep a server with the scripted client."""
    with serving(Genrm(tmp_path_factory.mktemp("sessions")), *THERAPY) as served:
        yield served


def agent_of(server):
    """Return an agent with cookies of its own."""
    return httpx.Client(base_url=server.url, timeout=REPLY_LIMIT_S, trust_env=False, verify=False)


@pytest.fixture
def agent(server):
    """Give a test an agent."""
    with agent_of(server) as client:
        yield client


def turn(text, **fields):
    """Make a row with a response of the policy."""
    content = [{"type": "output_text", "text": text}]
    message = {"type": "message", "role": "assistant", "content": content}
    return {"response": {"output": [message]}, **fields}


def post(agent, path, row):
    """Send a row that must be answered."""
    reply = agent.post(path, json=row)
    assert reply.status_code == 200, reply.text
    return reply.json()


def error_of(reply):
    """Return status and kind of an error."""
    return reply.status_code, reply.json()["error"]["type"]


def test_a_session_is_the_one_that_is_played_here(agent):
    """The server hosts the environment of `genrm collect`, and the rewards of the steps add up to
    the session's.
    """
    state = begin(samples()[0], 1, 3)
    begun = post(agent, "/reset", EXAM)
    assert begun["observation"] == state.messages[-1].text
    assert begun["info"]["turn_index"] == 0
    gains = []
    while state.end is None:
        state = step(state, SAID)
        there = post(agent, "/step", turn(SAID))
        gains.append(there["reward"])
        assert there["observation"] == state.messages[-1].text
        assert there["terminated"] == (state.end is not None)
        assert there["truncated"] is False
    assert there["info"]["end_reason"] == state.end.reason == "client_left"
    verified = post(agent, "/verify", {"kept": [1]})
    components = ENVIRONMENT.components(state)
    expected = plumbing_reward(ENVIRONMENT, state)["total_reward"]
    found = (verified["kept"], verified["reward"], verified["reward_components"])
    assert found == ([1], expected, components)
    assert sum(gains) == pytest.approx(expected)
    assert error_of(agent.post("/step", json=turn(SAID))) == (409, "ended")


def test_cookies_tell_sessions_apart(server, agent):
    """Agents with the same task meet the same client, each in a session of its own."""
    with agent_of(server) as other:
        task = {"_ng_task_index": len(samples())}  # the second variant of the first scenario
        named = {"verifier_metadata": {"scenario_id": "exam_stress_001", "variant": 1}}
        first = post(agent, "/seed_session", task)["observation"]
        assert first == post(other, "/reset", named)["observation"]
        assert post(agent, "/step", turn(SAID))["info"]["turn_index"] == 1
        assert post(agent, "/step", turn(SAID))["info"]["turn_index"] == 2
        assert post(other, "/step", turn(SAID))["info"]["turn_index"] == 1


def test_a_repeated_step_is_taken_once(agent):
    """An agent that lost the answer sends the same request again, and gets the same answer."""
    assert post(agent, "/reset", EXAM)["info"]["supports_step_idempotency"] is True
    row = turn(SAID, _ng_step_request_id="one")
    first = post(agent, "/step", row)
    assert post(agent, "/step", row) == first
    assert post(agent, "/step", turn(SAID, _ng_step_request_id="two"))["info"]["turn_index"] == 2


def test_a_request_that_cannot_be_served_says_why(agent):
    """Nothing is guessed about the session."""
    cases = [
        ("/reset", {}, (422, "unreadable")),
        ("/reset", {"scenario_id": "nobody"}, (422, "unknown_scenario")),
        ("/reset", {**EXAM, "variant": -1}, (422, "unreadable")),
        ("/step", turn(SAID), (404, "no_session")),
        ("/verify", turn(SAID), (404, "no_session")),
    ]
    for path, row, expected in cases:
        assert error_of(agent.post(path, json=row)) == expected


def test_a_turn_without_words_is_not_taken(agent):
    """Reasoning alone is nothing that the client could hear, and a session without a turn has no
    reward.
    """
    post(agent, "/reset", EXAM)
    assert error_of(agent.post("/step", json=turn("<think>What now?</think>"))) == (
        422,
        "unreadable",
    )
    assert error_of(agent.post("/verify", json={})) == (409, "nothing_said")


async def test_sessions_are_bounded_and_guarded():
    """One session too many is refused until another has ended or is closed; nobody enters without
    the token.
    """

    async def nobody(conversation):
        raise AssertionError(conversation)

    sessions = HostedSessions(
        TherapeuticSession(max_turns=1), sample_set(), nobody, most=1, keep_s=60
    )
    app = build_environment_app(sessions, AccessLimits(ServeSettings(max_body=100_000), TOKEN))

    def open_agent(**headers):
        here = httpx.ASGITransport(app)
        return httpx.AsyncClient(transport=here, base_url="http://localhost", headers=headers)

    entry = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        open_agent(**entry) as first,
        open_agent(**entry) as second,
        open_agent() as stranger,
    ):
        assert (await stranger.post("/reset", json=EXAM)).status_code == 401
        for page in ("/tasks", "/", "/reverify_mode"):
            assert (await stranger.get(page)).status_code == 401
        assert (await first.post("/reset", json=EXAM)).status_code == 200
        refused = await second.post("/reset", json=EXAM)
        assert (*error_of(refused), "Retry-After" in refused.headers) == (429, "busy", True)
        assert (await first.post("/step", json=turn(SAID))).json()["truncated"] is True
        assert (await second.post("/reset", json=EXAM)).status_code == 200
        assert error_of(await first.post("/verify", json={})) == (404, "no_session")
        await second.post("/close", json={})
        assert (await first.post("/reset", json=EXAM)).status_code == 200
        assert (await first.get("/healthz")).json() == {"status": "ok", "sessions": 1}


@pytest.mark.slow
def test_a_model_plays_the_client(tmp_path, judge_server):
    """A model words the replies; if it fails the turn is not taken, and a faulty client leaves no
    reward.
    """
    judge_server.behave(chat=["As your therapist I am here for you."])
    flags = (
        "--client-base-url",
        judge_server.base_url,
        "--client-model",
        "c",
        "--retries",
        "0",
        "--no-probe",
    )
    with serving(Genrm(tmp_path), *THERAPY, *flags) as served:
        opening = post(served.client, "/reset", EXAM)["observation"]
        judge_server.behave(fault={"status": 400})
        assert error_of(served.post("/step", turn(SAID))) == (503, "client_failed")
        judge_server.behave(chat=["As your therapist I am here for you."])
        stepped = post(served.client, "/step", turn(SAID))
        assert stepped["info"]["turn_index"] == 1
        assert stepped["observation"] == "As your therapist I am here for you." != opening
        verified = post(served.client, "/verify", {})
        assert verified["_ng_failure_class"] == "user_failure"
        assert verified["mask_sample"] is True
        assert "speaks_as_therapist" in verified["failure_reason"]


def test_flags_that_do_not_fit_are_refused(call):
    """The error comes before the server listens, and names the flag."""
    cases = [
        (("--environment", "chess"), "unknown 'chess'; expected one of therapeutic_session"),
        (
            (*THERAPY, "--client-base-url", "http://127.0.0.1:9/v1"),
            "missing --client-model",
        ),
        ((*THERAPY, "--scenarios", "nowhere.toml"), "nowhere.toml: no such file"),
        ((*THERAPY, "--record", "s3://bucket/sft/sessions"), "is not under s3://bucket/rl/"),
        ((*THERAPY, "--wandb", "project"), "--wandb is about groups"),
        ((*THERAPY, "--max-turns", "0"), "--max-turns: 0 is out of bounds"),
        (("--offline", "--client", "scripted"), "no effect without --environment"),
    ]
    for flags, message in cases:
        finished = call("serve", *flags)
        assert finished.code != 0
        assert message in " ".join(finished.err.split())


@pytest.mark.slow
def test_played_sessions_are_recorded_on_s3(genrm, s3, s3_bucket, aws, tmp_path):
    """The seed's record of each session that ended or was closed; score and export read the file as
    it is.
    """
    folder = f"s3://{s3_bucket.name}/rl/pixelated/therapeutic_session/"
    flags = ("--record", folder, "--record-every", "1h", "--drain", "1s")
    with serving(genrm, *THERAPY, *flags, **aws, XDG_STATE_HOME=str(tmp_path)) as served:
        for variant, seed in ((0, 0), (0, 0), (0, 7), (1, 0)):
            with agent_of(served) as agent:
                post(agent, "/reset", {**EXAM, "variant": variant, "seed": seed})
                row = turn(SAID)
                row["response"]["model"] = "pixelated-moe"
                done = post(agent, "/step", row)
                while not done["terminated"] and not variant:
                    done = post(agent, "/step", row)
                verified = post(agent, "/verify", {})
                post(agent, "/close", {})
        assert served.terminate() == 0
    (name,) = [
        each["Key"] for each in s3_bucket.client.list_objects_v2(Bucket=s3_bucket.name)["Contents"]
    ]
    lines = s3_bucket.client.get_object(Bucket=s3_bucket.name, Key=name)["Body"].read().splitlines()
    records = [json.loads(line) for line in lines]
    assert [each["episode_index"] for each in records] == [0, 1, 2, 3]
    assert {each["run_id"] for each in records} == {name.rpartition("/")[2].removesuffix(".jsonl")}
    assert [each["metadata"]["end_reason"] for each in records] == ["client_left"] * 3 + ["closed"]
    ids = [
        "exam_stress_001/v0",
        "exam_stress_001/v0",
        "exam_stress_001/v0/s7",
        "exam_stress_001/v1",
    ]
    assert [each["metadata"]["group"] for each in records] == ids
    assert {each["metadata"]["generator"] for each in records} == {"nemo_gym"}
    assert {each["policy"]["name"] for each in records} == {"pixelated-moe"}
    last = records[-1]
    assert last["reward"] == {
        "total_reward": verified["reward"],
        "components": verified["reward_components"],
        "source": "plumbing",
    }
    assert last["scenario"]["scenario_id"] == "exam_stress_001"
    assert [each["role"] for each in last["messages"]] == ["system", "user", "assistant", "user"]
    (genrm.folder / "played.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    finished = genrm.run("score", "played.jsonl", "--offline", "--json")
    assert json.loads(finished.out)["scored"] == 1, finished.err
