"""`genrm collect` on the command line: the demo, its scores, S3, and options that contradict each
other.
"""

import json
import tomllib
from pathlib import Path

import pytest

from genrm_cli.judging.lookup import find_rubric_set
from genrm_cli.products.sessions.therapy.session import TherapeuticSession

SAMPLE_DATA = Path(__file__).parents[2] / "sample_data"
CHAT = [
    "That sounds hard. What is it like?",
    "I see, and I would like to hear more.",
    "Who knows about it?",
]


def session_reply(**scores):
    """Return a judge's reply about a session of one turn with one constraint."""
    flaws = ("dismissiveness", "bias")
    names = find_rubric_set("session").component_names
    entries = {}
    for name in names:
        usual = 1 if name.removeprefix("rubric_") in flaws else 3
        score = scores.get(name.removeprefix("rubric_"), usual)
        entries[name] = {"evidence": "", "score": score}
    turn = {"index": 0, "evidence": "", "score": 3}
    constraint = {"index": 0, "evidence": "", "verdict": "met"}
    return {"turns": [turn], "scores": entries, "constraints": [constraint]}


@pytest.fixture
def few(genrm):
    """Write every fourth sample scenario."""
    scenarios = tomllib.loads(TherapeuticSession().sample_scenarios())["scenario"]
    return genrm.write("few.jsonl", scenarios[::4])


def test_the_demo_plays_and_scores_without_a_model(call, genrm, few):
    """From scenarios to rewards: every scenario is a group, and the stand-in is named."""
    demo = (
        "collect",
        few,
        "--scripted-policy",
        "fair",
        "--episodes",
        2,
        "-o",
        "demo.jsonl",
    )
    done = call(*demo).ended(0)
    assert "scripted, a stand-in without a model" in done.err
    call("score demo.jsonl --offline").ended(0)
    scored = genrm.lines("demo.scored.jsonl")
    assert len(scored) == 6
    assert len({line["genrm"]["group"] for line in scored}) == 3
    assert {line["genrm"]["status"] for line in scored} == {"scored"}
    assert all(line["reward"]["total_reward"] is not None for line in scored)
    assert "up to date" in call(*demo).err


def test_a_run_whose_sessions_are_all_left_out_does_not_pass(call, genrm, judge_server):
    """An output without a session is an exit code, and says why they were left out."""
    judge_server.behave(chat=CHAT)
    none = call(
        *(
            "collect",
            "samples",
            "--policy-base-url",
            judge_server.base_url,
            "--policy-model",
            "p",
            "--episodes",
            1,
        ),
        *(
            "--max-turns",
            1,
            "--branch-at",
            3,
            "-o",
            "run.jsonl",
        ),
    ).ended(6)
    assert (
        "none of the 12 sessions is in the output: 0 with client faults, 12 that ended before "
        "--branch-at" in none.err
    )
    assert len(genrm.lines("run_failures.jsonl")) == 12


@pytest.mark.parametrize(("safety", "gates"), [(1, ["rubric_safety"]), (5, [])])
def test_a_judges_rubric_gates_the_reward(call, genrm, judge_server, safety, gates):
    """With the sample settings a session that the judge finds unsafe earns 0, although the rules
    found nothing.
    """
    reply = session_reply(safety=safety, empathy=4, task_completion=5)
    judge_server.behave(fault={"content": json.dumps(reply)})
    short = ["--scripted-policy", "good", "--max-turns", "1", "--scenario", "exam_stress_001"]
    call("collect samples -o run.jsonl", *short).ended(0)
    gates_file = SAMPLE_DATA / "safety-gates.toml"
    done = call(
        "score run.jsonl --model j --no-probe --config",
        gates_file,
        "--base-url",
        judge_server.base_url,
    ).ended(0)
    scored = genrm.lines("run.scored.jsonl")
    assert {tuple(line["genrm"]["total"]["gated_by"]) for line in scored} == {tuple(gates)}
    assert {line["reward"]["total_reward"] for line in scored} == {0.0 if gates else 0.875}
    assert "reliability" not in done.err


@pytest.mark.slow
def test_episodes_go_to_s3_below_rl(call, s3_bucket, s3, monkeypatch):
    """The run's name stands in for {run_id}; nothing but the episodes and their summary is left
    there.
    """
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKTEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SKTEST")
    output = f"s3://{s3_bucket.name}/rl/pixelated/therapeutic_session/{{run_id}}.jsonl"
    collect = (
        "collect",
        "samples",
        "--scripted-policy",
        "good",
        "--episodes",
        1,
    )
    call(*collect, "--run-id", "night_7", "-o", output).ended(0)
    listed = s3_bucket.client.list_objects_v2(Bucket=s3_bucket.name, Prefix="rl/")["Contents"]
    names = {entry["Key"].rpartition("/")[2] for entry in listed}
    assert {name for name in names if not name.startswith(".")} == {
        "night_7.jsonl",
        "night_7.collect.json",
    }
    body = s3_bucket.client.get_object(
        Bucket=s3_bucket.name, Key="rl/pixelated/therapeutic_session/night_7.jsonl"
    )
    first = json.loads(body["Body"].read().splitlines()[0])
    assert first["run_id"] == "night_7"
    assert first["policy"]["name"] == "scripted-good"


def test_options_that_cannot_be_used_are_refused(call):
    """Exit 2 with what to pass instead, before anything is asked or written."""
    cases = [
        ((), "pass --policy-base-url and --policy-model"),
        (("--policy-base-url", "http://x/v1"), "missing --policy-model"),
        (
            (
                "--policy-base-url",
                "ftp://x",
                "--policy-model",
                "m",
            ),
            "--policy-base-url ftp://x is not",
        ),
        (("--scripted-policy", "good", "--branch-at", 2), "drop --scripted-policy"),
        (
            (
                "--scripted-policy",
                "good",
                "--environment",
                "chess",
            ),
            "expected one of therapeutic_session",
        ),
        (
            (
                "--scripted-policy",
                "good",
                "--policy-role",
                "teacher",
            ),
            "named teacher",
        ),
    ]
    for options, said in cases:
        done = call("collect samples -o run.jsonl", *options).ended(2)
        assert said in done.err, done.err


def test_scenarios_that_are_not_declared_are_refused(call, genrm):
    """Exit 3: real clients' data must never be played."""
    (genrm.folder / "mine.toml").write_text("[[scenario]]\nscenario_id = 'x'\n")
    done = call("collect mine.toml --scripted-policy good -o run.jsonl").ended(3)
    assert "synthetic = true" in done.err
