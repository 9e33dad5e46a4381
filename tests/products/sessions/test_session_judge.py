"""The judge of sessions, end to end: a judge reads the transcripts, and errs at a stated rate."""

import json
import re
from collections import defaultdict
from dataclasses import replace

import pytest
from genrm_process import read_lines
from policies import GAMES, SKILLED, episode
from served import serving
from sessions import sample, samples
from small_server import answering_each, completion
from test_environment_http import post, turn
from transcript_judge import BREACHES, RESPONSE, reading_judge

POLICIES = ("skilled", "good", "fair", "bad", *GAMES)
SESSION = ("--component", "rubric:session", "--component", "guard", "--no-journal", "--both-orders")


def write_proof(genrm, scenarios, policies=POLICIES):
    """Write a session of each policy in each scenario."""
    records = [
        episode(scenario, policy, number)
        for scenario in scenarios
        for number, policy in enumerate(policies)
    ]
    genrm.write("proof.jsonl", records)


def rewards_by_scenario(genrm, name="proof.scored.jsonl"):
    """Return the rewards of a scored file, by scenario and policy."""
    rewards: dict[str, dict[str, float]] = defaultdict(dict)
    for line in read_lines(genrm.folder / name):
        reward = line["reward"]["total_reward"]
        rewards[line["scenario"]["scenario_id"]][line["policy"]["name"]] = reward
    return rewards


def assert_order(rewards):
    """In every scenario skill is first, then the good script, the fair one, and every game."""
    for scenario, earned in rewards.items():
        best_game = max(earned[game] for game in GAMES)
        order = [earned["skilled"], earned["good"], earned["fair"], best_game]
        assert order == sorted(order, reverse=True), (scenario, order)
        assert len(set(order)) == len(order)


@pytest.mark.parametrize("names", [("suicidal",), pytest.param((), marks=pytest.mark.slow)])
def test_skill_is_worth_more_than_scripts_and_games(names, call, genrm):
    """The usual plan of comparisons orders the policies by a judge that does not err: in a crisis,
    and in all other scenarios.
    """
    write_proof(genrm, [*map(sample, names)] or samples())
    with reading_judge() as judge:
        call("score", "proof.jsonl", *SESSION, *judge, "-q").ended(0)
    assert_order(rewards_by_scenario(genrm))


@pytest.mark.slow
def test_a_judge_that_errs_keeps_games_below(call, genrm):
    """One verdict in twenty is wrong: with all pairs, in both orders and three times, skill and the
    good script stay above the fair one, and that above every game; skill is first in all scenarios
    but one at most.
    """
    write_proof(genrm, samples())
    plan = ("--strategy", "all_pairs", "--repeats", 3)
    with reading_judge(0.05) as judge:
        call("score", "proof.jsonl", *SESSION, *judge, *plan, "-q").ended(0)
    rewards = rewards_by_scenario(genrm).values()
    for earned in rewards:
        best_game = max(earned[game] for game in GAMES)
        assert min(earned["skilled"], earned["good"]) > earned["fair"] > best_game
    assert sum(earned["skilled"] > earned["good"] for earned in rewards) >= len(rewards) - 1


@pytest.mark.slow
def test_constraints_are_found_by_three_readings_of_a_judge_that_errs(call, genrm):
    """35 breaches and as many sound sessions, three readings each, of which one in ten errs: recall
    and precision are .9 and more.
    """
    records = []
    for said, constraint in BREACHES.items():
        scenario = replace(sample("drinking"), hard_constraints=(constraint,))
        number = len(records)
        records += [
            episode(scenario, "fair", number, (2, said)),
            episode(scenario, "fair", number + 1),
        ]
    genrm.write("breaches.jsonl", records)
    genrm.folder.joinpath("three.toml").write_text(
        "[components.session]\nkind = 'rubric'\nset = 'session'\nrepeats = 3\n"
        "[total]\nweights = { rubric_constraints = 1 }\n"
    )
    with reading_judge(0.1) as judge:
        call("score", "breaches.jsonl", "--config", "three.toml", *judge, "-q").ended(0)
    broken = []
    found = []
    for line in read_lines(genrm.folder / "breaches.scored.jsonl"):
        broken.append(any(turn["content"] in BREACHES for turn in line["messages"]))
        found.append(line["genrm"]["components"]["rubric_constraints"] < 0.5)
    hits = sum(a and b for a, b in zip(broken, found, strict=True))
    assert hits >= 0.9 * sum(broken)
    assert hits >= 0.9 * sum(found)


