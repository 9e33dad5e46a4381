"""`genrm report`: what it recognises and refuses, what appears on disk, and what the page holds."""

import json
import re

import pytest
from genrm_process import SAMPLE_DATA
from hostile_texts import TEXTS
from report_pages import unpacked
from scored_lines import scored, verdict, write_lines


@pytest.fixture
def page_of(genrm, call):
    """Return the page of scored lines and comparisons."""

    def run(lines, asked, words=""):
        genrm.write("x.scored.jsonl", lines)
        genrm.write("x.comparisons.jsonl", asked)
        call(f"report x.scored.jsonl -o out.html --force {words}").ended(0)
        return genrm.text("out.html")

    return run


PAIR = [scored("best", 5.0), scored("low", 1.0, index=1)]


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


def test_an_existing_page_is_replaced_on_demand_only(call, genrm):
    """Nobody loses a page; --force replaces it."""
    genrm.write("x.scored.jsonl", PAIR)
    for force, code in (("", 0), ("", 2), ("--force", 0)):
        call(f"report x.scored.jsonl {force}").ended(code)
    assert "x.report.html" in genrm.names()


def test_foreign_texts_stay_data(page_of):
    """The page's markup holds no text of a rollout: those lie in compressed blocks, keys and names
    are escaped.
    """
    texts = [*TEXTS, "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>"]
    key = "<b onmouseover=alert(1)>'\"&"
    lines = [scored(text, float(place), group=key, index=place) for place, text in enumerate(texts)]
    page = page_of(lines, [])
    assert page.count("<script") == 3  # the index, one block, our own
    assert "onerror=alert" not in page
    assert "<b onmouseover" not in page
    shown = [rollout["items"][0][1] for rollout in unpacked(page, "block-0")[0]["rollouts"][-2:]]
    assert shown == texts[-2:]


def test_the_policy_allows_our_own_script_and_no_request(page_of):
    """Nothing is fetched, and inline handlers do not run: the script is allowed by its hash."""
    page = page_of(PAIR, [])
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert "default-src &#39;none&#39;; script-src &#39;sha256-" in policy
    assert "unsafe" not in policy
    assert re.findall(r'(?:src|href)="(?!#)', page) == []


def test_a_page_is_masked_as_a_judge_is(genrm, call):
    """--redact-pattern masks prompts, responses and replies, and keys, reasons and judges in page
    and figures; the page says whether masking was on. Two keys made equal stay two groups.
    """
    keys = ["jo@example.org", "al@example.org"]
    named = {"size": 1, "judge": "m@example.org", "prompt": "Who is jo@example.org?"}
    lines = [
        scored(f"To {key}", None, group=key, reason_text=f"asked {key}", **named) for key in keys
    ]
    genrm.write("x.scored.jsonl", lines)
    asked = [verdict(0, 1, 5, 2, group=key, judge=key, reply=f"{key} wins") for key in keys]
    genrm.write("x.comparisons.jsonl", asked)
    call("report x.scored.jsonl -o plain.html").ended(0)
    assert "not masked" in genrm.text("plain.html")
    done = call("report x.scored.jsonl -o out.html --redact-pattern email --json").ended(0)
    page = genrm.text("out.html")
    assert "are masked (email)" in page
    index = unpacked(page, "index")
    packed = json.dumps([index, unpacked(page, "block-0")])
    shown = call("show x.scored.jsonl --limit 9 --redact-pattern email").out
    assert "@example.org" not in (done.out + shown).decode() + page + packed
    assert [row[0] for row in index["groups"]] == ["[EMAIL]", "[EMAIL] (2)"]
    assert json.loads(done.out)["runs"][0]["unscored"] == {"incomplete": 2}


EMPTY = "x.scored.jsonl: it is empty; expected an output of `genrm score`"
TORN = "x.scored.jsonl: none of its 1 lines is scored (line 1: not JSON"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("scored.jsonl", "", EMPTY),
        ("scored.jsonl", "no\n", TORN),
        ("scored.jsonl", '{"prompt": "a", "response": "b"}\n', EMPTY[28:]),
        ("journal.sqlite", "not SQLite, but long " * 20, "It is damaged or not a journal"),
    ],
)
def test_what_cannot_be_read_is_named_with_a_remedy(call, genrm, name, content, message):
    """The file, the line and what to do are said, and no page appears."""
    genrm.write("x.scored.jsonl", PAIR)
    genrm.write("x.comparisons.jsonl", [verdict(0, 1, 5, 2, journal_key="00")])
    (genrm.folder / f"x.{name}").write_text(content)
    done = call("report x.scored.jsonl -o out.html")
    assert done.code in (3, 5)
    assert message in done.err
    assert "out.html" not in genrm.names()


def test_lines_that_cannot_be_read_are_counted(call, genrm):
    """A torn scored file is reported on as far as it goes; page, figures and message say so."""
    with write_lines(genrm.folder / "x.scored.jsonl", PAIR).open("a") as file:
        file.write('{"messages": [')
    done = call("report x.scored.jsonl -o out.html --json").ended(0)
    assert "1 line could not be read" in done.err
    assert json.loads(done.out)["runs"][0]["rejected_lines"] == 1
    assert "1 line could not be read." in genrm.text("out.html")


@pytest.fixture
def replies_of(genrm, call):
    """Return the judge's words about the first group of a page."""

    def run():
        call("report in.scored.jsonl -o out.html --force").ended(0)
        asked = unpacked(genrm.text("out.html"), "block-0")[0]["comparisons"]
        return [each.get("reply") for each in asked]

    return run


def test_words_come_from_the_journal_beside_the_output(genrm, call, call_judged, replies_of):
    """The page and the terminal show the replies that the comparisons lack. Where the journal holds
    another verdict on the request, as after `journal prune`, its reply does not belong.
    """
    genrm.rollouts(1, 3)
    call_judged("score in.jsonl --profile nemotron --no-probe -q").ended(0)
    assert all("response_1_analysis" in reply for reply in replies_of())
    assert call("show in.scored.jsonl").out.count(b"response_1_analysis") == 3
    others = [{"score_1": 1.5}, {"journal_key": "not hex"}, {"journal_key": "00"}]
    asked = genrm.lines("in.comparisons.jsonl")
    changed = [line | other for line, other in zip(asked, others, strict=True)]
    genrm.write("in.comparisons.jsonl", changed)
    assert replies_of() == [None] * 3


def test_what_was_not_asked_is_no_failure(genrm, call, call_judged):
    """After --max-calls the figures tell comparisons without an answer from those that were never
    asked.
    """
    genrm.rollouts(4, 3)
    call_judged("score in.jsonl --profile nemotron --no-probe -q --max-calls 5")
    [run] = json.loads(call("report in.scored.jsonl -o out.html --json").out)["runs"]
    assert (run["verdicts"], run["not_asked"], run["failures"]) == (5, 7, {})
    assert (run["failed"]["count"], run["failed"]["of"]) == (0, 5)
    assert "7 planned comparisons were not asked." in [each["text"] for each in run["reasons"]]
    assert "max_calls stopped the run" in run["partial"]
