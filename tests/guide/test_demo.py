"""What the quickstart of the README shows."""

import json
import re

from genrm_process import SAMPLE_DATA, read_lines
from pages import PAGES, README, ROOT


def test_the_quickstart_shows_what_the_demo_prints(genrm, call):
    """The block of the README is what the commands of `make demo` print, twice in a row."""
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8")
    [command] = re.findall(
        r"^\t@?\$\(BIN\)/genrm score sample_data/rollouts\.jsonl (.+)$", recipe, re.MULTILINE
    )
    [count] = re.findall(
        r"genrm show out/rollouts\.scored\.jsonl \| head -(\d+)$", recipe, re.MULTILINE
    )
    (genrm.folder / "out").mkdir()
    for _ in range(2):
        finished = call("score", SAMPLE_DATA / "rollouts.jsonl", *command.split())
        assert finished.code == 0
        assert finished.err == ""
        lines = call("show", "out/rollouts.scored.jsonl").out.decode().splitlines()
        shown = "\n".join(line.rstrip() for line in lines[: int(count)])
        assert f"```\n{shown.rstrip()}\n```\n" in README


def test_the_page_about_outputs_shows_a_line_of_the_demo(genrm, call):
    """The line of the page, with its new fields only, is one that scoring the sample offline
    writes.
    """
    assert (
        call("score", SAMPLE_DATA / "rollouts.jsonl", "--offline", "-o", "scored.jsonl").code == 0
    )
    [shown] = [
        json.loads(block) for block in re.findall(r"```json\n(.+?)```", PAGES["output"], re.DOTALL)
    ]
    lines = [
        {name: line[name] for name in shown} for line in read_lines(genrm.folder / "scored.jsonl")
    ]
    assert shown in lines
