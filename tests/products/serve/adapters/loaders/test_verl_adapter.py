"""verl's reward loop with our reward manager, against a live server."""

import asyncio
import math
import uuid
from functools import partial
from types import SimpleNamespace

import pytest
from served import judge_flags, serving, texts

pytestmark = [
    pytest.mark.slow,
    pytest.mark.loader("verl", "torch"),
    pytest.mark.filterwarnings("default"),
    pytest.mark.timeout(900),
]

SIZE = 3


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
    asked = [[{"role": "user", "content": "Why?"}] for _ in rows]
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
            "raw_prompt": np.array([*asked, None], dtype=object)[:-1],
            "extra_info": np.array([dict(extra or {}) for _ in rows], dtype=object),
            **{name: np.array(values) for name, values in columns.items()},
        },
    )


def load_manager(url, **genrm):
    """Load the manager as verl (0.9.1) does from its configuration."""
    from omegaconf import OmegaConf
    from verl.trainer.ppo.reward import load_reward_manager

    settings = {
        "actor_rollout_ref": {
            "rollout": {
                "n": SIZE,
                "val_kwargs": {"n": 1},
            }
        },
        "reward": {
            "custom_reward_function": {"path": None, "name": "compute_score"},
            "sandbox_fusion": {"url": None},
            "reward_manager": {
                "source": "importlib",
                "name": "GenrmRewardManager",
                "module": {"path": "pkg://genrm_cli.adapters.verl", "name": "genrm"},
            },
            "genrm": {"url": url, **genrm},
        },
    }
    decoder = SimpleNamespace(decode=lambda ids, skip_special_tokens: bytes(ids.tolist()).decode())
    return load_reward_manager(OmegaConf.create(settings), decoder)


@pytest.fixture
def manager(served):
    """Load the manager with the address of the server."""
    return partial(load_manager, served.url)


async def score_rows(manager, data):
    """Score each row on its own, all at once, as the workers do."""
    return await asyncio.gather(
        *(manager.run_single(data[row : row + 1]) for row in range(len(data)))
    )


def scores_of(manager, data):
    """Score the rows of a batch."""
    return manager.loop.run_until_complete(score_rows(manager, data))


def test_samples_and_padding_copies(manager):
    """Rows padded to a multiple of eight workers get their group's rewards; equal responses stay
    two members.
    """
    from verl.protocol import pad_dataproto_to_divisor

    one = uuid.uuid4().hex
    other = uuid.uuid4().hex
    given = texts(3, "verl")
    data = make_batch(
        {
            one: given,
            other: [given[0], given[2], given[0]],
        }
    )
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


def test_a_sample_without_a_reward(manager):
    """It is an error, because verl takes numbers only, unless the user gives one."""
    from genrm_cli.adapters.reward_client import MissingRewardError

    short, long = texts(2, "verl-none")
    with pytest.raises(MissingRewardError):
        scores_of(manager(), make_batch({uuid.uuid4().hex: [short, "", long]}))
    found = scores_of(manager(on_failure="mean"), make_batch({uuid.uuid4().hex: [short, "", long]}))
    scores = [each["reward_score"] for each in found]
    assert scores[1] == pytest.approx((scores[0] + scores[2]) / 2)
    assert [each["reward_extra_info"]["genrm_scored"] for each in found] == [1.0, 0.0, 1.0]


@pytest.mark.parametrize("given", [{"on_failure": "mean"}, {}, {"on_failure": -1.0}])
def test_validation_with_one_sample_a_prompt(manager, given):
    """The default, `val_kwargs.n=1`: no wait and no error, and copies that V0 pads the batch with
    are no surplus.
    """
    uid = uuid.uuid4().hex
    (text,) = texts(1, "verl-val")
    found = scores_of(
        manager(**given), make_batch({uid: [text, text + " again"]}, extra={"split": "test"})
    )
    expected = (
        given["on_failure"]
        if given.get("on_failure") == -1.0
        else pytest.approx(float("nan"), nan_ok=True)
    )
    assert [each["reward_score"] for each in found] == [expected] * 2
    assert [each["reward_extra_info"]["genrm_scored"] for each in found] == [0.0, 0.0]


def validate(manager, said):
    """Run verl's own loop of validation over these responses to prompts; its metrics."""
    import numpy as np
    import torch
    from omegaconf import OmegaConf
    from verl import DataProto
    from verl.trainer.ppo.ray_trainer import RayPPOTrainer

    rows = make_batch({asked: [text] for asked, text in said.items()}, extra={"split": "test"})
    rows.non_tensor_batch["raw_prompt"][:] = [[{"role": "user", "content": each}] for each in said]

    def generate_sequences(batch):
        made = DataProto.concat([rows, rows[: len(batch) - len(rows)]])  # padding, as in `batch`
        found = scores_of(manager, made)
        output = DataProto(batch=made.batch, meta_info={})
        scores = [each["reward_score"] for each in found]
        output.batch["rm_scores"] = type(manager).assemble_rm_scores(made, scores)
        extra = {
            name: [each["reward_extra_info"][name] for each in found]
            for name in found[0]["reward_extra_info"]
        }
        output.non_tensor_batch = {name: np.array(values) for name, values in extra.items()}
        output.meta_info["reward_extra_keys"] = [*extra]
        return output

    trainer = object.__new__(RayPPOTrainer)
    rollout = {"val_kwargs": {"n": 1, "do_sample": True}, "agent": {"num_workers": 8}}
    vars(trainer).update(
        config=OmegaConf.create({"actor_rollout_ref": {"rollout": rollout}, "trainer": {}}),
        tokenizer=SimpleNamespace(decode=lambda *_, **__: "", eos_token_id=0, pad_token_id=0),
        val_dataloader=[
            {
                "dummy_tensor": torch.zeros(len(said), 1),
                "uid": rows.non_tensor_batch["uid"],
                "data_source": np.array(["questions"] * len(said), dtype=object),
            }
        ],
        async_rollout_manager=SimpleNamespace(generate_sequences=generate_sequences),
        use_rm=False,
        global_steps=1,
        _maybe_log_val_generations=lambda **_: None,
    )
    return trainer._validate()


