"""Symbolic links in place of inputs, outputs and folders: nothing outside is lost or written."""

import json

import pytest
from genrm_process import make_rollouts


@pytest.fixture
def score(genrm, call):
    """Give a test a file to score; no way of it ends in a traceback."""
    genrm.write("in.jsonl", make_rollouts())

    def run(words, *more):
        ended = call(f"score {words}", *more)
        assert "Traceback" not in ended.err
        return ended

    return run


def test_an_output_that_is_a_link_is_replaced_where_it_points(genrm, score):
    """The file behind it has the scored lines, the link stays, and a second run is up to date. A
    link that leads nowhere is not followed.
    """
    (genrm.folder / "elsewhere").mkdir()
    kept = genrm.folder / "elsewhere/kept.jsonl"
    link = genrm.folder / "in.scored.jsonl"
    link.symlink_to("elsewhere/kept.jsonl")
    assert "exists" in score("in.jsonl --offline").ended(2).err
    kept.write_text("{}\n")
    score("in.jsonl --offline --force").ended(0)
    assert link.is_symlink()
    assert all("reward" in json.loads(line) for line in kept.read_bytes().splitlines())
    assert "up to date" in score("in.jsonl --offline").ended(0).err


@pytest.mark.parametrize("target", ["in.jsonl", "in.metrics.json", "in.comparisons.jsonl"])
def test_an_output_that_points_at_another_file_of_the_run_is_refused(genrm, score, target):
    """The input keeps its lines, and no output replaces another."""
    before = (genrm.folder / "in.jsonl").read_bytes()
    (genrm.folder / "in.scored.jsonl").symlink_to(target)
    score("in.jsonl --offline").ended(2)
    assert (genrm.folder / "in.jsonl").read_bytes() == before


def test_links_that_lead_nowhere_or_in_a_circle_are_errors_of_their_file(genrm, score):
    """The other inputs of the folder are scored."""
    links = {"gone.jsonl": "nowhere.jsonl", "circle.jsonl": "circle.jsonl", "loop": "."}
    for name, target in links.items():
        (genrm.folder / name).symlink_to(target)
    score(". --offline --min-age 0")
    assert (genrm.folder / "in.scored.jsonl").exists()
    named = score("circle.jsonl --offline")
    assert named.code in (3, 5)
    assert "circle.jsonl" in named.err


def test_a_journal_or_a_lease_that_is_a_link_is_no_traceback(genrm, score, judge_server):
    """The journal behind a link is used; a lease that is a link holds nobody up for ever."""
    (genrm.folder / "in.journal.sqlite").symlink_to("real.sqlite")
    score("in.jsonl --no-probe", *judge_server.flags).ended(0)
    assert (genrm.folder / "real.sqlite").stat().st_size > 0
    calls = judge_server.stats()["requests"]
    (genrm.folder / "in.lease-1").symlink_to("nowhere")
    score("in.jsonl --no-probe --force", *judge_server.flags)
    assert judge_server.stats()["requests"] == calls
