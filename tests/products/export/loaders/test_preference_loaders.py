"""What the loaders of preference pairs outside TRL make of our exports, each by its own code."""

import json
import shutil
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from trainer_sample import PLAIN, WITH_TOOLS

BY_SUFFIX = pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
GENERATION = "<|assistant|>"


@pytest.mark.loader("openrlhf", "torch")
@pytest.mark.parametrize("is_dpo", [True, False])
@BY_SUFFIX
def test_openrlhf(export, tokenizer, render, suffix, is_dpo):
    """`RewardDataset` (openrlhf 0.11.2) trains on both conversations; reward models get the
    margin.
    """
    from openrlhf.datasets import RewardDataset
    from openrlhf.datasets.utils import blending_datasets

    data = SimpleNamespace(
        prompt_key="prompt", chosen_key="chosen", rejected_key="rejected", apply_chat_template=True
    )
    strategy = SimpleNamespace(
        args=SimpleNamespace(data=data), print=print, is_rank_0=lambda: False
    )
    loaded = blending_datasets(str(export("openrlhf", suffix=suffix)), strategy=strategy)
    dataset = RewardDataset(loaded, tokenizer, 4096, strategy, is_dpo=is_dpo, num_processors=1)
    rows = [dataset[number] for number in range(len(dataset))]
    assert [(tokenizer.decode(row[0][0]), tokenizer.decode(row[2][0])) for row in rows] == [
        (render(task.prompt + task.chosen), render(task.prompt + task.rejected)) for task in PLAIN
    ]
    if not is_dpo:
        assert [row[4] for row in rows] == [4.0] * len(PLAIN)


@pytest.mark.loader("axolotl", "datasets")
@BY_SUFFIX
def test_axolotl(export, load, tokenizer, render, suffix):
    """The strategy `chat_template` (axolotl 0.19.0), set up as the command says, sees prompt and
    both answers.
    """
    from axolotl.prompt_strategies.dpo.chat_template import default

    dataset = load(export("axolotl", suffix=suffix))
    settings = {
        "field_messages": "prompt",
        "field_chosen": "chosen",
        "field_rejected": "rejected",
        "message_property_mappings": {"role": "role", "content": "content"},
    }
    transform, options = default({"datasets": [settings]})
    rows = dataset.map(partial(transform, tokenizer=tokenizer), **options)
    assert [(row["prompt"], row["chosen"], row["rejected"]) for row in rows] == [
        (
            render(task.prompt) + GENERATION,
            render(task.chosen).removeprefix(GENERATION),
            render(task.rejected).removeprefix(GENERATION),
        )
        for task in PLAIN
    ]


class _Keeper:
    """A tokenizer for torchtune that keeps the messages it was given."""

    def __init__(self):
        self.messages = []

    def tokenize_messages(self, messages):
        self.messages.append(
            [(message.role, message.text_content, message.masked) for message in messages]
        )
        return [0], [False]


@pytest.mark.loader("torchtune", "torchao")
@BY_SUFFIX
def test_torchtune(export, suffix):
    """`preference_dataset` (torchtune 0.6.1) hands both conversations to the tokenizer, all but
    answers masked.
    """
    from torchtune.datasets import preference_dataset

    keeper = _Keeper()
    kind = "parquet" if suffix == ".parquet" else "json"
    dataset = preference_dataset(
        keeper,
        source=kind,
        data_files=str(export("torchtune", suffix=suffix)),
        split="train",
        train_on_input=False,
    )
    assert len([dataset[number] for number in range(len(dataset))]) == len(PLAIN)
    assert keeper.messages == [
        [
            (message["role"], message["content"], message["role"] != "assistant")
            for message in task.prompt + answer
        ]
        for task in PLAIN
        for answer in (task.chosen, task.rejected)
    ]


@pytest.fixture
def llamafactory_data():
    """Make `llamafactory.data` importable without its `__init__`, which requires torchaudio."""
    names = [name for name in sys.modules if name.startswith("llamafactory.data")]
    assert not names
    package = ModuleType("llamafactory.data")
    package.__path__ = [str(Path(find_spec("llamafactory").origin).parent / "data")]
    sys.modules["llamafactory.data"] = package
    yield
    for name in [name for name in sys.modules if name.startswith("llamafactory.data")]:
        del sys.modules[name]


@pytest.mark.loader("llamafactory", "datasets")
@BY_SUFFIX
def test_llamafactory(export, load, llamafactory_data, suffix):
    """`get_dataset_list` and `align_dataset` (llamafactory 0.9.5) read our entry and our rows, and
    skip none.
    """
    from llamafactory.data.converter import align_dataset
    from llamafactory.data.parser import get_dataset_list

    tasks = [
        *PLAIN,
        WITH_TOOLS._replace(responses=[[answer[-1]] for answer in WITH_TOOLS.responses]),
    ]
    path = export("llamafactory", tasks, suffix=suffix)
    shutil.copy(path.with_name("out.dataset_info.json"), path.with_name("dataset_info.json"))
    (entry,) = get_dataset_list(["genrm"], str(path.parent))
    assert entry.load_from == "file"
    assert path.with_name(entry.dataset_name) == path
    assert entry.ranking is True
    loaded = load(path, entry.split)
    options = SimpleNamespace(
        streaming=False, preprocessing_num_workers=None, overwrite_cache=True, media_dir=""
    )
    rows = list(align_dataset(loaded, entry, options, SimpleNamespace(local_process_index=0)))
    for row, task in zip(rows, tasks, strict=True):
        system = task.prompt[0]["content"] if task.prompt[0]["role"] == "system" else ""
        assert row["_system"] == system
        assert row["_response"] == [task.chosen[0], task.rejected[0]]
    for row, task in zip(rows[:-1], PLAIN, strict=True):
        assert row["_prompt"] == [message for message in task.prompt if message["role"] != "system"]
        assert row["_tools"] == ""
    roles = [turn["role"] for turn in rows[-1]["_prompt"]]
    assert roles == ["user", "function", "observation", "assistant", "user"]
    called = {"name": "weather", "arguments": {"city": "Oslo"}}
    assert json.loads(rows[-1]["_prompt"][1]["content"]) == called
    assert json.loads(rows[-1]["_tools"]) == WITH_TOOLS.tools


@pytest.mark.loader("swift", "modelscope")
@BY_SUFFIX
def test_ms_swift(export, suffix):
    """`load_dataset` (ms-swift 4.6.0), strict, keeps every row: messages, the rejected answer, the
    margin.
    """
    from swift.dataset import load_dataset

    dataset, _ = load_dataset(str(export("ms-swift", suffix=suffix)), strict=True)
    assert [(row["messages"], row["rejected_response"], row["margin"]) for row in dataset] == [
        (task.prompt + task.chosen, task.rejected[0]["content"], 4.0) for task in PLAIN
    ]
