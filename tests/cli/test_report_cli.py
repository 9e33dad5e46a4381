import json
import re

import pytest
from genrm_process import SAMPLE_DATA
from hostile_texts import TEXTS
from report_pages import unpacked
from scored_lines import scored, verdict, write_lines

GROUP = [
    scored("best answer", 5.0, size=3),
    scored("middle", 3.0, index=1, size=3),
    scored("low", 1.0, index=2, size=3),
]
FAILURE = {
    "score_1": None,
    "score_2": None,
    "ranking": None,
    "failure": {"kind": "timeout", "detail": "after 1 s"},
}


@pytest.fixture
def run(genrm):
    """Give a test a scored group with comparisons."""
    write_lines(
        genrm.folder / "x.comparisons.jsonl",
        [verdict(0, 1, 5, 2, reply="The first."), verdict(1, 2, 4, 1)],
    )
    return write_lines(genrm.folder / "x.scored.jsonl", GROUP)


@pytest.mark.slow
def test_the_page_of_the_sample_is_small_and_says_who_judged(genrm, call):
    """The page is written next to the scored lines and has less than 150 KB; its answer names the
    baseline.
    """
    call("score --offline -o x.scored.jsonl", SAMPLE_DATA / "rollouts.jsonl")
    call("report x.scored.jsonl").ended(0)
    page = genrm.text("x.report.html")
    assert len(page) < 150_000
    assert "The built-in lexical baseline judged this" in page
    assert len(unpacked(page, "index")["groups"]) == 7


def test_an_existing_page_is_replaced_on_demand_only(run, call, genrm):
    """Nobody loses a page; --force replaces it."""
    call("report", run).ended(0)
    call("report", run).ended(2)
    call("report --force", run).ended(0)
    assert "x.report.html" in genrm.names()


def test_foreign_texts_stay_data(genrm, call):
    """The page's markup holds no text of a rollout: those lie in compressed blocks, keys and names
    are escaped.
    """
    texts = [*TEXTS, "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>"]
    key = "<b onmouseover=alert(1)>'\"&"
    lines = [scored(text, float(place), group=key, index=place) for place, text in enumerate(texts)]
    write_lines(genrm.folder / "x.scored.jsonl", lines)
    call("report x.scored.jsonl -o out.html").ended(0)
    page = genrm.text("out.html")
    assert page.count("<script") == 3  # the index, one block, our own
    assert "onerror=alert" not in page
    assert "<b onmouseover" not in page
    shown = [rollout["items"][0][1] for rollout in unpacked(page, "block-0")[0]["rollouts"][-2:]]
    assert shown == texts[-2:]


def test_the_policy_allows_our_own_script_and_no_request(run, call, genrm):
    """Nothing is fetched, and inline handlers do not run: the script is allowed by its hash."""
    call("report -o out.html", run)
    page = genrm.text("out.html")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert "default-src &#39;none&#39;; script-src &#39;sha256-" in policy[1]
    assert "unsafe" not in policy[1]
    assert re.findall(r'(?:src|href)="(?!#)', page) == []


def test_a_page_is_masked_as_a_judge_is(genrm, call):
    """--redact-pattern masks prompts, responses and replies, and the page says whether masking was
    on.
    """
    write_lines(
        genrm.folder / "x.comparisons.jsonl", [verdict(0, 1, 5, 2, reply="jo@example.org wins")]
    )
    lines = [
        scored(f"Write to jo@example.org {n}", float(n), index=n, prompt="Who is jo@example.org?")
        for n in (0, 1)
    ]
    write_lines(genrm.folder / "x.scored.jsonl", lines)
    call("report x.scored.jsonl -o plain.html")
    call("report x.scored.jsonl -o masked.html --redact-pattern email")
    plain, masked = (genrm.text(f"{name}.html") for name in ("plain", "masked"))
    assert "not masked" in plain
    assert "are masked (email)" in masked
    group = json.dumps(unpacked(masked, "block-0"))
    assert "jo@example.org" not in group
    assert group.count("[EMAIL]") == 4
    assert "jo@example.org" not in json.dumps(unpacked(masked, "index"))


def test_the_terminal_shows_rewards_verdicts_and_words(run, call):
    """`genrm show` prints the matrix of a scored group with dots where nothing was asked, and the
    judge's words.
    """
    shown = call("show", run).out.decode()
    assert "=== group task:1: 3 rollouts" in shown
    assert re.search(r"^0 +\. +5-2 +\.$", shown, re.MULTILINE)
    assert "on 0 and 1: scores 5 and 2" in shown
    assert "The first." in shown


@pytest.fixture
def unreliable(genrm):
    """Give a test three groups of different reliability, one of them with a failed comparison."""
    lines = [scored("a", 1.0, group=f"task:{n}", reliability=n / 10) for n in (3, 1, 2)]
    write_lines(
        genrm.folder / "x.comparisons.jsonl", [verdict(0, 1, 0, 0, group="task:3") | FAILURE]
    )
    return write_lines(genrm.folder / "x.scored.jsonl", lines)


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        (("--worst", "2"), ["task:1", "task:2"]),
        (("--failures", "--limit", "9"), ["task:3"]),
        (("--failures", "--worst", "3"), ["task:3"]),
    ],
)
def test_the_terminal_finds_failures_and_the_worst(options, keys, unreliable, call):
    """--worst shows the least reliable groups first, --failures those with failed comparisons."""
    shown = call("show", unreliable, *options).out.decode()
    assert re.findall(r"=== group (task:\d)", shown) == keys
    assert ("no verdict: timeout (after 1 s)" in shown) == ("task:3" in keys)


def test_the_terminal_says_that_no_group_is_found(run, call):
    """Without failures, --failures prints no group and says so; without scores, it is refused."""
    found = call("show --failures", run)
    assert (found.code, found.out) == (0, b"")
    assert "no group has a failed comparison" in found.err
    for options in (["--worst", "1"], ["--failures"]):
        call("show", SAMPLE_DATA / "rollouts.jsonl", *options).ended(2)
        call("show --as-judge", run, *options).ended(2)
