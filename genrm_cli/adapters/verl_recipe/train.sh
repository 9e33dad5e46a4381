#!/usr/bin/env bash
# GRPO on comparisons; options after the name replace those here.
set -e
python -m verl.trainer.main_ppo \
    algorithm.adv_estimator=grpo \
    data.train_files=train.parquet data.val_files=validation.parquet \
    actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct \
    actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.n=8 \
    reward.reward_manager.source=importlib \
    reward.reward_manager.name=GenrmRewardManager \
    reward.reward_manager.module.path=pkg://genrm_cli.adapters.verl \
    +reward.genrm.url=http://localhost:8330 +reward.genrm.on_failure=mean "$@"
