"""The trainers' own shapes over a real server with a real judge, by the contracts in the trainers'
sources.
"""

import json

import pytest
from served import SHAPES, gym_response, judge_flags, reward_in, texts, verify_row


@pytest.fixture(scope="module")
def composed(keep):
    """Keep a server whose rewards have components, some of them gated."""
    total = "[total]\nweights = { genrm = 1, win_rate = 2 }\ngates = { win_rate = 0.1 }\n"
    settings = {"genrm.toml": "[components.win_rate]\n" + total}
    with keep("--config genrm.toml", settings) as served:
        yield served


TEMPLATE = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"


def post_all(served, path, bodies):
    """Post each body in a thread of its own; what they are answered, in order."""
    return [each.json() for each in [served.begin(path, body) for body in bodies]]


def gym_row(task, place, text, **fields):
    """Make a row of a cohort of three."""
    own = {"_ng_task_index": task, "cohort_size": 3, "verifier_metadata": {"kept": True}}
    return verify_row(place, text, **own | fields)


def samples(group, given, prompt=TEMPLATE, **own):
    """Make requests of OpenRLHF's: a query is the decoded template, the prompt included."""
    prompt = prompt.format(f"Why {group}?")
    body = {"prompts": [prompt], "labels": [f"answer of {group}"], **own}
    return [{**body, "query": [f"{prompt}{text}<|im_end|>"]} for text in given]


def compare_request(name, size=3):
    """Make a request of NeMo Gym's to compare a group."""
    return {
        "conversation_history": [{"role": "user", "content": f"Why {name}?"}],
        "response_objs": [gym_response(text) for text in texts(size, name)],
    }


@pytest.mark.parametrize("shape", SHAPES)
def test_a_client_that_asks_again_gets_its_reward(served, shape):
    """202 after the time that it names, with nothing to pay and no connection held; then a number,
    in every shape.
    """
    (path, body), other = (SHAPES[shape]("wait", n, text, 2) for n, text in enumerate(texts(2)))
    polled = path + ("&" if "?" in path else "?") + "wait=0"
    for _ in range(2):
        reply = served.post(polled, body)
        assert (reply.status_code, reply.json()) == (202, {"status": "waiting"})
        assert reply.headers["Retry-After"] == "0"
    waiting = served.begin(*other)
    while (reply := served.post(polled, body)).status_code == 202:
        pass
    worse, better = (reward_in(each) for each in (reply, waiting.reply()))
    assert 1 <= worse < better <= 5


@pytest.mark.parametrize("shape", [*SHAPES, "compare"])
def test_a_judge_that_fails_gives_no_number(served, judge_server, shape):
    """A row is masked, as NeMo Gym's own judge errors are; where a number is required, 503 says
    when to ask again. Whoever asks again is judged again.
    """
    judge_server.behave(fault={"status": 400})

    def ask():
        given = dict(enumerate(texts(2, f"fails {shape}")))
        if shape == "compare":
            return [served.post("/compare", compare_request("no judge", 2))]
        return [each.reply() for each in served.begin_all(shape, "fails", given, 2)]

    for reply in ask():
        if reply.status_code == 503:
            assert int(reply.headers["Retry-After"]) > 0
            assert "no reward" in reply.json()["error"]["message"]
            continue
        assert shape in ("cohort", "gym", "gym attempt")
        assert reward_in(reply) is None
        if shape != "cohort":
            assert reply.json()["_ng_failure_class"] == "judge_failed"
            assert reply.json()["_ng_failure_judge_error"]
            assert reply.json()["instance_config"] == {"mask_sample": True}
    judge_server.behave()
    for reply in ask():
        assert reply.status_code == 200
        assert "_ng_failure_class" not in reply.text
        assert reward_in(reply) is not None


def test_a_gym_row_comes_back_with_its_reward(served, judge_server):
    """Every field of the row is kept; the reward is a number. The judge sees the text of
    `input_text` parts, where NeMo Gym's own server shows it an empty prompt.
    """
    rows = [gym_row(71, place, text) for place, text in enumerate(texts(3))]
    replies = post_all(served, "/verify", rows)
    rewards = [reply.pop("reward") for reply in replies]
    assert replies == [{**row, "failure_reason": None} for row in rows]
    assert rewards == sorted(rewards)
    assert all(isinstance(reward, float) for reward in rewards)
    assert "Why?" in str(judge_server.stats()["recent"])


def test_compare_has_the_reply_of_nemo_gym(served):
    """Rewards, comparison results with indices, three metrics; nothing else."""
    reply = served.post("/compare", compare_request("compared")).json()
    assert set(reply) == {"rewards", "comparison_results", "metrics"}
    assert reply["rewards"] == sorted(reply["rewards"])
    fields = {"response_i", "response_j", "judge_idx", "score_1", "score_2", "ranking"}
    assert set(reply["comparison_results"][0]) == fields
    metrics = {"mean_individual_score", "std_individual_score", "tiebreak_usage_rate"}
    assert set(reply["metrics"]) == metrics


