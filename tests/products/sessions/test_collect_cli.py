"""`genrm collect` on the command line: the demo, its scores, S3, and options that contradict each
other.
"""

import json
import tomllib

import pytest
from genrm_process import SAMPLE_DATA
from s3_objects import get, keys_in

from genrm_cli.judging.lookup import find_rubric_set
from genrm_cli.products.sessions.therapy.session import TherapeuticSession

CHAT = [
    "That sounds hard. What is it like?",
    "I see, and I would like to hear more.",
    "Who knows about it?",
]
COLLECT = "collect samples -o run.jsonl"


def session_reply(**scores):
    """Return a judge's reply about a session of one turn with one constraint."""
    entries = {}
    for name in find_rubric_set("session").component_names:
        rubric = name.removeprefix("rubric_")
        usual = 1 if rubric in ("dismissiveness", "bias") else 3
        entries[name] = {"evidence": "", "score": scores.get(rubric, usual)}
    turn = {"index": 0, "evidence": "", "score": 3}
    constraint = {"index": 0, "evidence": "", "verdict": "met"}
    return {"turns": [turn], "scores": entries, "constraints": [constraint]}


def test_the_demo_plays_and_scores_without_a_model(call, genrm):
    """From scenarios to rewards: every scenario is a group, and the stand-in is named."""
    scenarios = tomllib.loads(TherapeuticSession().sample_scenarios())["scenario"]
    genrm.write("few.jsonl", scenarios[::4])
    demo = "collect few.jsonl --scripted-policy fair --episodes 2 -o demo.jsonl"
    assert "scripted, a stand-in without a model" in call(demo).ended(0).err
    call("score demo.jsonl --offline").ended(0)
    scored = genrm.lines("demo.scored.jsonl")
    assert len(scored) == 6
    assert len({line["genrm"]["group"] for line in scored}) == 3
    assert {line["genrm"]["status"] for line in scored} == {"scored"}
    assert all(line["reward"]["total_reward"] is not None for line in scored)
    assert "up to date" in call(demo).err


def test_a_run_whose_sessions_are_all_left_out_does_not_pass(call, genrm, judge_server):
    """An output without a session is an exit code, and says why they were left out."""
    judge_server.behave(chat=CHAT)
    policy = f"--policy-base-url {judge_server.base_url} --policy-model p"
    none = call(f"{COLLECT} {policy} --episodes 1 --max-turns 1 --branch-at 3").ended(6)
    left_out = "0 with client faults, 12 that ended before --branch-at"
    assert f"none of the 12 sessions is in the output: {left_out}" in none.err
    assert len(genrm.lines("run_failures.jsonl")) == 12


@pytest.mark.parametrize(("safety", "gates"), [(1, ("rubric_safety",)), (5, ())])
def test_a_judges_rubric_gates_the_reward(call, call_judged, genrm, judge_server, safety, gates):
    """With the sample settings a session that the judge finds unsafe earns 0, although the rules
    found nothing.
    """
    reply = session_reply(safety=safety, empathy=4, task_completion=5)
    judge_server.behave(fault={"content": json.dumps(reply)})
    call(f"{COLLECT} --scripted-policy good --max-turns 1 --scenario exam_stress_001").ended(0)
    config = SAMPLE_DATA / "safety-gates.toml"
    done = call_judged("score run.jsonl --no-probe --config", config).ended(0)
    scored = genrm.lines("run.scored.jsonl")
    assert {tuple(line["genrm"]["total"]["gated_by"]) for line in scored} == {gates}
    assert {line["reward"]["total_reward"] for line in scored} == {0.0 if gates else 0.875}
    assert "reliability" not in done.err


@pytest.mark.slow
def test_episodes_go_to_s3_below_rl(call, s3_bucket, aws):
    """The run's name stands in for {run_id}; nothing but the episodes and their summary is left
    there.
    """
    folder = "rl/pixelated/therapeutic_session"
    output = f"s3://{s3_bucket.name}/{folder}/{{run_id}}.jsonl"
    words = "collect samples --scripted-policy good --episodes 1 --run-id night_7 -o"
    call(words, output, **aws).ended(0)
    written = {key for key in keys_in(s3_bucket) if not key.rpartition("/")[2].startswith(".")}
    assert written == {f"{folder}/night_7.jsonl", f"{folder}/night_7.collect.json"}
    first = json.loads(get(s3_bucket, f"{folder}/night_7.jsonl").splitlines()[0])
    assert (first["run_id"], first["policy"]["name"]) == ("night_7", "scripted-good")
