"""Symbolic links in place of inputs, outputs and folders: nothing outside is lost or written."""

import json
import os

import pytest
from genrm_process import make_rollouts

LEXICAL = ("--judge", "lexical", "-q")


def test_an_output_that_is_a_link_is_replaced_where_it_points(genrm, call):
    """The file behind it has the scored lines, the link stays, and a second run is up to date. A
    link that leads nowhere is not followed.
    """
    genrm.write("in.jsonl", make_rollouts())
    (genrm.folder / "elsewhere").mkdir()
    link = genrm.folder / "in.scored.jsonl"
    link.symlink_to("elsewhere/kept.jsonl")
    assert "exists" in call("score", "in.jsonl", *LEXICAL).ended(2).err
    kept = genrm.folder / "elsewhere/kept.jsonl"
    kept.write_text("{}\n")
    call("score", "in.jsonl", *LEXICAL, "--force").ended(0)
    assert link.is_symlink()
    assert all("reward" in json.loads(line) for line in kept.read_bytes().splitlines())
    assert "up to date" in call("score", "in.jsonl", "--judge", "lexical").ended(0).err


@pytest.mark.parametrize("target", ["in.jsonl", "in.metrics.json", "in.comparisons.jsonl"])
def test_an_output_that_points_at_another_file_of_the_run_is_refused(genrm, call, target):
    """The input keeps its lines, and no output replaces another."""
    genrm.write("in.jsonl", make_rollouts())
    before = (genrm.folder / "in.jsonl").read_bytes()
    (genrm.folder / "in.scored.jsonl").symlink_to(target)
    refused = call("score", "in.jsonl", *LEXICAL)
    assert refused.code == 2
    assert "Traceback" not in refused.err
    assert (genrm.folder / "in.jsonl").read_bytes() == before


def test_links_that_lead_nowhere_or_in_a_circle_are_errors_of_their_file(genrm, call):
    """The other inputs of the folder are scored."""
    genrm.write("good.jsonl", make_rollouts())
    (genrm.folder / "gone.jsonl").symlink_to("nowhere.jsonl")
    (genrm.folder / "circle.jsonl").symlink_to("circle.jsonl")
    (genrm.folder / "loop").symlink_to(".")
    ended = call("score", ".", "--judge", "lexical", "--min-age", "0")
    assert (genrm.folder / "good.scored.jsonl").exists()
    assert "Traceback" not in ended.err
    named = call("score", "circle.jsonl", *LEXICAL)
    assert named.code in (3, 5)
    assert "circle.jsonl" in named.err


def test_a_journal_or_a_lease_that_is_a_link_is_no_traceback(genrm, call, judge_server):
    """The journal behind a link is used; a lease that is a link holds nobody up for ever."""
    genrm.write("in.jsonl", make_rollouts())
    (genrm.folder / "in.journal.sqlite").symlink_to("real.sqlite")
    call("score", "in.jsonl", *judge_server.flags, "--no-probe", "-q").ended(0)
    assert (genrm.folder / "real.sqlite").stat().st_size > 0
    calls = judge_server.stats()["requests"]
    os.symlink("nowhere", genrm.folder / "in.lease-1")
    again = call("score", "in.jsonl", *judge_server.flags, "--no-probe", "--force")
    assert "Traceback" not in again.err
    assert judge_server.stats()["requests"] == calls
