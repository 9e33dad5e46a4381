"""Collecting episodes: groups, records, resuming, failures, and what is never written."""

import asyncio
import json
from functools import partial
from typing import Any

import pytest
from guessing_game import GuessingGame, Secret
from msgspec.structs import replace
from sessions import ENVIRONMENT, MODEL_ENVIRONMENT, reaction, sample_set

from genrm_cli.errors import InputError, JudgeError, StorageError, TooManyUnscoredError, UsageError
from genrm_cli.jobs.context import new_run
from genrm_cli.products.sessions.collected_files import CollectOptions, check_output
from genrm_cli.products.sessions.collection import collect
from genrm_cli.products.sessions.environments import read_scenarios
from genrm_cli.products.sessions.episode import EpisodeSlot
from genrm_cli.products.sessions.session_agents import AgentConfig
from genrm_cli.products.sessions.session_options import CLIENT
from genrm_cli.products.sessions.session_rules import RULES
from genrm_cli.rollouts.formats import recognise
from genrm_cli.rollouts.group_keys import digest_of_prompt
from genrm_cli.settings import settings_from
from genrm_cli.settings.judge_settings import JudgeSettings
from genrm_cli.storage.leases import Lease, take_lease
from genrm_cli.storage.store import Store

Json = dict[str, Any]
CHAT = [
    "That sounds really hard. What is it like for you at night, when all is quiet?",
    "I see what you mean, and I would like to hear more about the others.",
    "No wonder you are tired with all that. Who in your life knows about it?",
    "It makes sense that this hurts. How long have you carried it alone?",
    "Thank you for telling me. What would you like to be different next week?",
    "Many people would feel the same in your place. What helps a little?",
]

REACTION = reaction(0, "That is how it has been for me since then.")


def options_for(folder, **more):
    """Return options that write into a folder."""
    return CollectOptions(
        output=str(folder / "run.jsonl"), run_id="run", policy_name="tested", **more
    )


def agent(server, model="policy-model", **more):
    """Return a model behind the test server."""
    sampling = {"temperature": 1.0, "max_reply_tokens": 512, **more}
    return AgentConfig(JudgeSettings(base_url=(server.base_url,), model=model, **sampling))


def run_game(folder, policy="bisect", **more):
    """Collect guessing games of a scripted policy."""
    options = options_for(folder, scripted_policy=policy, **more)
    game = GuessingGame()
    return asyncio.run(
        collect(game, read_scenarios("samples", game, Store()), options, new_run(settings_from()))
    )


def run_sessions(options, *, scripted_client=True, few=3, **settings):
    """Collect sessions of the first sample scenarios."""
    scenarios = replace(sample_set(), scenarios=sample_set().scenarios[:few])
    environment = ENVIRONMENT if scripted_client else MODEL_ENVIRONMENT
    return asyncio.run(collect(environment, scenarios, options, new_run(settings_from(**settings))))


def read(folder, name="run.jsonl"):
    """Read the records of a run."""
    return [json.loads(line) for line in (folder / name).read_bytes().splitlines()]


def without_time(records):
    """Return records without the time at which their run began."""
    return [record | {"metadata": record["metadata"] | {"created_at": None}} for record in records]


