"""A server whose judges are chosen by a field of the rollouts."""

import asyncio
import re

import pytest
from served import gym_response, serving, texts, verify_row

from genrm_cli.adapters.reward_client import RewardClient

ROUTES = """
model = "general"
base_url = "{general}"
profile = "nemotron"
[route]
field = "task.kind"
unmatched = "{unmatched}"
[route.code]
model = "coder"
base_url = "{coder}"
[route.maths]
model = "solver"
profile = "json"
repeats = 2
"""


@pytest.fixture
def serve_routes(genrm, judge_server, start_judge):
    """Return what starts a server with two routes, and the judge of code."""
    coder = start_judge()

    def start(*flags, unmatched="default"):
        settings = ROUTES.format(
            general=judge_server.base_url, coder=coder.base_url, unmatched=unmatched
        )
        (genrm.folder / "genrm.toml").write_text(settings, encoding="utf-8")
        return serving(genrm, "--config", "genrm.toml", *flags)

    return start, coder


def group_of(kind, name):
    """Return a request with two responses; their records name the route."""
    responses = [{"text": text, "record": {"task": {"kind": kind}}} for text in texts(2, name)]
    return {"id": name, "messages": "Why?", "responses": responses}


def test_each_route_asks_its_own_judge(serve_routes, judge_server):
    """By the field of the records; another value is for the judge of the server. Each route has its
    metrics, and a profile and repeats of its own; one without its judge leaves the others.
    """
    start, coder = serve_routes
    with start("--no-probe", "--retries", "0", "--give-up-after", "0.1") as served:
        for kind in ("code", "maths", "chat", None):
            reply = served.group(**group_of(kind, f"g-{kind}"))
            assert reply["rewards"][0] < reply["rewards"][1]
            judges = {each["judge"] for each in reply["comparisons"]}
            assert judges == {{"code": "coder", "maths": "solver"}.get(kind, "general")}
            assert reply["metrics"]["comparisons"] == (4 if kind == "maths" else 2)
        page = served.get("/metrics").text
        coder.kill()
        assert served.group(**group_of("code", "down"))["rewards"] == [None, None]
        assert None not in served.group(**group_of("chat", "up"))["rewards"]
    counts = dict(re.findall(r'genrm_groups_total\{route="(\w+)",status="scored"\} (\S+)', page))
    assert counts == {"code": "1.0", "maths": "1.0", "unmatched": "2.0"}


def test_every_shape_is_routed(serve_routes, judge_server):
    """Members of a cohort, rows of NeMo Gym, compare requests, and labels of OpenRLHF and slime."""
    start, coder = serve_routes
    short, long = texts(2, "shapes")
    with start("--no-probe", "--cohort-size", "2") as served:
        member = {"size": 2, "messages": "Why?", "task": {"kind": "code"}}
        waiting = [served.begin_member("c", n, text=text, **member) for n, text in enumerate("ab")]
        path = "/v1/cohorts/d/members/0?size=2&route=code"
        assert served.client.request("DELETE", path).json()["absent"]
        assert served.client.request("DELETE", path.replace("code", "typo")).status_code == 422
        assert served.begin_member("d", 1, text="c", **member).json()["reason"] == "alone"
        assert all(each.json()["reward"] is not None for each in waiting)
        rows = [
            verify_row(number, text, _ng_task_index=1, task={"kind": "code"})
            for number, text in enumerate((short, long))
        ]
        waiting = [served.begin("/verify", row) for row in rows]
        assert all(each.json()["reward"] for each in waiting)
        label = '{"task": {"kind": "code"}}'
        samples = [{"prompt": "Why?", "response": each, "label": label} for each in (short, long)]
        first, second = (served.begin("/slime", sample) for sample in samples)
        assert first.json() < second.json()
        compared = served.post(
            "/compare",
            {
                "conversation_history": [{"role": "user", "content": "Why?"}],
                "response_objs": [gym_response(text) for text in (short, long)],
                "task": {"kind": "code"},
            },
        )
        assert compared.status_code == 200, compared.text
        asking = RewardClient(served.url).score_group(
            "When?", [short, long], record={"task": {"kind": "code"}}, reference="Now."
        )
        assert asyncio.run(asking)["comparisons"][0]["judge"] == "coder"
    assert coder.stats()["requests"] == 6
    assert judge_server.stats()["requests"] == 0


