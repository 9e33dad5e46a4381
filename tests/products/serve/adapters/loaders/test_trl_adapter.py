"""TRL trains on rewards from a live server."""

import asyncio
import json
import os
import pickle
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from genrm_process import PACKAGE_ROOT
from served import judge_flags, serving, texts
from small_server import answering

pytestmark = [
    pytest.mark.slow,
    pytest.mark.loader("trl", "datasets"),
    pytest.mark.filterwarnings("default"),
    pytest.mark.timeout(900),
]

SCRIPT = Path(__file__).with_name("train_grpo.py")


def train(served, model_folder, *launcher, rows, flags=()):
    """Run the script; the calls of the reward function, and the log of the trainer."""
    ended = subprocess.run(
        [
            sys.executable,
            *launcher,
            str(SCRIPT),
            str(model_folder),
            str(rows),
            *flags,
        ],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": str(PACKAGE_ROOT),
            "GENRM_SERVE_URL": served.url,
            "OMP_NUM_THREADS": "1",
        },
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    records = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith('{"')]
    (log,) = [record["log"] for record in records if "log" in record]
    return [record for record in records if "rank" in record], log


def test_grpo_trains_on_the_rewards(served, model_folder):
    """`GRPOTrainer` (trl 1.16.0) takes two steps, and its group statistics are those of our
    rewards.
    """
    calls, log = train(served, model_folder, rows=8)
    assert [len(call["scored"]) for call in calls] == [8, 8]
    assert all(None not in call["scored"] for call in calls)
    steps = [step for step in log if "genrm/reward" in step]
    assert [step["genrm/unscored"] for step in steps] == [0.0, 0.0]
    assert all(1 <= step["genrm/reward"] <= 5 and step["grad_norm"] > 0 for step in steps)


def test_a_group_split_over_two_processes_is_one_group(served, model_folder):
    """With two rows a process and four generations, both processes hold half of each group
    (gloo).
    """
    launcher = (
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
    )
    calls, _ = train(served, model_folder, *launcher, rows=2)
    assert Counter(call["rank"] for call in calls) == {0: 2, 1: 2}
    for step in zip(
        *([call for call in calls if call["rank"] == rank] for rank in (0, 1)), strict=True
    ):
        assert {id_ for call in step for id_ in call["ids"]} == {step[0]["ids"][0]}
        scored = [number for call in step for number in call["scored"]]
        assert len(scored) == 4
        assert all(1 <= number <= 5 for number in scored)
        assert len({round(number, 6) for number in scored}) > 1


def test_an_evaluation_is_the_share_of_wins_against_fixed_answers(
    genrm, judge_server, model_folder
):
    """With one sample of each prompt, `eval_reward` is a number: long answers are not beaten, and
    short ones are.
    """
    answers = {"Why?": "word " * 99, "How?": ".", "When?": "word " * 99, "Who?": "word " * 99}
    lines = [{"prompt": asked, "completion": text} for asked, text in answers.items()]
    genrm.write("answers.jsonl", lines)
    flags = [*judge_flags(judge_server.base_url), "--reference", "answers.jsonl"]
    with serving(genrm, *flags) as served:
        calls, log = train(served, model_folder, rows=4, flags=["--evaluate"])
    [evaluated] = [call for call in calls if len(set(call["ids"])) == 4]
    assert dict(zip(evaluated["ids"], evaluated["scored"], strict=True)) == {0: 0, 1: 1, 2: 0, 3: 0}
    assert [step["eval_reward"] for step in log if "eval_reward" in step] == [0.25]


class Trainer:
    """What a reward function sees of TRL's trainers: bound methods for logs."""

    def __init__(self, **settings):
        vars(self).update(settings)
        self.metrics = {}
        self.extra = {}

    def log_metric(self, name, value):
        """Keep a metric."""
        self.metrics[name] = value

    def log_extra(self, column, values):
        """Keep a column."""
        self.extra[column] = values

    def ask(self, reward, prompts, completions, **columns):
        """Call a reward function as TRL does."""
        given = {
            "log_metric": self.log_metric,
            "log_extra": self.log_extra,
            "trainer_state": None,
            **columns,
        }
        return asyncio.run(
            reward(prompts=prompts, completions=completions, completion_ids=[], **given)
        )


def test_an_unscored_completion_is_none(served):
    """Beside rows of other prompts, in any order, and with messages."""
    from genrm_cli.adapters.trl import GenrmReward

    short, long = texts(2, "trl-none")
    prompts = [
        [{"role": "user", "content": question}]
        for question in ("Why?", "How?", "Why?", "How?", "Why?")
    ]
    said = [short, long, "", short, long]
    completions = [[{"role": "assistant", "content": text}] for text in said]
    trainer = Trainer(scale_rewards="none")
    scored = trainer.ask(GenrmReward(), prompts, completions)
    assert scored[2] is None
    assert scored[0] < scored[4]
    assert scored[3] < scored[1]
    assert trainer.metrics["genrm/unscored"] == pytest.approx(0.2)
    assert trainer.extra["genrm_rank"] == [2, 1, None, 2, 1]
    assert {name: len(column) for name, column in trainer.extra.items()} == dict.fromkeys(
        ("genrm_rank", "genrm_standard_error", "genrm_judge"), 5
    )


