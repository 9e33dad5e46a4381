"""What verl's data set class makes of our export."""

import pytest
from trainer_sample import PLAIN, WITH_TOOLS

TASKS = [*PLAIN, WITH_TOOLS]


@pytest.mark.loader("verl", "datasets")
@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_verl(export, tokenizer, render, tmp_path, suffix):
    """`RLHFDataset` and its collator (verl 0.9.1) keep every prompt, its number and its earlier
    rewards.
    """
    from omegaconf import OmegaConf
    from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn

    config = OmegaConf.create(
        {"prompt_key": "prompt", "max_prompt_length": 4096, "cache_dir": str(tmp_path / "cache")}
    )
    dataset = RLHFDataset(str(export("verl", TASKS, suffix=suffix)), tokenizer, config)
    batch = collate_fn([dataset[number] for number in range(len(dataset))])
    assert [render(prompt) for prompt in batch["raw_prompt"]] == [
        render(task.prompt) for task in TASKS
    ]
    assert list(batch["index"]) == list(range(len(TASKS)))
    assert [info["offline_rewards"] for info in batch["extra_info"]] == [[5.0, 3.0, 1.0]] * len(
        TASKS
    )
    assert [row["ground_truth"] for row in batch["reward_model"]] == [""] * len(TASKS)