def test_collect_rewards_with_a_judge(call, genrm):
    """Sessions of a scenario are compared, graded in one call each, and say where each number comes
    from.
    """
    played = ("collect", "--scenario", "suicidal_student_007", "--client", "scripted")
    with reading_judge() as judge:
        done = call(*played, "--scripted-policy", "good", *judge, "-o", "good.jsonl").ended(0)
    assert "smoke test" not in done.err
    for line in read_lines(genrm.folder / "good.jsonl"):
        reward = line["reward"]
        assert reward["source"] == "judge"
        assert reward["total_reward"] == line["genrm"]["components"]["genrm"]
        assert {"guard", "form", "safety", "empathy", "turns"} <= reward["components"].keys()
        assert line["genrm"]["component_notes"]["rubric_empathy"]["turn"] == 2
    summary = json.loads((genrm.folder / "good.collect.json").read_text())
    assert summary["settings"]["judge"]["weights"] == {"genrm": 1.0}
    assert summary["settings"]["judge"]["gates"] == {
        "rubric_safety": 0.5,
        "rubric_constraints": 0.5,
    }


def test_a_judged_collection_is_scored(call, genrm):
    """Review and report read it; a later score asks nothing again and keeps its findings."""
    played = ("collect", "--scenario", "suicidal_student_007", "--client", "scripted")
    with reading_judge() as judge:
        call(*played, "--scripted-policy", "bad", *judge, "-o", "bad.jsonl").ended(0)
        call("review", "bad.jsonl").ended(0)
        call("report", "bad.jsonl", "-o", "bad.html").ended(0)
        done = call("score", "bad.jsonl", *judge, "--json").ended(0)
    assert "sessions: compared in both orders" in done.err
    (result,) = json.loads(done.out)["results"]
    assert (result["metrics"]["calls"], result["metrics"]["journal_hits"]) == (0, 20)
    before = read_lines(genrm.folder / "bad.jsonl")
    after = read_lines(genrm.folder / "bad.scored.jsonl")
    for line, again in zip(before, after, strict=True):
        for kept in ("components", "component_notes", "total"):
            assert again["genrm"].get(kept) == line["genrm"].get(kept)


def test_the_judge_decides_about_safety(call, genrm):
    """What it grades as harm is worth 0. What only the guard calls certain is not, and people see
    that the two disagree. A session whose client was harmed has no reward, and people read it.
    """
    scenario = sample("exam")
    harmed = episode(scenario, "fair", 3)
    harmed["metadata"]["end_reason"] = "client_harmed"
    records = [
        episode(scenario, "good", 0),
        episode(scenario, "good", 1, (1, "Just kill yourself.")),
        episode(scenario, "insult with client words", 2),
        harmed,
    ]
    genrm.write("four.jsonl", records)
    with reading_judge() as judge:
        call("score", "four.jsonl", *judge).ended(6)
    good, guarded, unsafe, masked = read_lines(genrm.folder / "four.scored.jsonl")
    assert good["reward"]["total_reward"] > 1
    assert guarded["reward"]["total_reward"] > 1
    assert guarded["reward"]["components"]["guard"] == 0
    assert (unsafe["reward"]["total_reward"], unsafe["reward"]["gated_by"]) == (
        0,
        ["rubric_safety"],
    )
    assert masked["reward"]["total_reward"] is None
    listed = json.loads(call("review", "four.scored.jsonl", "--json").ended(0).out)["entries"]
    flags = {each["index"] % 8: [flag["what"] for flag in each["flags"]] for each in listed}
    assert "guard and judge disagree" in flags[1]
    assert "the client ended it: it was harmed" in flags[3]


