"""TRL's reward function on a live server, called as trl 1.16.0 calls it; `test_trl_training.py`
trains.
"""

import asyncio
import pickle

import pytest
from served import serving, texts
from small_server import answering

pytestmark = pytest.mark.loader("trl", "datasets")


def ask(completions, prompts=None, url=None, columns=None, **options):
    """Call a reward function as a trainer does; what it returns, and the metrics and columns that
    it logs.
    """
    from genrm_cli.adapters.trl import GenrmReward

    metrics = {}
    extra = {}
    asked = GenrmReward(url, **options)(
        prompts=prompts or ["Why?"] * len(completions),
        completions=completions,
        completion_ids=[],
        log_metric=metrics.__setitem__,
        log_extra=extra.__setitem__,
        trainer_state=None,
        **(columns or {}),
    )
    return asyncio.run(asked), metrics, extra


def test_an_unscored_completion_is_none(served):
    """Beside rows of other prompts, in any order, and with messages."""
    short, long = texts(2, "trl-none")
    said = [("Why?", short), ("How?", long), ("Why?", ""), ("How?", short), ("Why?", long)]
    prompts = [[{"role": "user", "content": question}] for question, _ in said]
    completions = [[{"role": "assistant", "content": text}] for _, text in said]
    scored, metrics, extra = ask(completions, prompts)
    assert scored[2] is None
    assert scored[0] < scored[4]
    assert scored[3] < scored[1]
    assert metrics["genrm/unscored"] == pytest.approx(0.2)
    assert extra["genrm_rank"] == [2, 1, None, 2, 1]
    columns = ("genrm_rank", "genrm_standard_error", "genrm_judge")
    assert {name: len(column) for name, column in extra.items()} == dict.fromkeys(columns, 5)


def test_a_component_that_the_server_lacks_is_named(served):
    """The error says which components there are."""
    with pytest.raises(ValueError, match="a component of the server: none"):
        ask(texts(2, "trl-lacks"), returns="safety")


def test_advantages_are_returned_on_request(served):
    """Their mean in a group is 0; rewards are on the scale of the judge."""
    given = texts(3, "trl-scale")
    advantages, *_ = ask(given, returns="advantages")
    assert sum(advantages) == pytest.approx(0)
    rewards, *_ = ask(given)
    assert all(1 <= number <= 5 for number in rewards)


def test_the_words_of_the_judge_and_the_reference_answer(genrm, judge_server):
    """`log_extra` gets what the judge said of each completion; the column `reference` reaches the
    judge.

    The win rate against the answers of the server's file, which has one that the judge prefers
    less, is a metric. Rows of an evaluation (`genrm_as`) are compared with that answer only: even a
    single one has a number."""
    genrm.write("answers.jsonl", [{"prompt": "Why?", "completion": "So."}])
    flags = (*judge_server.flags, "--profile", "nemotron-plain", "--reference", "answers.jsonl")
    with serving(genrm, *flags, "--keep-replies", "--reference-field", "reference") as served:
        reference = {"reference": ["It scatters."] * 2}
        _, metrics, extra = ask(texts(2, "trl-words"), url=served.url, columns=reference)
        evaluated = {"genrm_as": ["reference"]}
        shares = [ask([text], url=served.url, columns=evaluated)[0] for text in ("So it is.", ".")]
    assert [words.startswith("0 and 1: ") for words in extra["genrm_judge"]] == [True, True]
    assert "It scatters." in str(judge_server.stats()["recent"])
    assert metrics["genrm/reference_win_percent"] == 100
    assert shares == [[1.0], [0.0]]


def test_an_error_reaches_the_trainer():
    """A server that is gone stops the training instead of being None."""
    from genrm_cli.adapters.reward_client import RewardServerError

    with pytest.raises(RewardServerError):
        ask(["a", "b"], url="http://127.0.0.1:9", try_for_s=0.1)


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
    nothing = [None] * 4
    group = RolloutGroup(
        prompts=[[{"role": "user", "content": "Why?"}]] * 4,
        reward_kwargs={},
        completions=[[{"role": "assistant", "content": text}] for text in given],
        completions_ids=[[1]] * 4,
        completions_sequences=[
            [TrainingSequence([1, 2], [0, 1], [0.0, -1.0], n)] for n in range(4)
        ],
        tool_call_counts=[0] * 4,
        tool_failure_counts=[0] * 4,
        model_version=0,
        group_id=0,
        env_rewards=nothing,
        rollout_rewards=nothing,
    )
    *scored, unscored = [sample.advantage for sample in asyncio.run(loop._score_group(group))]
    assert scored == sorted(scored)
    assert scored[0] < 0 < scored[2]
    assert unscored == 0


RESPONSES = [
    {"id": "a", "reward": 2.0, "rank": 2, "components": {"rank": 0.0}},
    {"id": "b", "reward": 3.0, "rank": 1, "components": {"rank": 1.0}},
]


@pytest.mark.parametrize(
    ("options", "worth", "returned"),
    [
        ({"drop_noise": True}, True, [2.0, 3.0]),
        ({"drop_noise": True}, None, [2.0, 3.0]),
        ({"drop_noise": True}, False, [None, None]),
        ({"returns": "rank"}, True, [0.0, 1.0]),
    ],
)
def test_what_is_returned_of_a_reply(options, worth, returned):
    """Noise is dropped on request: all completions of a group that is no more than chance get None,
    whose advantage is 0. A component is returned by its own name, also where we have that name.
    """
    means = {"rank": 0.5}
    metrics = {"reference": None, "worth_training": worth, "component_means": means}
    reply = {"responses": RESPONSES, "comparisons": [], "metrics": metrics}
    with answering((200, {}, reply)) as (url, _):
        found, *_ = ask(["a", "b"], url=url, **options)
    assert found == returned


def test_advantages_have_no_replacement():
    """It fails when it is constructed, before the policy is asked for anything."""
    with pytest.raises(ValueError, match="on_failure is a reward"):
        ask([], returns="advantages", on_failure=0.0)
