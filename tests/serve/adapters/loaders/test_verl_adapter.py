"""verl's reward loop with our reward manager, against a live server."""

import asyncio
import uuid
from types import SimpleNamespace

import pytest
from served import texts

pytestmark = [
    pytest.mark.slow,
    pytest.mark.loader("verl", "torch"),
    pytest.mark.filterwarnings("default"),
    pytest.mark.timeout(900),
]

SIZE = 3


@pytest.fixture
def batch():
    """Make a batch as verl (0.9.1) makes it after a rollout: padded ids, and a uid for each prompt; its texts."""
    import numpy as np
    import torch
    from verl import DataProto

    def make(groups):
        rows = [(uid, text) for uid, given in groups.items() for text in given]
        ids = [[*text.encode()] for _, text in rows]
        width = max(map(len, ids))
        mask = [[1] * (2 + len(each)) + [0] * (width - len(each)) for each in ids]
        return DataProto.from_dict(
            tensors={
                "prompts": torch.ones(len(rows), 2, dtype=torch.long),
                "responses": torch.tensor([each + [0] * (width - len(each)) for each in ids]),
                "attention_mask": torch.tensor(mask),
            },
            non_tensors={
                "uid": np.array([uid for uid, _ in rows], dtype=object),
                "raw_prompt": np.array([[{"role": "user", "content": "Why?"}] for _ in rows] + [None], dtype=object)[
                    :-1
                ],
                "priority": np.arange(len(rows)),
                "extra_info": np.array([{} for _ in rows], dtype=object),
            },
        )

    return make


@pytest.fixture
def manager(served):
    """Load the manager as verl (0.9.1) does from its configuration."""
    from omegaconf import OmegaConf
    from verl.trainer.ppo.reward import load_reward_manager

    def load(**genrm):
        settings = {
            "actor_rollout_ref": {"rollout": {"n": SIZE}},
            "reward": {
                "custom_reward_function": {"path": None, "name": "compute_score"},
                "sandbox_fusion": {"url": None},
                "reward_manager": {
                    "source": "importlib",
                    "name": "GenrmRewardManager",
                    "module": {"path": "pkg://genrm_cli.adapters.verl", "name": "genrm"},
                },
                "genrm": {"url": served.url, **genrm},
            },
        }
        decoder = SimpleNamespace(decode=lambda ids, skip_special_tokens: bytes(ids.tolist()).decode())
        return load_reward_manager(OmegaConf.create(settings), decoder)

    return load


def scores_of(manager, data):
    """Score each row on its own, all at once, as the workers do."""

    async def run():
        return await asyncio.gather(*(manager.run_single(data[row : row + 1]) for row in range(len(data))))

    return manager.loop.run_until_complete(run())


def test_samples_and_padding_copies(manager, batch):
    """Rows padded to a multiple of eight workers get their group's rewards; equal responses stay two members."""
    from verl.protocol import pad_dataproto_to_divisor

    one, other = uuid.uuid4().hex, uuid.uuid4().hex
    given = texts(3, "verl")
    data = batch({one: given, other: [given[0], given[2], given[0]]})
    padded, added = pad_dataproto_to_divisor(data, 8)
    assert added == 2
    found = scores_of(manager(), padded)
    scores = [each["reward_score"] for each in found]
    assert scores[0] < scores[1] < scores[2]
    assert scores[4] > max(scores[3], scores[5])
    assert scores[6:] == scores[:2]
    assert {each["reward_extra_info"]["genrm_came"] for each in found} == {SIZE}
    placed = type(manager()).assemble_rm_scores(data, scores[: len(data)])
    assert placed.sum(dim=1).tolist() == pytest.approx(scores[: len(data)])


def test_a_sample_without_a_reward(manager, batch):
    """It is an error, because verl takes numbers only, unless the user gives one."""
    from genrm_cli.adapters.reward_client import MissingRewardError

    short, long = texts(2, "verl-none")
    with pytest.raises(MissingRewardError):
        scores_of(manager(), batch({uuid.uuid4().hex: [short, "", long]}))
    found = scores_of(manager(on_failure="mean"), batch({uuid.uuid4().hex: [short, "", long]}))
    scores = [each["reward_score"] for each in found]
    assert scores[1] == pytest.approx((scores[0] + scores[2]) / 2)
    assert [each["reward_extra_info"]["genrm_scored"] for each in found] == [1.0, 0.0, 1.0]