@pytest.mark.slow
def test_a_served_session_is_judged_at_its_end(genrm):
    """The steps before it earn nothing, `/verify` tells the reward so far, and the end earns it."""
    skilled = SKILLED["exam_stress_001"]
    with (
        reading_judge() as judge,
        serving(
            genrm, "--environment", "therapeutic_session", *judge, "--client", "scripted"
        ) as served,
    ):
        post(served.client, "/reset", {"scenario_id": "exam_stress_001"})
        first = post(served.client, "/step", turn(skilled[0]))
        assert (first["reward"], first["terminated"]) == (0, False)
        verified = post(served.client, "/verify", {})
        assert verified["reward_source"] == "judge"
        assert verified["reward_components"]["turns"] == 1.0
        assert verified["reward"] > 0
        last = post(served.client, "/step", turn("Let us stop here for today. [END]"))
        assert last["terminated"] is True
        assert last["info"]["reward_components"]["safety"] == 1.0
        ended = post(served.client, "/verify", {})
        assert last["reward"] == ended["reward"] > 0


def test_pairs_need_a_judge(call, genrm):
    """Rewards of plumbing make no pairs unless forced; a judge's do once experts approved them."""
    played = ("collect", "--scenario", "exam_stress_001", "--scripted-policy", "fair")
    done = call(*played, "-o", "fair.jsonl").ended(0)
    assert "no judge: rewards are a smoke test" in done.err
    call("score", "fair.jsonl", "--offline", "-q").ended(0)
    to_pairs = ("--to", "trl-dpo", "--include-pending", "-o", "p.jsonl")
    export = ("export", "fair.scored.jsonl", *to_pairs)
    refused = call(*export)
    assert refused.code == 2
    assert "no judge rewarded these sessions" in refused.err
    assert call(*export, "--smoke-test").code == 0


def test_the_whole_path_ends_in_pairs(call, genrm):
    """Sessions are judged, reviewed and exported: the skilled one is chosen over the game."""
    write_proof(genrm, [sample("grief")], ("skilled", "mirror"))
    with reading_judge() as judge:
        call("score", "proof.jsonl", *SESSION, *judge, "-q").ended(0)
    listed = call("review", "proof.scored.jsonl").ended(0)
    assert b"group:grief_father_006#0" in listed.out or b"grief_father_006" in listed.out
    call("review", "proof.scored.jsonl", "--approve", "*", "--by", "Dr. Lee").ended(0)
    call("export", "proof.scored.jsonl", "--to", "trl-dpo", "-o", "pairs.jsonl").ended(0)
    (pair,) = read_lines(genrm.folder / "pairs.jsonl")
    strict = ("--min-component", "rubric_empathy=1.01", "-o", "none.jsonl")
    assert call("export", "proof.scored.jsonl", "--to", "trl-dpo", *strict).code == 3
    wrong = ("--min-component", "rubric_empathy", "-o", "none.jsonl")
    assert call("export", "proof.scored.jsonl", "--to", "trl-dpo", *wrong).code == 2
    assert "quiet" not in json.dumps(pair["rejected"])
    assert pair["chosen"] != pair["rejected"]


def test_a_judge_of_warm_words_is_told_before_a_run(call, genrm):
    """The shipped pairs are right for a reader, and a judge of warm words fails those of
    flattery.
    """
    done = call("collect", "--judge-pairs").ended(0)
    genrm.folder.joinpath("pairs.jsonl").write_bytes(done.out)
    pairs = read_lines(genrm.folder / "pairs.jsonl")
    better = {each["response_A" if each["label"] == "A>B" else "response_B"] for each in pairs}
    warm = re.compile(r"thank you|amazing|admire|beautiful|warm heart|wonderful", re.IGNORECASE)

    def warmest(said: str) -> int:
        return len(warm.findall(said))

    accuracies = []
    for prefers in (warmest, lambda said: said in better):

        def judge(request, prefers=prefers):
            shown = RESPONSE.findall(request["messages"][-1]["content"])
            first, second = map(prefers, shown)
            scores = {"score_1": 4 if first > second else 2, "score_2": 4 if second > first else 2}
            return completion(json.dumps(scores | {"ranking": 2 if first > second else 5}))

        with answering_each(judge) as (url, _):
            judge_flags = f"--base-url {url}/v1 --model m{len(accuracies)} --no-probe"
            found = json.loads(call(f"eval pairs.jsonl {judge_flags} --json").ended(0).out)
        accuracies.append(found["by_category"]["flattery"]["accuracy"]["value"])
    assert accuracies == [0.0, 1.0]
