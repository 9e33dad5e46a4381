"""Real exports, and what loaders make of them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from genrm_process import Genrm
from scored_lines import write_lines
from trainer_sample import PLAIN, lines_of

Export = Callable[..., Path]


@pytest.fixture(scope="session", autouse=True)
def offline(no_hub):
    """Keep loaders off the network, before they are imported."""


@pytest.fixture
def export(tmp_path):
    """Give a test the command: format and tasks → the file that `genrm export` wrote."""
    folder = tmp_path / "work"
    folder.mkdir()

    def run(name, tasks=PLAIN, *options, suffix=".jsonl"):
        write_lines(folder / "x.scored.jsonl", lines_of(tasks))
        done = Genrm(folder).run(
            "export", "x.scored.jsonl", "--to", name, "-o", f"out{suffix}", *options
        )
        assert done.code == 0, done.err
        return folder / f"out{suffix}"

    return run


@pytest.fixture(scope="session")
def render(tokenizer):
    """Give a test the text that messages become."""

    def run(messages, tools=None):
        text: str = tokenizer.apply_chat_template(messages, tools=tools, tokenize=False)
        return text

    return run


@pytest.fixture
def load():
    """Load a file as the command says."""
    from datasets import load_dataset

    def load_file(path, split="train"):
        kind = "parquet" if path.suffix == ".parquet" else "json"
        return load_dataset(kind, data_files=str(path), split=split)

    return load_file