@pytest.mark.slow
def test_compat_gives_the_numbers_of_nemo_gym(serve, genrm, judge_server):
    """HTTP and `genrm compare` agree in every number; empty objects are the word None; wrong types
    get a 422.
    """
    request = compare_request("compat")
    odd = [{"item": {}}, {"item": {"output": None}}, {"text": "a"}]
    row = {"responses_create_params": {"input": "Why?"}, "response": {"output": []}}
    with serve("--compat nemo-gym --cohort-size 2") as served:
        reply = served.post("/compare", request).json()
        assert None not in served.group(messages="Why?", responses=odd)["rewards"][:2]
        for wrong in ({"prompt_id": 5}, {"response": {}}):
            assert served.post("/verify", row | wrong).status_code == 422
    flags = (*judge_flags(judge_server.base_url), "--compat", "nemo-gym", "--json")
    compared = genrm.run("compare", "-", *flags, stdin=json.dumps(request).encode())
    assert reply == json.loads(compared.out)


def test_attempts_at_a_group_never_mix(served, judge_server):
    """A member of attempt 2 is no opponent in attempt 3 (NeMo RL 3861, NeMo Gym 2814)."""
    about = {"_ng_group_id": "prompt-75", "cohort_size": 2}
    old, new = (
        [
            gym_row(75, place, text, **about, _ng_group_attempt=attempt)
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
    for status, odd in (
        (409, {"response": old[1]["response"]}),
        (422, {"_ng_group_attempt": "3"}),  # which is not attempt 0
    ):
        assert served.post("/verify", new[1] | odd).status_code == status
    assert served.post("/verify", old[1]).is_success
    assert left.reply().is_success


def test_a_reply_names_components_and_their_means(composed):
    """For trainers that keep rewards apart: each response has its own values."""
    reply = composed.group(messages="Why?", responses=texts(3, "named"))
    means = reply["metrics"]["component_means"]
    assert set(means) == {"genrm", "win_rate"}
    wins = [each["components"]["win_rate"] for each in reply["responses"]]
    assert means["win_rate"] == pytest.approx(sum(wins) / 3)


@pytest.mark.slow
def test_nemo_rl_masks_a_rollout_without_a_reward(composed):
    """A blank response is masked, its placeholders are the means of its siblings, and no judge has
    failed.

    Source: what NeMo RL 7ea279ab reads in `_extract_mask_sample_flags` and the end of
    `run_async_nemo_gym_rollout` (`nemo_rl/experience/rollouts.py`), and GDPO in
    `build_reward_component_columns` and `validate_reward_components_match_scalar`
    (`nemo_rl/environments/nemo_gym.py`)."""
    given = enumerate(["", *texts(3, "composed")])
    rows = [gym_row(76, place, text, cohort_size=4) for place, text in given]
    rows[0]["instance_config"] = {"kept": 1}
    replies = post_all(composed, "/verify", rows)
    rewards = [reply["reward"] for reply in replies]
    assert rewards[0] == pytest.approx(sum(rewards[1:]) / 3)
    assert len(set(rewards)) == 4
    components = [reply["reward_components"] for reply in replies]
    for reward, own in zip(rewards, components, strict=True):
        assert sum(own.values()) == pytest.approx(reward, rel=1e-5, abs=1e-6)
    assert set().union(*components) == {"genrm", "win_rate", "limits"}
    for name in ("genrm", "win_rate", "limits"):
        placeholder, *others = (own.get(name, 0.0) for own in components)
        assert placeholder == pytest.approx(sum(others) / 3)
    assert not any("instance_config" in reply for reply in replies[1:])
    assert "blank" in replies[0]["failure_reason"]
    assert "_ng_failure_class" not in replies[0]
    assert replies[0]["instance_config"] == {"kept": 1, "mask_sample": True}


def test_the_other_endpoints_of_a_resources_server(served):
    """Sessions, liveness, and the metrics of the rewards without those whose judge failed."""
    assert served.post("/seed_session", {}).json() == {}
    assert served.get("/").json() == {"status": "ok"}
    assert served.get("/reverify_mode").json() == "unsupported"
    given = ((0, 1.0), (0, 3.0), (1, 5.0))
    rows = [{"_ng_task_index": task, "reward": reward} for task, reward in given]
    failed = {"_ng_task_index": 1, "reward": 0.0, "_ng_failure_class": "judge_failed"}
    reply = served.post("/aggregate_metrics", {"verify_responses": [*rows, failed]}).json()
    assert set(reply) == {"group_level_metrics", "agent_metrics", "key_metrics"}
    assert reply["key_metrics"] == {"mean/reward": 3.0}
    assert [group["mean/reward"] for group in reply["group_level_metrics"]] == [2.0, 5.0]


def test_openrlhf_samples_find_their_cohort(served):
    """One sample a request; the group is that of prompt and label, and equal responses are
    different members. The second of two URLs gets no sample at all.
    """
    given = texts(3, "rlhf")
    replies = post_all(served, "/openrlhf?size=4", samples("rlhf", [*given, given[0]]))
    rewards = [reply["rewards"][0] for reply in replies]
    assert all(reply["scores"] == [0.5] for reply in replies)  # within the default range
    counts = ("comparisons", "failed", "unscored", "came", "late", "worth_training")
    assert set(replies[0]["extra_logs"]) == {f"genrm_{name}" for name in counts}
    assert rewards[2] == max(rewards)
    nothing = served.post("/openrlhf", {"query": [], "prompts": [], "labels": []})
    assert nothing.json() == {"rewards": [], "scores": [], "extra_logs": {}}


def test_a_label_may_name_group_messages_and_size(served, judge_server):
    """A JSON object in the label; the judge is shown its messages instead of the decoded
    template.
    """
    messages = [{"role": "user", "content": "What is asked?"}]
    label = json.dumps({"group_id": "labelled", "size": 2, "messages": messages})
    post_all(served, "/openrlhf", samples("label", texts(2, "label"), labels=[label]))
    assert "What is asked?" in str(judge_server.stats()["recent"])


def test_reasoning_that_the_prompt_opened_is_not_shown(served, judge_server):
    """A response cut off in the reasoning that the template opened is blank to the judge."""
    given = ["a secret plan", *(f"so</think>{text}" for text in texts(2, "open"))]
    bodies = samples("opened", given, TEMPLATE + "<think>\n")
    post_all(served, "/openrlhf?size=3&on_failure=mean", bodies)
    recent = str(judge_server.stats()["recent"])
    assert "Why opened?" in recent
    assert "a secret plan" not in recent


def test_a_truncated_prompt_is_found_by_its_end(served):
    """OpenRLHF cuts long prompts on the left, so a query need not begin with its prompt."""
    bodies = samples("truncated", texts(2, "cut"))
    for body in bodies:
        body["query"] = [body["query"][0][10:]]
    post_all(served, "/openrlhf?size=2", bodies)
    bodies[0]["query"] = ["Something else entirely, of some length."]
    assert "does not begin with its prompt" in served.post("/openrlhf?size=2", bodies[0]).text


def test_a_retry_of_openrlhf_is_not_another_member(served):
    """The client gives up and posts again, which its library does without saying so."""
    bodies = samples("retry", texts(2, "retry"))
    served.post_and_leave("/openrlhf?size=2", bodies[0], waiting=1)
    worse, better = post_all(served, "/openrlhf?size=2", bodies)
    assert worse["rewards"] < better["rewards"]


@pytest.mark.parametrize("shape", ["openrlhf", "slime"])
def test_a_late_sample_gets_the_replacement_that_the_url_names(hurried, shape):
    """It may be of the next epoch, whose siblings were lost, too; without a replacement, it gets
    the reward beside those who came in time.
    """
    given = texts(4, f"epochs of {shape}")
    for each in hurried.begin_all(shape, "epochs", dict(enumerate(given[:2])), 4):
        each.reply()
    for text, replacement in ((given[2], "&on_failure=-7"), (given[3], "")):
        path, body = SHAPES[shape]("epochs", 0, text, 4)
        reply = hurried.post(path + replacement, body)
        assert shape == "slime" or reply.json()["extra_logs"]["genrm_late"] == [1.0]
        assert (reward_in(reply) == -7) is bool(replacement)


def test_openrlhf_gets_a_number_for_every_sample(served, judge_server):
    """The documented URL sends the mean of the group, or of all groups; its client would make an
    error a None.

    `torch.cat` of its rewards then fails and ends training (OpenRLHF 3c3be623,
    `ppo_utils/experience_maker.py`)."""
    documented = "/openrlhf?size=3&on_failure=mean"
    bodies = samples("blank", ["", *texts(2, "blank")])
    blank, *others = post_all(served, documented, bodies)
    rewards = [other["rewards"][0] for other in others]
    assert blank["rewards"] == [pytest.approx(sum(rewards) / 2)]
    assert blank["extra_logs"]["genrm_unscored"] == [1.0]
    again = post_all(served, documented, bodies)  # an epoch later: a new cohort
    for reply, reward in zip(again, [sum(rewards) / 2, *rewards], strict=True):
        # The calibration has grown.
        assert reply["rewards"] == [pytest.approx(reward, abs=0.02)]
    judge_server.behave(fault={"status": 400})
    failed = post_all(served, documented, samples("all", texts(3)))
    assert failed[0]["rewards"] == failed[1]["rewards"] == failed[2]["rewards"] != [None]
    [typo] = samples("typo", ["a"])
    assert served.post("/openrlhf?size=1&on_failure=meen", typo).status_code == 422


def test_on_failure_sends_the_users_number(limited, judge_server):
    """Where a number is required, only if the user says so; it is counted. Elsewhere a failure
    stays null.
    """
    judge_server.behave(fault={"status": 400})
    waiting = limited.begin_all("slime", "failing", dict(enumerate(texts(2, "failing"))), 2)
    assert [each.json() for each in waiting] == [0.5, 0.5]
    group = limited.group(messages="Why?", responses=["fails", "b c"])
    assert group["rewards"] == [None, None]
    assert limited.metric("genrm_default_rewards_total") == 2
