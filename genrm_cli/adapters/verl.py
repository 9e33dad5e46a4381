"""A reward manager for verl."""

import hashlib
from typing import Any

from verl import DataProto
from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase

from genrm_cli.adapters.reward_client import Json, RewardClient, number_in, parse_on_failure


class GenrmRewardManager(RewardManagerBase):  # type: ignore[misc]
    """Scores each sample against the others of its prompt, which other workers may hold.

    Settings: `+reward.genrm.url=...`, `+reward.genrm.on_failure=...` and others of `RewardClient`. verl requires a
    number for every sample, so one without a reward is an error unless `on_failure` is set.
    """

    def __init__(self, config: Any, tokenizer: Any, compute_score: Any = None, **_: Any) -> None:
        super().__init__(config, tokenizer, compute_score)
        settings = dict(config.reward.get("genrm") or {})
        self._on_failure = parse_on_failure(settings.pop("on_failure", None))
        self._client = RewardClient(**settings)
        self._size = int(config.actor_rollout_ref.rollout.n)

    async def run_single(self, data: DataProto) -> Json:
        """Wait for the cohort of a sample, and return its reward."""
        sample = data[-1]
        fields = sample.non_tensor_batch
        ids = sample.batch["responses"]
        shown = ids[sample.batch["attention_mask"][-len(ids) :].bool()]
        text = await self.loop.run_in_executor(None, lambda: self.tokenizer.decode(shown, skip_special_tokens=True))
        extra = fields.get("extra_info") or {}
        # verl's number of a sample is the same for copies that pad a batch; without it, equal responses count as one.
        member_id = hashlib.sha256(str(shown.tolist()).encode()).hexdigest()[:32]
        if "priority" in fields:
            member_id = str(int(fields["priority"]))
        reply = await self._client.score_member(
            str(fields["uid"]),
            member_id,
            self._size,
            [dict(message) for message in fields["raw_prompt"]],
            text,
            principle=extra.get("principle"),
        )
        number = number_in(reply, reply["metrics"], self._on_failure)
        shown_in_logs = {"genrm_scored": float(reply["reward"] is not None), "genrm_came": reply["metrics"]["came"]}
        return {"reward_score": number, "reward_extra_info": {"score": number, **shown_in_logs}}
