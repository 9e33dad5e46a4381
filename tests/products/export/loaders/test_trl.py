"""What TRL's trainers make of our exports: their own preparation, and one step of training on
it.
"""

import re
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from trainer_sample import PLAIN, WITH_TOOLS, Task, says

import genrm_cli

pytestmark = pytest.mark.loader("trl", "datasets")

TASKS = [*PLAIN, WITH_TOOLS]
BY_SUFFIX = pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
GENERATION = "<|assistant|>"


@pytest.fixture
def make(tmp_path, tokenizer, model_folder):
    """Make a trainer of the tiny model from its class and that of its settings."""

    def make_trainer(trainer, config, dataset, more=None, model=str(model_folder), **settings):
        usual = {
            "output_dir": str(tmp_path / "trained"),
            "max_steps": 1,
            "per_device_train_batch_size": 4,
            "report_to": "none",
            "use_cpu": True,
            "bf16": False,
            "save_strategy": "no",
            "disable_tqdm": True,
        }
        given = {"train_dataset": dataset, "processing_class": tokenizer, **(more or {})}
        return trainer(model, args=config(**usual | settings), **given)

    return make_trainer


@pytest.fixture
def decoded(tokenizer):
    """Return columns of token ids as a list of tuples of texts, one for each row."""
    return lambda dataset, *columns: [
        tuple(tokenizer.decode(row[column]) for column in columns) for row in dataset
    ]


def triples(render, tasks):
    """Return what a trainer should see of each task: prompt, chosen, rejected."""
    return [
        (
            render(task.prompt, task.tools) + GENERATION,
            render(task.chosen).removeprefix(GENERATION),
            render(task.rejected).removeprefix(GENERATION),
        )
        for task in tasks
    ]


@pytest.mark.parametrize(
    ("to", "suffix", "tasks"),
    [("trl-dpo", ".jsonl", TASKS), ("trl-dpo", ".parquet", TASKS), ("torchtune", ".jsonl", PLAIN)],
)
def test_dpo(export, load, make, decoded, render, to, suffix, tasks):
    """`DPOTrainer` (trl 1.16.0) sees each prompt with its tools and earlier calls, both answers,
    and drops no row; it finds the prompt in the whole conversations of `torchtune`.
    """
    from trl import DPOConfig, DPOTrainer

    dataset = load(export(to, tasks, suffix=suffix))
    trainer = make(DPOTrainer, DPOConfig, dataset, max_length=4096)
    seen = decoded(trainer.train_dataset, "prompt_ids", "chosen_ids", "rejected_ids")
    assert seen == triples(render, tasks)
    trainer.train()


@BY_SUFFIX
def test_reward(export, load, make, decoded, model_folder, render, suffix):
    """`RewardTrainer` (trl 1.16.0) sees both conversations and the margin of every row."""
    from transformers import AutoModelForSequenceClassification
    from trl import RewardConfig, RewardTrainer

    dataset = load(export("trl-reward", TASKS, suffix=suffix))
    model = AutoModelForSequenceClassification.from_pretrained(model_folder, num_labels=1)
    trainer = make(RewardTrainer, RewardConfig, dataset, model=model, max_length=4096)
    assert decoded(trainer.train_dataset, "chosen_ids", "rejected_ids") == [
        tuple(render(task.prompt + answer, task.tools) for answer in (task.chosen, task.rejected))
        for task in TASKS
    ]
    assert next(iter(trainer.get_train_dataloader()))["margin"].tolist() == [4.0] * len(TASKS)
    trainer.train()


@BY_SUFFIX
def test_kto(export, load, make, decoded, render, suffix):
    """`KTOTrainer` (trl 1.16.0) sees every labelled response with its prompt; neighbours have
    different prompts.
    """
    from trl import KTOConfig, KTOTrainer

    dataset = load(export("trl-kto", TASKS, suffix=suffix))
    order = {"train_sampling_strategy": "sequential"}
    trainer = make(KTOTrainer, KTOConfig, dataset, max_length=4096, **order)
    seen = decoded(trainer.train_dataset, "prompt_ids", "completion_ids")
    wanted = triples(render, TASKS)
    assert sorted(zip(seen, trainer.train_dataset["label"], strict=True)) == sorted(
        ((prompt, answer), label)
        for prompt, *both in wanted
        for answer, label in zip(both, (True, False), strict=True)
    )
    assert all(one[0] != other[0] for one, other in pairwise(seen))
    trainer.train()