def test_a_record_has_the_shape_that_trainers_read(tmp_path, judge_server):
    """Fields of the seed's example, and under `metadata` who played, how it ended and what it
    cost.
    """
    judge_server.behave(chat=CHAT)
    policy = agent(judge_server, temperature=0.5)
    run_sessions(options_for(tmp_path, policy=policy, base_model="base", episodes=2, variants=2))
    records = read(tmp_path)
    assert len(records) == 12
    fields = "run_id episode_index scenario messages policy reward metadata"
    for record in records:
        assert " ".join(record) == fields
        assert {"scenario_id", "difficulty", "risk_level"} <= record["scenario"].keys()
        roles = [message["role"] for message in record["messages"][:3]]
        assert roles == ["system", "user", "assistant"]
        assert record["policy"] == {"name": "tested", "role": "policy", "base_model": "base"}
        assert set(record["reward"]["components"]) == set(RULES)
        assert record["reward"]["source"] == "plumbing"
        metadata = record["metadata"]
        assert metadata["synthetic"] is True
        assert metadata["env_version"] == "therapeutic_session_v2"
        assert metadata["policy_model"] == {
            "model": "policy-model",
            "sampling": {"temperature": 0.5, "max_tokens": 512},
        }
        assert metadata["client"]["scripted"] is True
        assert metadata["tokens"]["policy"]["turns"] == metadata["turns"]
        assert metadata["tokens"]["policy"]["completion_tokens"] > 0
        assert len(metadata["hidden"]["moods"]) == metadata["turns"] + 1


def test_score_needs_no_flag_and_groups_by_client(tmp_path, judge_server):
    """Each scenario and variant is a group of sessions that begin alike."""
    judge_server.behave(chat=CHAT)
    run_sessions(options_for(tmp_path, policy=agent(judge_server), episodes=2, variants=2))
    rollouts = [recognise(record).read(record)[0] for record in read(tmp_path)]
    assert all(rollout.is_session for rollout in rollouts)
    groups: dict[str | None, set[int]] = {}
    for rollout in rollouts:
        groups.setdefault(rollout.task, set()).add(digest_of_prompt(rollout.prompt))
    assert len(groups) == 6
    assert {len(prompts) for prompts in groups.values()} == {1}
    assert len({rollout.index for rollout in rollouts}) == 12


def test_a_second_run_is_up_to_date_and_other_settings_are_refused(tmp_path):
    """Nothing is played twice, and no other run's episodes are replaced by mistake."""
    run_game(tmp_path)
    before = (tmp_path / "run.jsonl").read_bytes()
    assert run_game(tmp_path).counts is None
    with pytest.raises(UsageError, match="episodes of other settings"):
        run_game(tmp_path, episodes=2)
    assert (tmp_path / "run.jsonl").read_bytes() == before


def test_a_budget_stops_the_run_and_the_next_one_goes_on(tmp_path, judge_server):
    """What was paid for is not paid again, and in the end the records are those of an undisturbed
    run.
    """
    judge_server.behave(chat=CHAT)
    whole = tmp_path / "whole"
    whole.mkdir()
    run_sessions(options_for(whole, policy=agent(judge_server)), probe=False)
    calls = judge_server.stats()["requests"]
    with pytest.raises(TooManyUnscoredError, match="max_calls stopped the run"):
        run_sessions(
            options_for(tmp_path, policy=agent(judge_server)), probe=False, max_calls=calls // 2
        )
    assert json.loads((tmp_path / "run.collect.json").read_bytes())["partial"] is True
    report = run_sessions(options_for(tmp_path, policy=agent(judge_server)), probe=False)
    assert report.summary["partial"] is False
    assert without_time(read(tmp_path)) == without_time(read(whole))
    assert judge_server.stats()["requests"] == 2 * calls


def test_a_failed_session_is_no_episode(tmp_path, judge_server):
    """A policy that gives no turn leaves a failure with its reason, and no record with a low
    reward.
    """
    judge_server.behave(chat=CHAT, fault={"status": 400, "body": "{}"}, fault_share=0.3)
    options = options_for(tmp_path, policy=agent(judge_server), episodes=4)
    with pytest.raises(TooManyUnscoredError, match="policy_failed"):
        run_sessions(options, probe=False)
    episodes = read(tmp_path)
    failures = read(tmp_path, "run_failures.jsonl")
    assert len(episodes) + len(failures) == 12
    assert {record["metadata"]["end_reason"] for record in failures} == {"policy_failed"}
    assert {record["reward"] for record in failures} == {None}
    judge_server.behave(chat=CHAT)
    assert run_sessions(options, probe=False).summary["episodes_written"] == 12
    assert read(tmp_path, "run_failures.jsonl") == []


