"""What the quickstart of the README shows."""

import re

from genrm_process import SAMPLE_DATA, Call, Genrm
from pages import README, ROOT


def test_the_quickstart_shows_what_the_demo_prints(genrm: Genrm, call: Call) -> None:
    """The block of the README is what the commands of `make demo` print, twice in a row."""
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8")
    [command] = re.findall(r"^\t@?\$\(BIN\)/genrm score sample_data/rollouts\.jsonl (.+)$", recipe, re.MULTILINE)
    [count] = re.findall(r"genrm show out/rollouts\.scored\.jsonl \| head -(\d+)$", recipe, re.MULTILINE)
    (genrm.folder / "out").mkdir()
    for _ in range(2):
        finished = call("score", SAMPLE_DATA / "rollouts.jsonl", *command.split())
        assert (finished.code, finished.err) == (0, "")
        lines = call("show", "out/rollouts.scored.jsonl").out.decode().splitlines()
        shown = "\n".join(line.rstrip() for line in lines[: int(count)])
        assert f"```\n{shown.rstrip()}\n```\n" in README
