"""What the quickstart of the README shows."""

import json
import re

from genrm_process import SAMPLE_DATA, read_lines
from pages import PAGES, README, ROOT


def test_the_quickstart_shows_what_the_demo_prints(genrm, call):
    """The README shows the table that `genrm demo` prints, twice in a row; a page appears."""
    assert "$(BIN)/genrm demo" in (ROOT / "Makefile").read_text(encoding="utf-8")
    for _ in range(2):
        finished = call("demo", "out").ended(0)
        assert finished.err == ""
        table, _, rest = finished.out.decode().partition("\n\nAll groups")
        assert f"```\n{table}\n```\n" in README
        assert "genrm score FILE --base-url" in rest
        assert (genrm.folder / "out" / "report.html").stat().st_size > 10_000


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