@pytest.mark.parametrize("turns", [0, 2])
def test_a_turn_that_is_too_long_truncates_the_session(tmp_path, judge_server, turns):
    """The turns before it are an episode that was cut off; without any, the policy failed."""
    judge_server.behave(
        script=[
            *({"content": CHAT[number]} for number in range(turns)),
            {"content": "Yes. " * 4_000},
        ]
    )
    options = options_for(tmp_path, policy=agent(judge_server), episodes=1)
    run = partial(run_sessions, options, few=1, probe=False)
    if turns:
        run()
    else:
        with pytest.raises(TooManyUnscoredError):
            run()
    (record,) = read(tmp_path, "run.jsonl" if turns else "run_failures.jsonl")
    assert record["metadata"]["end_reason"] == ("turn_too_long" if turns else "policy_failed")
    assert record["metadata"]["turns"] == turns


def test_a_faulty_client_is_counted_and_left_out(tmp_path, judge_server):
    """Sessions whose client repeats itself are no episodes, and their rate is known."""
    judge_server.behave(chat=[REACTION])
    client = agent(judge_server, "c")
    options = options_for(tmp_path, policy=agent(judge_server), client=client, episodes=1)
    with pytest.raises(
        TooManyUnscoredError, match="none of the 3 sessions is in the output: 3 with client faults"
    ):
        run_sessions(options, scripted_client=False, probe=False)
    assert read(tmp_path) == []
    left_out = read(tmp_path, "run_failures.jsonl")
    assert {record["metadata"]["left_out"] for record in left_out} == {"client fault"}
    assert [record["metadata"]["client_faults"] for record in left_out] == [["repeats_itself"]] * 3
    summary = json.loads((tmp_path / "run.collect.json").read_bytes())
    assert summary["client_fault_rate"] == 1.0
    assert summary["client_faults"]["repeats_itself"] == 3
    assert summary["client_fault_rate_interval"][0] > 0.4


def test_a_reward_model_that_plays_the_client_is_named(tmp_path, judge_server):
    """It answers with verdicts instead of a client's reaction, and the error says what to do."""
    client = agent(judge_server, "c")
    options = options_for(tmp_path, policy=agent(judge_server), client=client, episodes=1)
    with pytest.raises(TooManyUnscoredError, match="A reward model cannot play a client"):
        run_sessions(options, scripted_client=False, probe=False)


def test_private_data_in_a_generated_turn_ends_the_session(tmp_path, judge_server):
    """Matches of redact_pattern are found on both sides; the text with them is written nowhere."""
    judge_server.behave(chat=["Write to me at jane.doe@example.org and tell me how it is."])
    options = options_for(tmp_path, policy=agent(judge_server), episodes=1)
    with pytest.raises(TooManyUnscoredError, match="private_data"):
        run_sessions(options, probe=False, redact_pattern=("email",))
    failures = read(tmp_path, "run_failures.jsonl")
    assert {record["metadata"]["end_evidence"] for record in failures} == {
        "policy: matches of redact_pattern: email"
    }
    assert b"jane.doe" not in b"".join(path.read_bytes() for path in tmp_path.glob("run*.json*"))


def test_branches_share_their_history(tmp_path, judge_server):
    """With a branch at the third turn, two turns are asked once for the whole group, and the third
    for each.
    """
    judge_server.behave(
        script=[{"content": f"{CHAT[number % 6]} Attempt {number}."} for number in range(400)]
    )
    options = options_for(tmp_path, policy=agent(judge_server), episodes=4, branch_at=3)
    run_sessions(options, few=1, probe=False)
    records = read(tmp_path)
    assert {record["metadata"]["group"] for record in records} == {"exam_stress_001/v0/b3"}
    histories = {json.dumps(record["messages"][:6]) for record in records}
    thirds = {record["messages"][6]["content"] for record in records}
    assert (len(records), len(histories), len(thirds)) == (4, 1, 4)


