"""Real exports, and what loaders make of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from genrm_process import Genrm
from scored_lines import write_lines
from trainer_sample import PLAIN, Task, lines_of

Export = Callable[..., Path]


@pytest.fixture(scope="session", autouse=True)
def offline(no_hub: None) -> None:
    """Keep loaders off the network, before they are imported."""


@pytest.fixture
def export(tmp_path: Path) -> Export:
    """Give a test the command: format and tasks → the file that `genrm export` wrote."""
    folder = tmp_path / "work"
    folder.mkdir()

    def run(name: str, tasks: list[Task] = PLAIN, *options: str, suffix: str = ".jsonl") -> Path:
        write_lines(folder / "x.scored.jsonl", lines_of(tasks))
        done = Genrm(folder).run(
            "export", "x.scored.jsonl", "--to", name, "-o", f"out{suffix}", *options
        )
        assert done.code == 0, done.err
        return folder / f"out{suffix}"

    return run


@pytest.fixture(scope="session")
def render(tokenizer: Any) -> Callable[..., str]:
    """Give a test the text that messages become."""

    def run(messages: list[dict[str, Any]], tools: Any = None) -> str:
        text: str = tokenizer.apply_chat_template(messages, tools=tools, tokenize=False)
        return text

    return run
