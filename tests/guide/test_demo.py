"""What the quickstart of the README shows."""

import json
import re

import pytest
import report_picture
from demo_picture import PATH, render_picture, texts_of
from genrm_process import SAMPLE_DATA, read_lines
from pages import PAGES, README, ROOT


def test_the_pictures_of_the_readme_show_what_the_demo_makes(genrm, call):
    """`make guide` and `make report-picture` made them from the outputs of today, which are the
    same twice in a row.
    """
    assert "$(BIN)/genrm demo" in (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"({PATH.relative_to(ROOT)})" in README
    picture_of_report = report_picture.PATH.read_bytes()
    assert len(picture_of_report) < report_picture.MOST_BYTES
    assert f"({report_picture.PATH.relative_to(ROOT)})" in README
    for _ in range(2):
        finished = call("demo").ended(0)
        assert finished.err == ""
        picture = render_picture(finished.out.decode())
        assert texts_of(picture) == texts_of(PATH.read_text(encoding="utf-8"))
        report = (genrm.folder / "genrm-demo" / "report.html").read_text(encoding="utf-8")
        assert report_picture.digest_of(report) == report_picture.digest_in(picture_of_report), (
            "the report changed: make report-picture"
        )


@pytest.mark.parametrize("name", ["report.html", "rollouts.scored.jsonl", "rollouts.metrics.json"])
def test_a_file_in_a_named_folder_is_not_overwritten(genrm, call, name):
    """Not by an output, nor by one beside it; nothing is written then."""
    (genrm.folder / name).write_text("mine")
    finished = call("demo", ".").ended(2)
    assert f"{name} exists; remove it, or choose another folder" in finished.err
    assert genrm.names() == {name}
    assert (genrm.folder / name).read_text() == "mine"


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
