"""Every example of the page on extensions works as an installed package."""

import re
import shlex
import tomllib

import pytest
from pages import PAGES
from seam_examples import run_examples

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SECTIONS = {text.partition("\n")[0]: text for text in PAGES["extending"].split("\n## ")[1:]}


SEAMS = (
    "genrm_cli.judging.profiles.profile",
    "genrm_cli.rewards.component",
    "genrm_cli.rollouts.formats",
    "genrm_cli.products.sessions.environment",
)


@pytest.mark.parametrize("seam", SEAMS)
def test_a_seam_opens_with_lines_that_run(seam):
    """The module of each seam begins with the lines that a user writes."""
    assert run_examples(seam) > 3


@pytest.mark.parametrize("name", SECTIONS)
def test_the_example_of_each_seam_runs(name, genrm, call, install_package, judge_server):
    """The Python block of a section is the module of its TOML block; then its commands end with
    exit code 0.

    A JSON block holds the lines of the file that the first command reads.
    """
    blocks: dict[str, str] = {}
    for language, text in BLOCK.findall(SECTIONS[name]):
        blocks.setdefault(language, text)
    groups = tomllib.loads(blocks["toml"])["project"]["entry-points"]
    [module] = {
        value.partition(":")[0] for entries in groups.values() for value in entries.values()
    }
    assert len(blocks["python"].splitlines()) <= 50
    install_package(module, blocks["python"], groups)
    genrm.sample("rollouts.jsonl")
    commands = [
        line for line in blocks[""].replace("\\\n", "").splitlines() if line.startswith("genrm ")
    ]
    if "json" in blocks:
        read = next(word for word in shlex.split(commands[0]) if word.endswith(".jsonl"))
        (genrm.folder / read).write_text(blocks["json"], encoding="utf-8")
    for command in commands:
        words = shlex.split(
            command.replace("http://localhost:8000/v1", judge_server.base_url), comments=True
        )
        ended = call(*words[1:])
        assert ended.code == 0, f"{command}\n{ended.err}"
