"""What the quickstart of the README shows."""

import re
from pathlib import Path

from genrm_process import SAMPLE_DATA, Genrm
from pages import README, ROOT


def test_the_quickstart_shows_what_the_demo_prints(tmp_path: Path) -> None:
    """The block of the README is what the command of `make demo` prints, twice in a row."""
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8")
    [command] = re.findall(r"^\t@?\$\(BIN\)/genrm score sample_data/rollouts\.jsonl (.+)$", recipe, re.MULTILINE)
    genrm = Genrm(tmp_path)
    (tmp_path / "out").mkdir()
    for _ in range(2):
        finished = genrm.run("score", SAMPLE_DATA / "rollouts.jsonl", *command.split(), COLUMNS="80")
        assert finished.code == 0, finished.err
        shown = "\n".join(line.rstrip() for line in finished.err.splitlines())
        assert f"```\n{shown}\n```\n" in README