@BY_SUFFIX
def test_sft(export, load, make, tokenizer, render, suffix):
    """`SFTTrainer` (trl 1.16.0) learns the best response of each prompt, and nothing of the
    prompt.
    """
    from trl import SFTConfig, SFTTrainer

    dataset = load(export("trl-sft", TASKS, suffix=suffix))
    trainer = make(SFTTrainer, SFTConfig, dataset, max_length=4096)
    rows = list(trainer.train_dataset)
    assert [tokenizer.decode(row["input_ids"]) for row in rows] == [
        render(task.prompt + task.chosen, task.tools) for task in TASKS
    ]
    learned = [[label for label in row["labels"] if label != -100] for row in rows]
    assert [tokenizer.decode(ids) for ids in learned] == [
        chosen for _, chosen, _ in triples(render, TASKS)
    ]
    trainer.train()


@BY_SUFFIX
def test_grpo(export, load, make, render, suffix):
    """`GRPOTrainer` (trl 1.16.0) asks for completions of our prompts; its reward function gets
    their ids.
    """
    from trl import GRPOConfig, GRPOTrainer

    seen = {}

    def reward(prompts, completions, prompt_id, **others):
        seen.update(
            (identity, render(prompt)) for identity, prompt in zip(prompt_id, prompts, strict=True)
        )
        return [float(len(str(completion))) for completion in completions]

    dataset = load(export("trl-grpo", PLAIN, suffix=suffix))
    assert len(dataset) == len(PLAIN)
    sizes = {"num_generations": 2, "max_completion_length": 4, "per_device_train_batch_size": 6}
    make(GRPOTrainer, GRPOConfig, dataset, {"reward_funcs": reward}, **sizes).train()
    assert sorted(seen.values()) == sorted(render(task.prompt) for task in PLAIN)
    assert sorted(seen) == sorted(dataset["prompt_id"])


def test_groups_with_the_rollout_function_of_the_guide(export, make, tokenizer, render):
    """The function on the page feeds stored completions and their rewards to `GRPOTrainer` (trl
    1.16.0).
    """
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    page = (Path(genrm_cli.__file__).parent / "guide" / "export.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    guide = SimpleNamespace()
    exec(code, guide.__dict__)
    path = export("groups")
    stored = guide.make_rollout_func(path, tokenizer)
    seen = set()

    def reward(prompts, completions, offline_reward, **others):
        rewards = guide.stored_reward(completions, offline_reward, **others)
        for prompt, completion, value in zip(prompts, completions, rewards, strict=True):
            text = completion if isinstance(completion, str) else completion[0]["content"]
            seen.add((render(prompt), text, value))
        return rewards

    sizes = {"num_generations": 3, "max_completion_length": 64, "per_device_train_batch_size": 9}
    prompts = Dataset.from_list([{"prompt": task.prompt} for task in PLAIN])
    functions = {"reward_funcs": reward, "rollout_func": stored}
    make(GRPOTrainer, GRPOConfig, prompts, functions, **sizes).train()
    assert seen == {
        (render(task.prompt), answer[0]["content"], reward)
        for task in PLAIN
        for answer, reward in zip(task.responses, (5.0, 3.0, 1.0), strict=True)
    }


@BY_SUFFIX
def test_groups_keep_their_lists_aligned(export, load, render, suffix):
    """`datasets` (5.2.0) loads every completion of a group with its reward, sessions and calls
    included.
    """
    rows = list(load(export("groups", TASKS, suffix=suffix)))
    assert [[render(row["prompt"] + answer) for answer in row["completions"]] for row in rows] == [
        [render(task.prompt + answer) for answer in task.responses] for task in TASKS
    ]
    assert [row["rewards"] for row in rows] == [[5.0, 3.0, 1.0]] * len(TASKS)
    assert [
        len(row[name]) for row in rows for name in ("advantages", "standard_errors", "logprobs")
    ] == [3] * 12


def test_a_late_tool_call_loads_from_parquet(export, load, render):
    """Parquet has one schema for all rows: a first tool call after 10 MB, which `datasets` samples
    of JSON, arrives.
    """
    from datasets.exceptions import DatasetGenerationError

    many = [
        Task([says("user", f"{number} " + "long " * 20_000)], PLAIN[1].responses)
        for number in range(120)
    ]
    rows = load(export("trl-dpo", [*many, WITH_TOOLS], suffix=".parquet"))
    assert len(rows) == 121
    assert render(rows[120]["prompt"]) == render(WITH_TOOLS.prompt)
    with pytest.raises(DatasetGenerationError):
        load(export("trl-dpo", [*many, WITH_TOOLS], "--force"))
