"""The trainers' own shapes over a real server with a real judge, by the contracts in the trainers'
sources.
"""

import pytest
from genrm_process import Genrm
from served import judge_flags, serving, texts, verify_row


@pytest.fixture(scope="module")
def composed(judge_process, tmp_path_factory):
    """Keep a server whose rewards have components, some of them gated."""
    judge_process.restore()
    genrm = Genrm(tmp_path_factory.mktemp("composed"))
    settings = (
        "[components.win_rate]\n[total]\nweights = { genrm = 1, win_rate = 2 }\n"
        "gates = { win_rate = 0.1 }\n"
    )
    (genrm.folder / "genrm.toml").write_text(settings)
    flags = ("--config", "genrm.toml", "--retries", "0")
    with serving(genrm, *judge_flags(judge_process.base_url), *flags) as served:
        yield served


TEMPLATE = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"


def post_all(served, path, bodies):
    """Post each body in a thread of its own; their replies in order."""
    return [each.reply() for each in [served.begin(path, body) for body in bodies]]


def gym_row(task, place, text, **fields):
    """Make a row of a cohort of three."""
    own = {"_ng_task_index": task, "cohort_size": 3, "verifier_metadata": {"kept": True}}
    return verify_row(place, text, **own | fields)


def sample(group, text):
    """Make a request of OpenRLHF's: the query is the decoded template, the prompt included."""
    prompt = TEMPLATE.format(f"Why {group}?")
    return {
        "query": [prompt + text + "<|im_end|>"],
        "prompts": [prompt],
        "labels": [f"answer of {group}"],
    }


def test_a_gym_row_comes_back_with_its_reward(served):
    """Every field of the row is kept; the reward is a number."""
    rows = [gym_row(71, place, text) for place, text in enumerate(texts(3))]
    replies = [reply.json() for reply in post_all(served, "/verify", rows)]
    assert [{**reply, "reward": 0} for reply in replies] == [
        {
            **row,
            "reward": 0,
            "failure_reason": None,
        }
        for row in rows
    ]
    rewards = [reply["reward"] for reply in replies]
    assert rewards == sorted(rewards)
    assert all(isinstance(reward, float) for reward in rewards)


def test_the_text_of_input_parts_reaches_the_judge(served, judge_server):
    """`input_text` parts are read; NeMo Gym's own server shows the judge an empty prompt."""
    rows = [gym_row(72, place, text) for place, text in enumerate(texts(3, "parts"))]
    for row in rows:
        row["responses_create_params"]["input"][0]["content"][0]["text"] = "A question in parts?"
    post_all(served, "/verify", rows)
    assert "A question in parts?" in str(judge_server.stats()["recent"])


def test_a_judge_that_fails_is_nemo_gyms_judge_error(served, judge_server):
    """The row goes to the failures of the run, as with NeMo Gym's own judge error; asking again
    judges again.
    """
    judge_server.behave(fault={"status": 400})
    rows = [gym_row(74, place, text) for place, text in enumerate(texts(3, "fails"))]
    replies = [reply.json() for reply in post_all(served, "/verify", rows)]
    assert {reply["_ng_failure_class"] for reply in replies} == {"judge_failed"}
    assert all(reply["_ng_failure_judge_error"] for reply in replies)
    assert what_nemo_rl_reads(replies)[:2] == ([0, 0, 0], [True, True, True])
    judge_server.behave()
    reply = post_all(served, "/verify", rows)[0].json()
    assert "_ng_failure_class" not in reply
    assert reply["failure_reason"] is None


