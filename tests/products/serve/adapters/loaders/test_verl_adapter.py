"""verl's reward loop with our reward manager, against a live server."""

import asyncio
import math
import uuid
from functools import partial
from types import SimpleNamespace

import pytest
from served import texts

pytestmark = pytest.mark.loader("verl", "torch")

SIZE = 3
ASKED = [{"role": "user", "content": "Why?"}]


def make_batch(groups, version=0, extra=None, **columns):
    """Make a batch as verl (0.9.1) makes it after a rollout: padded ids, and a uid for each prompt;
    its texts.

    V0 numbers the rows (`priority`), V1 the samples of a prompt (`session_id`).
    """
    import numpy as np
    import torch
    from verl import DataProto

    rows = [(uid, text) for uid, given in groups.items() for text in given]
    ids = [[*text.encode()] for _, text in rows]
    width = max(map(len, ids))
    mask = [[1] * (2 + len(each)) + [0] * (width - len(each)) for each in ids]
    sessions = [number for given in groups.values() for number in range(len(given))]
    columns |= {"session_id": sessions} if version else {"priority": range(len(rows))}
    return DataProto.from_dict(
        tensors={
            "prompts": torch.ones(len(rows), 2, dtype=torch.long),
            "responses": torch.tensor([each + [0] * (width - len(each)) for each in ids]),
            "attention_mask": torch.tensor(mask),
        },
        non_tensors={
            "uid": np.array([uid for uid, _ in rows], dtype=object),
            "raw_prompt": np.array([*[ASKED] * len(rows), None], dtype=object)[:-1],
            "extra_info": np.array([dict(extra or {}) for _ in rows], dtype=object),
            **{name: np.array(values) for name, values in columns.items()},
        },
    )


CONFIG = """
actor_rollout_ref: {rollout: {n: 3, val_kwargs: {n: 1}}}
reward:
  custom_reward_function: {path: null, name: compute_score}
  sandbox_fusion: {url: null}
  reward_manager:
    source: importlib
    name: GenrmRewardManager
    module: {path: "pkg://genrm_cli.adapters.verl", name: genrm}
"""


def load_manager(url, **genrm):
    """Load the manager as verl (0.9.1) does from its configuration."""
    from omegaconf import OmegaConf
    from verl.trainer.ppo.reward import load_reward_manager

    config = OmegaConf.create(CONFIG)
    config.reward.genrm = {"url": url, **genrm}
    decoder = SimpleNamespace(decode=lambda ids, skip_special_tokens: bytes(ids.tolist()).decode())
    return load_reward_manager(config, decoder)


@pytest.fixture
def manager(served):
    """Load the manager with the address of the server."""
    return partial(load_manager, served.url)


def scores_of(manager, data):
    """Score each row of a batch on its own, all at once, as the workers do."""

    async def score_rows():
        rows = [manager.run_single(data[row : row + 1]) for row in range(len(data))]
        return await asyncio.gather(*rows)

    return manager.loop.run_until_complete(score_rows())


@pytest.mark.parametrize("renumbered", [False, True])
def test_samples_and_padding_copies(manager, renumbered):
    """Rows padded to a multiple of eight workers get their group's rewards, also where V0 numbers
    them after it; equal responses stay two members.
    """
    import numpy as np
    from verl.protocol import pad_dataproto_to_divisor

    given = texts(SIZE, "verl")
    data = make_batch({uuid.uuid4().hex: given, uuid.uuid4().hex: [given[0], given[2], given[0]]})
    padded, _ = pad_dataproto_to_divisor(data, 8)
    if renumbered:
        padded.non_tensor_batch["priority"] = np.arange(8)
    found = scores_of(manager(), padded)
    scores = [each["reward_score"] for each in found]
    assert scores[0] < scores[1] < scores[2]
    assert scores[4] > max(scores[3], scores[5])
    assert scores[6:] == scores[:2]
    assert {each["reward_extra_info"]["genrm_came"] for each in found} == {SIZE}
    placed = type(manager()).assemble_rm_scores(data, scores[: len(data)])
    assert placed.sum(dim=1).tolist() == pytest.approx(scores[: len(data)])


def test_a_sample_without_a_reward_is_an_error(manager):
    """verl takes numbers only; with `on_failure` it gets one (`test_through_faults.py`)."""
    from genrm_cli.adapters.reward_client import MissingRewardError

    with pytest.raises(MissingRewardError):
        scores_of(manager(), make_batch({uuid.uuid4().hex: [*texts(2, "verl-none"), ""]}))


@pytest.mark.parametrize(
    ("on_failure", "expected"), [("mean", math.nan), (None, math.nan), (-1.0, -1.0)]
)
def test_validation_with_one_sample_a_prompt(manager, on_failure, expected):
    """The default, `val_kwargs.n=1`: no wait and no error, and copies that V0 pads the batch with
    are no surplus.
    """
    data = make_batch({uuid.uuid4().hex: texts(2, "verl-val")}, extra={"split": "test"})
    found = scores_of(manager(on_failure=on_failure), data)
    scores = [each["reward_score"] for each in found]
    assert scores == pytest.approx([expected] * 2, nan_ok=True)
    assert [each["reward_extra_info"]["genrm_scored"] for each in found] == [0.0, 0.0]