def test_a_group_of_one_client_is_asked_once_for_equal_questions(tmp_path, judge_server):
    """The same words of the policy get the same reply of the client in the whole group, and are
    paid for once.
    """
    judge_server.behave(chat=CHAT)
    client = agent(judge_server, "c")
    options = options_for(tmp_path, policy=agent(judge_server), client=client, episodes=4)
    with pytest.raises(TooManyUnscoredError, match="4 with client faults"):
        run_sessions(options, scripted_client=False, probe=False, few=1)
    played = read(tmp_path, "run_failures.jsonl")
    assert len({json.dumps(record["messages"]) for record in played}) == 1
    roles = json.loads((tmp_path / "run.collect.json").read_bytes())["roles"]
    assert roles["policy"]["from_journal"] == 0
    assert roles[CLIENT]["from_journal"] == 3 * roles[CLIENT]["calls"]


def test_a_policy_that_is_down_is_an_error_before_any_session(tmp_path):
    """The probe names the policy and its own flag; nothing is written."""
    nobody = AgentConfig(JudgeSettings(base_url=("http://127.0.0.1:9/v1",), model="m"))
    with pytest.raises(
        JudgeError,
        match=r"the policy cannot be used: .*Is the server running\? Check policy_base_url",
    ):
        run_sessions(options_for(tmp_path, policy=nobody), retries=0)
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".jsonl"] == []


def test_two_runs_on_one_output_are_refused(tmp_path):
    """The lease of another run keeps this one away."""
    lease = take_lease(str(tmp_path / "run.jsonl"), Store(), 300)
    assert isinstance(lease, Lease)
    with pytest.raises(StorageError, match="has been working on it"):
        run_game(tmp_path)


def test_outputs_go_where_they_belong():
    """Plain lines for other loaders, RL data under rl/, and a teacher's sessions under a folder of
    their own.
    """
    cases = [
        ("run.jsonl.gz", "policy", "uncompressed .jsonl"),
        ("-", "policy", "uncompressed .jsonl"),
        ("s3://bucket/sft/run.jsonl", "policy", "under s3://bucket/rl/"),
        ("runs/run.jsonl", "teacher", "named teacher"),
        ("teacher/run.jsonl", "policy", "named teacher"),
    ]
    for output, role, said in cases:
        with pytest.raises(UsageError, match=said):
            check_output(output, settings_from(), role)
    check_output("s3://b/rl/teacher/run.jsonl", settings_from(), "teacher")


def test_a_scenario_file_that_cannot_be_read_is_named(tmp_path):
    """The file, the line and what was expected stand in the error."""
    cases = [
        ("none.toml", None, "no such file"),
        ("broken.toml", "[[scenario", "not TOML"),
        ("empty.toml", "", "no scenarios"),
        ("flat.toml", "scenario = 3", "not a list of tables"),
        ("bad.jsonl", "{\n", "line 1"),
    ]
    for name, text, said in cases:
        path = tmp_path / name
        if text is not None:
            path.write_text(text)
        with pytest.raises(InputError, match=said):
            read_scenarios(str(path), ENVIRONMENT, Store())


def test_no_two_episodes_share_a_call_of_the_policy():
    """Scenario aside, variant, seed and number each make calls of their own; turns before a branch
    are shared.
    """
    secret = Secret(scenario_id="x", number=1)
    slots = [EpisodeSlot(0, secret, v, s, n) for v in range(3) for s in range(3) for n in range(3)]
    assert len({slot.repeat_at(0) for slot in slots}) == len(slots)
    branches = [EpisodeSlot(0, secret, v, 0, n, branch_at=3) for v in range(2) for n in range(3)]
    assert len({slot.repeat_at(1) for slot in branches}) == 2
    assert len({slot.repeat_at(2) for slot in branches}) == 6