def test_attempts_at_a_group_never_mix(served, judge_server):
    """A member of attempt 2 is no opponent in attempt 3 (NeMo RL 3861, NeMo Gym 2814)."""
    old, new = (
        [
            gym_row(75, place, text)
            | {"_ng_group_id": "prompt-75", "_ng_group_attempt": attempt, "cohort_size": 2}
            for place, text in enumerate(texts(2, name))
        ]
        for name, attempt in (("old", 2), ("new", 3))
    )
    left = served.begin("/verify", old[0])
    served.wait_for(waiting=1)
    member = served.begin("/verify", new[1])
    served.wait_for(waiting=2)
    rewards = [served.post("/verify", new[0]).json()["reward"], member.json()["reward"]]
    assert rewards[0] < rewards[1]
    assert "old says" not in str(judge_server.stats()["recent"])
    asked = len(judge_server.stats()["recent"])
    assert served.post("/verify", new[1]).json()["reward"] == rewards[1]  # a repeated request
    assert len(judge_server.stats()["recent"]) == asked
    assert served.post("/verify", new[1] | {"response": old[1]["response"]}).status_code == 409
    assert (
        served.post("/verify", new[1] | {"_ng_group_attempt": "3"}).status_code == 422
    )  # not attempt 0
    assert served.post("/verify", old[1]).is_success
    assert left.reply().is_success


def what_nemo_rl_reads(results):
    """Restate what NeMo RL 7ea279ab takes from verified rows: rewards, masks, and GDPO's columns.

    Source: `_extract_mask_sample_flags` and the end of `run_async_nemo_gym_rollout` in
    `nemo_rl/experience/rollouts.py`; `extract_reward_components`, `build_reward_component_columns`
    and `validate_reward_components_match_scalar` in `nemo_rl/environments/nemo_gym.py`."""
    masked = [
        bool((result.get("instance_config") or {}).get("mask_sample", False)) for result in results
    ]
    components = [result.get("reward_components") or None for result in results]
    for result, own in zip(results, components, strict=True):
        assert own is None or sum(own.values()) == pytest.approx(
            result["reward"], rel=1e-5, abs=1e-6
        )
    names = {name for own in components for name in own or ()}
    columns = {name: [(own or {}).get(name, 0.0) for own in components] for name in names}
    return [float(result["reward"]) for result in results], masked, columns


def test_a_reply_names_components_and_their_means(composed):
    """For trainers that keep rewards apart: each response has its own values."""
    responses = [{"text": text} for text in texts(3, "named")]
    reply = composed.post("/v1/groups", {"messages": "Why?", "responses": responses}).json()
    means = reply["metrics"]["component_means"]
    assert set(means) == {"genrm", "win_rate"}
    wins = [each["components"]["win_rate"] for each in reply["responses"]]
    assert means["win_rate"] == pytest.approx(sum(wins) / 3)


@pytest.mark.slow
def test_nemo_rl_masks_a_rollout_without_a_reward(composed):
    """A blank response is masked, its placeholders are the means of its siblings, and no judge has
    failed.
    """
    rows = [gym_row(76, place, text) for place, text in enumerate(["", *texts(3, "composed")])]
    rows[0]["instance_config"] = {"kept": 1}
    replies = [
        reply.json()
        for reply in post_all(composed, "/verify", [row | {"cohort_size": 4} for row in rows])
    ]
    rewards, masked, columns = what_nemo_rl_reads(replies)
    assert masked == [True, False, False, False]
    assert rewards[0] == pytest.approx(sum(rewards[1:]) / 3)
    assert len(set(rewards)) == 4
    assert set(columns) == {"genrm", "win_rate", "limits"}
    for values in columns.values():
        assert values[0] == pytest.approx(sum(values[1:]) / 3)
    assert "blank" in replies[0]["failure_reason"]
    assert "_ng_failure_class" not in replies[0]
    assert replies[0]["instance_config"] == {"kept": 1, "mask_sample": True}


def test_the_other_endpoints_of_a_resources_server(served):
    """Sessions, liveness, and the metrics of the rewards without those whose judge failed."""
    assert served.post("/seed_session", {}).json() == {}
    assert served.get("/").json() == {"status": "ok"}
    assert served.get("/reverify_mode").json() == "unsupported"
    rows = [
        {"_ng_task_index": task, "reward": reward}
        for task, reward in ((0, 1.0), (0, 3.0), (1, 5.0))
    ]
    failed = {
        "_ng_task_index": 1,
        "reward": 0.0,
        "_ng_failure_class": "judge_failed",
    }
    reply = served.post("/aggregate_metrics", {"verify_responses": [*rows, failed]}).json()
    assert set(reply) == {"group_level_metrics", "agent_metrics", "key_metrics"}
    assert reply["key_metrics"] == {"mean/reward": 3.0}
    assert [group["mean/reward"] for group in reply["group_level_metrics"]] == [2.0, 5.0]