def test_validation_is_the_share_of_wins_against_fixed_answers(genrm, judge_server):
    """`validation=reference` makes of `val_kwargs.n=1` a number that is comparable over steps."""
    short, middle, long = texts(3, "verl-reference")
    said = {"Why?": long, "How?": short, "When?": middle, "Who?": long}
    lines = [{"prompt": asked, "completion": middle} for asked in said]
    genrm.write("answers.jsonl", lines)
    flags = [*judge_flags(judge_server.base_url), "--reference", "answers.jsonl"]
    with serving(genrm, *flags) as served:
        metrics = validate(load_manager(served.url, validation="reference"), said)
    assert metrics["val-core/questions/reward/mean@1"] == 0.625
    assert not any(math.isnan(number) for number in metrics.values()), metrics


async def score_sessions(manager, sessions):
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
    uid = uuid.uuid4().hex
    messages = [{"role": "user", "content": "Why?"}]
    made = [
        [
            AgentLoopOutput(
                prompt_ids=[7] * prompt_tokens,
                response_ids=[*text.encode()],
                response_mask=[1] * len(text.encode()),
                num_turns=2,
                metrics={},
            )
            for prompt_tokens, text in outputs
        ]
        for outputs in sessions
    ]

    async def score(number, outputs):
        row = {"uid": uid, "session_id": number, "raw_prompt": messages, "extra_info": {}}
        await AgentLoopWorker._compute_score(worker, outputs, row)
        return outputs[-1].reward_score

    return await asyncio.gather(*(score(number, outputs) for number, outputs in enumerate(made)))


def test_a_response_without_tokens_takes_no_sibling_with_it(manager):
    """V1 sends such a row when a generation is aborted; it gets what `on_failure` says, and the
    others are judged at once.
    """
    short, long = texts(2, "verl-empty")
    made = manager(on_failure="mean")
    sessions = [[(5, text)] for text in (short, "", long)]
    scores = made.loop.run_until_complete(score_sessions(made, sessions))
    assert scores[0] < scores[2]
    assert scores[1] == pytest.approx((scores[0] + scores[2]) / 2)


def test_the_judge_sees_the_last_output_of_a_session(manager, judge_server):
    """Neither a longer prompt nor a longer response of an earlier output cuts it or pads it."""
    short, middle, long = texts(3, "verl-outputs")
    made = manager()
    sessions = [
        [(60, "sub-agent"), (5, short)],
        [(5, "x" * 4_000), (10, middle)],
        [(5, long)],
    ]
    scores = made.loop.run_until_complete(score_sessions(made, sessions))
    assert scores[0] < scores[1] < scores[2]
    shown = [str(request) for request in judge_server.stats()["recent"]]
    assert shown
    assert not any("sub-agent" in each or "xxxx" in each or "\\x00" in each for each in shown)


def test_a_prompt_may_have_its_own_number_of_samples(manager):
    """`__rollout_n__` of a row; V1 drops that column, so `extra_info` may repeat it."""
    few = texts(2, "verl-n")
    for given in ({"__rollout_n__": [2, 2]}, {"extra": {"__rollout_n__": 2}}):
        found = scores_of(manager(), make_batch({uuid.uuid4().hex: few}, version=1, **given))
        assert found[0]["reward_score"] < found[1]["reward_score"]
        assert [each["reward_extra_info"]["genrm_came"] for each in found] == [2, 2]


def test_padding_of_v0_has_the_numbers_of_its_originals(manager):
    """V0 numbers the rows of a validation batch after padding it; `val_kwargs.n` samples are a
    group.
    """
    import numpy as np

    data = make_batch({uuid.uuid4().hex: texts(SIZE, f"verl-pad-{number}") for number in range(2)})
    rows = [*range(len(data)), 0, 1]  # as `pad_dataproto_to_divisor`
    padded = data[rows]
    padded.non_tensor_batch["priority"] = np.arange(len(rows))
    scores = [each["reward_score"] for each in scores_of(manager(), padded)]
    assert scores[6:] == scores[:2]
    assert scores[0] < scores[1] < scores[2]


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

    found = []
    for job in range(2):
        ray.init(num_cpus=1, include_dashboard=False, logging_level="ERROR")
        try:
            data = make_batch({"uid_sample_0_1": texts(SIZE, f"verl-job-{job}")}, version=1)
            found.append([each["reward_score"] for each in scores_of(manager(), data)])
        finally:
            ray.shutdown()
    assert all(scores[0] < scores[1] < scores[2] for scores in found)