def test_what_no_route_takes_can_be_refused(serve_routes):
    """With the values that there are; the responses of a group share a route."""
    start, _ = serve_routes
    with start("--no-probe", unmatched="refuse") as served:
        refused = served.post("/v1/groups", group_of("chat", "r"))
        assert refused.status_code == 422
        assert "task.kind is 'chat'; expected one of code, maths" in refused.text
        mixed = group_of("code", "m")
        mixed["responses"][1]["record"] = {"task": {"kind": "maths"}}
        assert "the responses differ in task.kind" in served.post("/v1/groups", mixed).text
        left = served.client.request("DELETE", "/v1/cohorts/new/members/0?size=2")
        assert "task.kind is None" in left.text


def test_routes_share_the_limit_and_the_journal(serve_routes, judge_server):
    """Two routes with one endpoint make one call at a time; the next server asks nothing again, and
    its routes have the calibrations of the last one.
    """
    start, _ = serve_routes
    judge_server.behave(latency_s=0.05)
    flags = ("--no-probe", "--concurrency", "1", "--journal", "j.sqlite")
    groups = {kind: group_of(kind, f"s-{kind}") for kind in ("chat", "maths")}
    with start(*flags) as served:
        waiting = [served.begin("/v1/groups", group) for group in groups.values()]
        first = [each.json()["rewards"] for each in waiting]
    assert judge_server.stats()["max_in_flight"] == 1
    asked = judge_server.stats()["requests"]
    with start(*flags) as served:
        again = [served.group(**group)["rewards"] for group in groups.values()]
        page = served.get("/metrics").text
    assert again == first
    assert judge_server.stats()["requests"] == asked
    assert 'genrm_calibration_comparisons{route="unmatched"} 2.0' in page
    assert 'genrm_calibration_comparisons{route="maths"} 4.0' in page


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("[route]\nfield = 'task'", "a table for each of its values"),
        ("[route.code]\nmodel = 'm'", "expected a field"),
        ("[route]\nfield = 'task'\n[route.code]\nseed = 1", "route.code: "),
        ("[route]\nfield = 'task'\nunmatched = 'x'\n[route.code]\nmodel = 'm'", "route.unmatched"),
        ("[route]\nfield = 'task'\n[route.code]\nprofile = 'json'", "model is missing"),
        ("[watch]\n[route]\nfield = 'task'\n[route.code]\nmodel = 'm'", "[route] excludes [watch]"),
    ],
)
def test_routes_that_make_no_sense_are_refused(table, message, genrm, call):
    """Before anything listens."""
    (genrm.folder / "genrm.toml").write_text(f"{table}\n", encoding="utf-8")
    done = call("serve", "--config", "genrm.toml", "--offline", "--listen", "127.0.0.1:0").ended(2)
    assert message in done.err


def test_files_and_sessions_are_not_routed(genrm, call):
    """One judge would answer about all: `genrm score` and `--environment` refuse the table."""
    (genrm.folder / "genrm.toml").write_text(
        "[route]\nfield = 'task'\n[route.code]\nmodel = 'm'\n", encoding="utf-8"
    )
    genrm.write("in.jsonl", [{"prompt": "Why?", "completion": "So."}])
    done = call("score", "in.jsonl", "--offline", "--config", "genrm.toml").ended(2)
    assert "[route] of the settings file is for genrm serve" in done.err
    flags = ("--environment", "therapeutic_session", "--config", "genrm.toml", "--offline")
    assert "[route] chooses judges of groups" in call("serve", *flags).ended(2).err