def test_openrlhf_samples_find_their_cohort(served):
    """One sample a request; the group is that of prompt and label, and equal responses are
    different members.
    """
    given = [*texts(3, "rlhf"), texts(3, "rlhf")[0]]
    replies = [
        reply.json()
        for reply in post_all(served, "/openrlhf?size=4", [sample("rlhf", text) for text in given])
    ]
    rewards = [reply["rewards"][0] for reply in replies]
    assert all(reply["scores"] == [0.5] for reply in replies)  # within the default range
    counts = {
        "genrm_comparisons",
        "genrm_failed",
        "genrm_unscored",
        "genrm_came",
        "genrm_late",
        "genrm_worth_training",
    }
    assert set(replies[0]["extra_logs"]) == counts
    assert rewards[2] == max(rewards)


def test_openrlhf_gets_an_empty_list_for_an_empty_list(served):
    """The second of two URLs gets no sample at all."""
    empty = {
        "query": [],
        "prompts": [],
        "labels": [],
    }
    assert served.post("/openrlhf", empty).json() == {
        "rewards": [],
        "scores": [],
        "extra_logs": {},
    }


def test_a_label_may_name_group_messages_and_size(served, judge_server):
    """A JSON object in the label; the judge is shown its messages instead of the decoded
    template.
    """
    label = '{"group_id": "labelled", "size": 2, "messages": [{"role": "user", "content": "What is asked?"}]}'  # noqa: E501
    bodies = [
        {
            **sample("label", text),
            "labels": [label],
        }
        for text in texts(2, "label")
    ]
    assert all(reply.status_code == 200 for reply in post_all(served, "/openrlhf", bodies))
    assert "What is asked?" in str(judge_server.stats()["recent"])


def test_reasoning_that_the_prompt_opened_is_not_shown(served, judge_server):
    """A response cut off in the reasoning that the template opened is blank to the judge."""
    bodies = [
        sample("opened", text)
        for text in ["a secret plan", *(f"so</think>{text}" for text in texts(2, "open"))]
    ]
    for body in bodies:
        (prompt,) = body["prompts"]
        body |= {
            "query": [body["query"][0].replace(prompt, prompt + "<think>\n")],
            "prompts": [prompt + "<think>\n"],
        }
    post_all(served, "/openrlhf?size=3", bodies)
    recent = str(judge_server.stats()["recent"])
    assert "Why opened?" in recent
    assert "a secret plan" not in recent


def test_a_truncated_prompt_is_found_by_its_end(served):
    """OpenRLHF cuts long prompts on the left, so a query need not begin with its prompt."""
    bodies = [sample("truncated", text) for text in texts(2, "cut")]
    for body in bodies:
        body["query"] = [body["query"][0][10:]]
    assert all(reply.status_code == 200 for reply in post_all(served, "/openrlhf?size=2", bodies))
    bodies[0]["query"] = ["Something else entirely, of some length."]
    assert "does not begin with its prompt" in served.post("/openrlhf?size=2", bodies[0]).text


def test_a_retry_of_openrlhf_is_not_another_member(served):
    """The client gives up and posts again, which its library does without saying so."""
    given = texts(2, "retry")
    served.post_and_leave("/openrlhf?size=2", sample("retry", given[0]), waiting=1)
    replies = post_all(served, "/openrlhf?size=2", [sample("retry", text) for text in given])
    rewards = [reply.json()["rewards"][0] for reply in replies]
    assert rewards == sorted(rewards)