def test_a_component_that_the_server_lacks_is_named(served):
    """The error says which components there are."""
    from genrm_cli.adapters.trl import GenrmReward

    trainer = Trainer(scale_rewards="group")
    with pytest.raises(ValueError, match="a component of the server: none"):
        trainer.ask(GenrmReward(returns="safety"), ["Why?"] * 2, texts(2, "trl-lacks"))


def test_advantages_are_returned_on_request(served):
    """Their mean in a group is 0; rewards are on the scale of the judge."""
    from genrm_cli.adapters.trl import GenrmReward

    given = texts(3, "trl-scale")
    trainer = Trainer(scale_rewards="none")
    assert sum(trainer.ask(GenrmReward(returns="advantages"), ["Why?"] * 3, given)) == (
        pytest.approx(0)
    )
    assert all(1 <= number <= 5 for number in trainer.ask(GenrmReward(), ["Why?"] * 3, given))


def test_the_words_of_the_judge_and_the_reference_answer(genrm, judge_server):
    """`log_extra` gets what the judge said of each completion; the column `reference` reaches the
    judge.

    The win rate against the answers of the server's file, which has one that the judge prefers
    less, is a metric."""
    from genrm_cli.adapters.trl import GenrmReward

    flags = (
        "--base-url",
        judge_server.base_url,
        "--model",
        "judge",
        "--profile",
        "nemotron-plain",
    )
    trainer = Trainer(scale_rewards="group")
    asked = {"reference": ["It scatters."] * 2}
    flags += (
        "--reference",
        genrm.write("answers.jsonl", [{"prompt": "Why?", "completion": "So."}]),
    )
    with serving(genrm, *flags, "--keep-replies", "--reference-field", "reference") as served:
        trainer.ask(GenrmReward(served.url), ["Why?"] * 2, texts(2, "trl-words"), **asked)
    assert [words.startswith("0 and 1: ") for words in trainer.extra["genrm_judge"]] == [True, True]
    assert "It scatters." in str(judge_server.stats()["recent"][-1])
    assert trainer.metrics["genrm/reference_win_percent"] == 100


def test_an_error_reaches_the_trainer():
    """A server that is gone stops the training instead of being None."""
    from genrm_cli.adapters.reward_client import RewardServerError
    from genrm_cli.adapters.trl import GenrmReward

    with pytest.raises(RewardServerError):
        asyncio.run(GenrmReward("http://127.0.0.1:9", try_for_s=0.1)(["Why?"] * 2, ["a", "b"]))


def test_async_grpo_scores_a_group(served):
    """The rollout loop of `AsyncGRPOTrainer` (trl 1.16.0) gives one group a call; None gets no
    advantage.
    """
    from accelerate import PartialState
    from trl.experimental.async_grpo.async_rollout_worker import (
        RolloutGroup,
        TrainingSequence,
        _AsyncRolloutLoop,
    )

    from genrm_cli.adapters.trl import GenrmReward

    PartialState()  # as in the spawned process
    reward = pickle.loads(pickle.dumps(GenrmReward()))
    loop = object.__new__(_AsyncRolloutLoop)
    loop.reward_funcs = [reward]
    loop.reward_func_names = ["genrm"]
    loop._env_reward_types = []
    given = [*texts(3, "async"), ""]
    group = RolloutGroup(
        prompts=[[{"role": "user", "content": "Why?"}]] * 4,
        reward_kwargs={},
        completions=[[{"role": "assistant", "content": text}] for text in given],
        completions_ids=[[1]] * 4,
        completions_sequences=[
            [TrainingSequence([1, 2], [0, 1], [0.0, -1.0], number)] for number in range(4)
        ],
        tool_call_counts=[0] * 4,
        tool_failure_counts=[0] * 4,
        model_version=0,
        group_id=0,
        env_rewards=[None] * 4,
        rollout_rewards=[None] * 4,
    )
    *scored, unscored = [sample.advantage for sample in asyncio.run(loop._score_group(group))]
    assert scored == sorted(scored)
    assert scored[0] < 0 < scored[2]
    assert unscored == 0


@pytest.mark.parametrize("worth", [True, None, False])
def test_noise_is_dropped_on_request(worth):
    """All completions of a group that is no more than chance get None, whose advantage is 0."""
    from genrm_cli.adapters.trl import GenrmReward

    responses = [
        {"id": str(number), "reward": 2.0 + number, "advantage": number - 0.5}
        for number in range(2)
    ]
    metrics = {"reference": None, "worth_training": worth, "component_means": {}}
    reply = {"responses": responses, "comparisons": [], "metrics": metrics}
    with answering((200, {}, reply)) as (url, _):
        reward = GenrmReward(url, returns="rewards", drop_noise=True)
        found = asyncio.run(reward(["Why?"] * 2, ["a", "b"]))
    assert found == ([None, None] if worth is False else [2.0, 3.0])