def test_validation_is_the_share_of_wins_against_fixed_answers(serve, genrm):
    """`validation=reference` makes of `val_kwargs.n=1` a number that is comparable over steps, and
    all that verl reports of it is one.
    """
    from verl.trainer.ppo.metric_utils import process_validation_metrics

    short, middle, long = texts(3, "verl-reference")
    genrm.write("answers.jsonl", [{"prompt": "Why?", "completion": middle}])
    data = make_batch({text: [text] for text in (long, short, middle)}, extra={"split": "test"})
    with serve("--reference answers.jsonl") as served:
        found = scores_of(load_manager(served.url, validation="reference"), data)
    assert [each["reward_score"] for each in found] == [1.0, 0.0, 0.5]
    names = found[0]["reward_extra_info"]
    columns = {name: [each["reward_extra_info"][name] for each in found] for name in names}
    metrics = process_validation_metrics(["questions"] * 3, ["a", "b", "c"], columns)["questions"]
    assert metrics["score"]["mean@1"] == 0.5
    assert not any(math.isnan(number) for each in metrics.values() for number in each.values())


def score_sessions(manager, sessions):
    """Score the outputs of each session of one prompt through verl's own code; results in order.

    `AgentLoopWorker._compute_score` (verl 0.9.1) makes the rows that a reward worker gets: prompts
    and responses of several outputs are padded, and a single output is not.
    """
    import torch
    from verl.experimental.agent_loop.agent_loop import AgentLoopOutput, AgentLoopWorker

    remote = SimpleNamespace(remote=manager.run_single)
    worker = SimpleNamespace(
        reward_loop_worker_handles=[SimpleNamespace(compute_score=remote)],
        _compute_multi_modal_inputs=lambda *_: {},
        _get_mm_processor_kwargs=lambda *_: None,
        _compute_position_ids=lambda ids, *_: torch.zeros_like(ids),
    )
    about = {"uid": uuid.uuid4().hex, "raw_prompt": ASKED, "extra_info": {}}

    def output(prompt_tokens, text):
        ids = [*text.encode()]
        return AgentLoopOutput(
            prompt_ids=[7] * prompt_tokens,
            response_ids=ids,
            response_mask=[1] * len(ids),
            num_turns=2,
            metrics={},
        )

    async def score(number, session):
        outputs = [output(*each) for each in session]
        row = {**about, "session_id": number}
        await AgentLoopWorker._compute_score(worker, outputs, row)
        return outputs[-1].reward_score

    async def score_all():
        return await asyncio.gather(*(score(*each) for each in enumerate(sessions)))

    return manager.loop.run_until_complete(score_all())


def test_the_judge_sees_the_last_output_of_a_session(manager, judge_server):
    """Neither a longer prompt nor a longer response of an earlier output cuts it or pads it. One
    without tokens, which V1 sends when a generation is aborted, takes no sibling with it.
    """
    short, long = texts(2, "verl-outputs")
    sessions = [[(60, "sub-agent"), (5, short)], [(5, "x" * 4_000), (10, long)], [(5, "")]]
    scores = score_sessions(manager(on_failure="mean"), sessions)
    assert scores[0] < scores[1]
    assert scores[2] == pytest.approx((scores[0] + scores[1]) / 2)
    shown = str(judge_server.stats()["recent"])
    assert long in shown
    assert not any(each in shown for each in ("sub-agent", "xxxx", "\\x00"))


def test_a_prompt_may_have_its_own_number_of_samples(manager):
    """`__rollout_n__` of a row; V1 drops that column, so `extra_info` may repeat it."""
    few = texts(2, "verl-n")
    for given in ({"__rollout_n__": [2, 2]}, {"extra": {"__rollout_n__": 2}}):
        found = scores_of(manager(), make_batch({uuid.uuid4().hex: few}, version=1, **given))
        assert found[0]["reward_score"] < found[1]["reward_score"]
        assert [each["reward_extra_info"]["genrm_came"] for each in found] == [2, 2]


def test_copies_that_v0_generates_anew_are_refused_with_a_remedy(served):
    """They have the numbers of their originals, and other texts; verl gives a row nothing that
    tells them apart.
    """
    import numpy as np

    from genrm_cli.adapters.reward_client import RewardServerError

    given = texts(2, "verl-anew")
    data = make_batch(
        {uuid.uuid4().hex: [*given, given[0] + " again"]},
        extra={"split": "test", "__rollout_n__": 2},
    )
    data.non_tensor_batch["priority"] = np.arange(3)
    with pytest.raises(RewardServerError, match="came before with another content") as raised:
        scores_of(load_manager(served.url), data)
    assert "agent.num_workers" in str(raised.value.__notes__)


def test_a_uid_that_recurs_in_another_job_is_another_group(manager):
    """Fully asynchronous training names its groups by epoch and step; a resumed job uses the same
    names.
    """
    import ray

    for job in range(2):
        ray.init(num_cpus=1, include_dashboard=False, logging_level="ERROR")
        try:
            data = make_batch({"uid_sample_0_1": texts(SIZE, f"verl-job-{job}")}, version=1)
            scores = [each["reward_score"] for each in scores_of(manager(), data)]
        finally:
            ray.shutdown()
        assert scores[0] < scores[1] < scores[2]
