"""A reward manager for verl.

Source: verl 0.9.1, `trainer/ppo/v1/agent_loop_tq.py` (`_run_prompt`: V1, the default),
`trainer/ppo/ray_trainer.py` (`_validate`: V0) and `experimental/agent_loop/agent_loop.py`
(`_compute_score`, which gives a row to one of the reward workers)."""

import hashlib
import math
from typing import Any

import ray
from verl import DataProto
from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase

from genrm_cli.adapters.reward_client import (
    Json,
    MissingRewardError,
    RewardClient,
    RewardServerError,
)


class GenrmRewardManager(RewardManagerBase):  # type: ignore[misc]
    """Scores each sample against the others of its prompt, which other workers may hold.

    Settings: `+reward.genrm.url=...`, `+reward.genrm.on_failure=...` and others of `RewardClient`;
    `+reward.genrm.fields=[task_type]` names fields of `extra_info` that the server reads.
    With `+reward.genrm.validation=reference`, samples of validation are compared only with the
    answers in the server's `--reference` file.
    verl requires a number for every sample, so one without a reward is an error unless `on_failure`
    is set; in validation it is NaN."""

    def __init__(self, config: Any, tokenizer: Any, compute_score: Any = None, **_: Any) -> None:
        super().__init__(config, tokenizer, compute_score)
        given = dict(config.reward.get("genrm") or {})
        self._fields = given.pop("fields", ())
        validation = given.pop("validation", None)
        if validation not in (None, "reference"):
            raise ValueError(f"validation is {validation!r}; expected reference")
        self._evaluates = validation == "reference"
        self._client = RewardClient(**given)
        rollout = config.actor_rollout_ref.rollout
        self._size = int(rollout.n)
        self._size_in_validation = int((rollout.get("val_kwargs") or {}).get("n", 1))

    async def run_single(self, data: DataProto) -> Json:
        """Wait for the cohort of a sample, and return its reward."""
        sample = data[-1]  # the last output of a session; the judge sees this one
        fields = sample.non_tensor_batch
        shown = _response_of(sample)
        extra = fields.get("extra_info") or {}
        # verl does not say which samples are of validation; its own data sets name their split.
        validates = extra.get("split", "train") != "train"
        # V1 removes this column before a reward manager sees it.
        size = fields.get("__rollout_n__", extra.get("__rollout_n__"))
        if size is None:
            size = self._size_in_validation if validates else self._size
        size = int(size)
        truth = (fields.get("reward_model") or {}).get("ground_truth")
        text = None  # without a token, not even one that ends it: a generation was aborted
        if len(shown):
            text = await self.loop.run_in_executor(
                None, lambda: self.tokenizer.decode(shown, skip_special_tokens=True)
            )
        messages = [dict(message) for message in fields["raw_prompt"]]
        about: Json = {
            "principle": extra.get("principle"),
            "reference": truth if isinstance(truth, str) else None,
            "record": {name: extra.get(name) for name in self._fields},
        }
        if validates and self._evaluates:
            group = await self._client.score_group(messages, [text], evaluates=True, **about)
            reply = {**group["responses"][0], "metrics": group["metrics"]}
        elif size > 1:
            try:
                reply = await self._client.score_member(
                    f"{_run_id()}{fields['uid']}",
                    _member_id(fields, size, shown.tolist()),
                    size,
                    messages,
                    text,
                    **about,
                )
            except RewardServerError as error:
                if validates and "priority" in fields:
                    error.add_note(
                        "V0 pads a batch with new copies; agent.num_workers should divide its "
                        "size, or use V1"
                    )
                raise
        else:  # nothing to compare; copies that pad a batch would be surplus members
            alone = {
                "id": str(fields["uid"]),
                "reward": None,
                "reason_text": "its group has no other sample",
            }
            nobody = dict.fromkeys(
                (
                    "reward_mean",
                    "reward_mean_before",
                    "reward_min",
                    "unanswered",
                    "worth_training",
                )
            )
            reply = {**alone, "metrics": {"came": 1, "component_means": {}, **nobody}}
        try:
            number = self._client.number_in(reply, reply["metrics"])
        except MissingRewardError:
            if not validates:
                raise
            number = math.nan
        is_noise = reply["metrics"]["worth_training"] is False
        # What GDPO keeps apart, for `algorithm.gdpo_reward_keys`. The server refuses components
        # with the names below.
        components = self._client.components_in(reply, reply["metrics"])
        shown_in_logs = {f"genrm_{name}": value for name, value in components.items()}
        shown_in_logs |= {
            "genrm_scored": float(reply["reward"] is not None),
            "genrm_came": reply["metrics"]["came"],
            # verl drops groups in which the metric of its filter is the same for all.
            "genrm_signal": 0.0 if is_noise else number,
        }
        return {"reward_score": number, "reward_extra_info": {"score": number, **shown_in_logs}}


def _response_of(sample: Any) -> Any:
    """Return the tokens of a response.

    The outputs of a session are padded column by column, so the mask of a row does not show where
    its response begins: `response_len` says how long it is. Rows without it are those of V0, whose
    prompts have one width.
    """
    length = sample.non_tensor_batch.get("response_len")
    if length is None:
        width = len(sample.batch["prompts"])
        length = sample.batch["attention_mask"][width:].sum()
    return sample.batch["responses"][: int(length)]


def _member_id(fields: Any, size: int, tokens: list[int]) -> str:
    """Return the number of a sample in its group, 0 to size - 1: copies that pad a batch have that
    of their original.

    V1 numbers the samples of a prompt. V0 numbers the rows of a padded batch; those of a prompt
    follow each other, and padding begins with the first again. Without either, equal responses
    count as one."""
    if "session_id" in fields:
        return str(int(fields["session_id"]))
    if "priority" in fields:
        return str(int(fields["priority"]) % size)
    return hashlib.sha256(str(tokens).encode()).hexdigest()[:32]


def _run_id() -> str:
    """Return what tells this job from others: after a resume, and in fully asynchronous training,
    uids recur.

    All workers of a job have the same namespace, which is random unless the user names one.
    """
    if not ray.is_initialized():
        return ""
    context = ray.get_runtime_context()
    return f"{context.namespace}-{context.get_job_id()}-"
