"""The judge's words on the page: from the comparisons, else from the journal, masked, and only
where they belong.
"""

from typing import Any

import pytest
from genrm_process import read_lines
from report_pages import unpacked
from scored_lines import write_lines

PROFILE = ["--model", "m", "--profile", "nemotron", "--no-probe", "-q"]


@pytest.fixture
def run(genrm, call, judge_server):
    """Score a group without keeping replies."""
    genrm.rollouts(1, 3)
    call("score in.jsonl --base-url", judge_server.base_url, *PROFILE).ended(0)
    return genrm.folder / "in.scored.jsonl"


def comparisons(page):
    """Return the comparisons of the first group of a page."""
    found: list[dict[str, Any]] = unpacked(page.read_text(encoding="utf-8"), "block-0")[0][
        "comparisons"
    ]
    return found


def test_words_come_from_the_journal_beside_the_output(run, call):
    """The page and the terminal show the replies that the comparisons lack."""
    call("report -o out.html", run)
    assert all(
        "response_1_analysis" in each["reply"] for each in comparisons(run.with_name("out.html"))
    )
    assert call("show", run).out.decode().count("response_1_analysis") == 3


def test_words_of_another_verdict_are_not_shown(run, call):
    """Where the journal holds another verdict on the request, as after `journal prune`, its reply
    does not belong.
    """
    path = run.with_name("in.comparisons.jsonl")
    first, *rest = read_lines(path)
    second, third = rest
    write_lines(
        path,
        [
            first | {"score_1": 1.5},
            second | {"journal_key": "not hex"},
            third | {"journal_key": "00"},
        ],
    )
    call("report -o out.html", run).ended(0)
    assert [each.get("reply") for each in comparisons(run.with_name("out.html"))] == [None] * 3