def test_slime_gets_a_number(served):
    """`remote_rm` reads the reply as the reward."""
    bodies = [
        {
            "prompt": "Why?",
            "response": text,
            "label": "slime",
        }
        for text in texts(3, "slime")
    ]
    rewards = [reply.json() for reply in post_all(served, "/slime?size=3", bodies)]
    assert rewards == sorted(rewards)
    assert all(isinstance(reward, float) for reward in rewards)


@pytest.mark.parametrize("path", ["/openrlhf?size=2", "/slime?size=2"])
def test_a_missing_number_is_an_error_to_be_retried(served, judge_server, path):
    """503 with Retry-After while the judge fails; the retries of all members find each other."""
    judge_server.behave(fault={"status": 400})
    bodies = [
        {
            **sample(path, text),
            "prompt": f"Why {path}?",
            "response": text,
            "label": path,
        }
        for text in texts(2, f"number {path}")
    ]
    assert [reply.status_code for reply in post_all(served, path, bodies)] == [503, 503]
    judge_server.behave()
    assert [reply.status_code for reply in post_all(served, path, bodies)] == [200, 200]


@pytest.mark.parametrize("shape", ["openrlhf", "slime"])
def test_a_late_sample_gets_the_replacement_that_the_url_names(hurried, shape):
    """It may be of the next epoch, whose siblings were lost, too; without a replacement, it gets
    the reward beside those who came in time.
    """
    given = texts(4, f"epochs of {shape}")
    path = f"/{shape}?size=4"
    bodies = [sample(shape, text) | {"response": text} for text in given]
    bodies = [body | {"prompt": body["prompts"][0], "label": shape} for body in bodies]
    post_all(hurried, path, bodies[:2])
    found = []
    for body, late in ((bodies[2], f"{path}&on_failure=-7"), (bodies[3], path)):
        reply = hurried.post(late, body).json()
        found.append(reply if shape == "slime" else reply["rewards"][0])
        assert shape == "slime" or reply["extra_logs"]["genrm_late"] == [1.0]
    assert found[0] == -7
    assert found[1] > 0


def test_openrlhf_gets_a_number_for_every_sample(served, judge_server):
    """The documented URL sends the mean of the group, or of all groups; its client would make an
    error a None.

    `torch.cat` of its rewards then fails and ends training (OpenRLHF 3c3be623,
    `ppo_utils/experience_maker.py`)."""
    documented = "/openrlhf?size=3&on_failure=mean"
    bodies = [sample("blank", text) for text in ["", *texts(2, "blank")]]
    blank, *others = (reply.json() for reply in post_all(served, documented, bodies))
    rewards = [other["rewards"][0] for other in others]
    assert blank["rewards"] == [pytest.approx(sum(rewards) / 2)]
    assert blank["extra_logs"]["genrm_unscored"] == [1.0]
    again = [
        reply.json()["rewards"] for reply in post_all(served, documented, bodies)
    ]  # an epoch later: a new cohort
    rewards = [sum(rewards) / 2, *rewards]
    assert again == [
        [pytest.approx(reward, abs=0.02)] for reward in rewards
    ]  # the calibration has grown
    judge_server.behave(fault={"status": 400})
    failed = [
        reply.json()["rewards"]
        for reply in post_all(served, documented, [sample("all", t) for t in texts(3)])
    ]
    assert failed[0] == failed[1] == failed[2] != [None]
    assert served.post("/openrlhf?size=1&on_failure=meen", sample("typo", "a")).status_code == 422


def test_on_failure_sends_the_users_number(limited, judge_server):
    """Where a number is required, only if the user says so; it is counted. Elsewhere a failure
    stays null.
    """
    judge_server.behave(fault={"status": 400})
    bodies = [
        {
            "prompt": "Why?",
            "response": text,
            "label": "failing",
        }
        for text in texts(2, "failing")
    ]
    assert [reply.json() for reply in post_all(limited, "/slime", bodies)] == [0.5, 0.5]
    assert limited.group(messages="Why?", responses=[{"text": "fails"}, {"text": "b c"}])[
        "rewards"
    ] == [None, None]
    assert "genrm_default_rewards_total 2.0" in limited.get("/metrics").text
