"""What may be sent to a judge: masked texts only, of rollouts that declare what they must."""

import json
import re

import pytest
from genrm_process import make_rollouts
from report_pages import unpacked
from served import serving

ADDRESS = "ana.lima@example.com"
CARD = "4111 1111 1111 1111"
PRIVATE = (ADDRESS, "example.com", "555-123-4567", CARD)
EMAIL = "--redact-pattern email"
ALL = f"{EMAIL} --redact-pattern phone --redact-pattern identity"


def private_rollouts():
    """Make one group of four with private data in prompt, answers and principle."""
    told = f"{ADDRESS} or 555-123-4567"
    return [
        {
            "prompt": f"Question 0? Write to {ADDRESS}.",
            "completion": f"{line['completion']} {told}" + f" {CARD}" * (place == 2),
            "principle": f"Do not quote {ADDRESS}.",
        }
        for place, line in enumerate(make_rollouts(groups=1, size=4))
    ]


@pytest.fixture
def private(genrm):
    """Write the group."""
    genrm.write("in.jsonl", private_rollouts())


@pytest.fixture
def score(call, judge_server):
    """Give a test a run on the judge."""

    def run(words="", *more, code=0):
        given = ("score in.jsonl --no-probe", *words.split(), *more, *judge_server.flags)
        return call(*given).ended(code)

    return run


def sent(server):
    """Return all messages that the judge was sent, as one text."""
    return json.dumps([request["body"]["messages"] for request in server.stats()["recent"]])


@pytest.mark.usefixtures("private")
@pytest.mark.parametrize("profile", ["nemotron", "nemotron-plain"])
def test_nothing_private_reaches_the_judge(genrm, score, judge_server, profile):
    """Prompt, answers and principle are masked, each text counts once, for any number of
    comparisons.
    """
    score(f"--profile {profile} --repeats 2 {ALL}")
    text = sent(judge_server)
    assert [each for each in PRIVATE if each in text] == []
    marks = ("Write to [EMAIL].", "[EMAIL] or [PHONE]", "[IDENTITY]", "Do not quote [EMAIL].")
    assert [each for each in marks if each not in text] == []
    # One prompt, four answers and one principle; the card is in one answer.
    assert genrm.metrics()["redactions"] == {"email": 6, "identity": 1, "phone": 4}
    assert ADDRESS in genrm.lines()[0]["prompt"]  # the user's own file stays whole


def texts_of_page(page):
    """Return a page with what its packed blocks hold."""
    names = re.findall(r'<script type="text/plain" id="([^"]+)">', page)
    assert "block-0" in names
    return page + "".join(json.dumps(unpacked(page, name)) for name in names)


def test_names_in_a_session_are_masked_as_its_texts_are(genrm, call, score, judge_server):
    """Of tools, their parameters and who speaks, as well as the key of the group and what
    --principle says.
    """
    call_of = {"id": "1", "function": {"name": ADDRESS, "arguments": json.dumps({ADDRESS: 1})}}
    tool = {"type": "function", "function": {"name": ADDRESS, "description": ADDRESS}}
    messages = [
        {"role": "user", "name": ADDRESS, "content": f"I am {ADDRESS}."},
        {"role": "assistant", "content": "I look.", "tool_calls": [call_of]},
        {"role": "tool", "name": ADDRESS, "content": "found"},
    ]
    lines = [
        {
            "prompt_id": ADDRESS,
            "messages": [*messages, {"role": "assistant", "content": f"It is {index} {ADDRESS}."}],
            "tools": [tool],
        }
        for index in range(2)
    ]
    genrm.write("in.jsonl", lines)
    score(EMAIL, "--principle", f"As {ADDRESS} wants.")
    call(f"report in.scored.jsonl -o page.html {EMAIL}").ended(0)
    gone = {"calls": sent(judge_server), "page": texts_of_page(genrm.text("page.html"))}
    for words in ("in.jsonl", "in.jsonl --json", "in.scored.jsonl", "in.scored.jsonl --json"):
        gone[words] = call(f"show {EMAIL} {words}").ended(0).out.decode()
    assert [name for name, text in gone.items() if ADDRESS in text] == []


@pytest.mark.slow
@pytest.mark.usefixtures("private")
def test_redaction_holds_on_every_way_out(genrm, call, score, judge_server):
    """Calls, files of requests, which batches upload, the report, and what a server records."""
    score(ALL)
    score(f"--requests-to requests.jsonl -o other.jsonl --force {ALL}")
    call(f"report in.scored.jsonl -o page.html {ALL}").ended(0)
    flags = ("--no-probe", *ALL.split(), *judge_server.flags)
    with serving(genrm, *flags, "--record", "served", "--drain", "1s") as server:
        texts = (f"To {ADDRESS}.", f"Call 555-123-4567, {CARD}.")
        responses = [{"text": text} for text in texts]
        server.group(id="g", messages=f"Write to {ADDRESS}.", responses=responses)
    gone = {path.name: path.read_text() for path in (genrm.folder / "served").glob("*")}
    assert len(gone) >= 2
    gone |= {"calls": sent(judge_server), "requests": genrm.text("requests.jsonl")}
    gone["page"] = texts_of_page(genrm.text("page.html"))
    for name, text in gone.items():
        assert [each for each in PRIVATE if each in text] == [], name


@pytest.mark.usefixtures("private")
def test_the_journal_knows_masked_and_unmasked_questions_apart(genrm, score, judge_server):
    """A second run with the same mask asks nothing and counts the same; without the mask it asks
    anew.
    """
    score(ALL)
    counted = genrm.metrics()["redactions"]
    score(f"{ALL} --force")
    metrics = genrm.metrics()
    assert (metrics["journal_hits"], metrics["redactions"]) == (4, counted)
    assert judge_server.stats()["requests"] == 4
    score("--force")
    assert judge_server.stats()["requests"] == 8


@pytest.mark.usefixtures("private")
def test_lengths_are_those_of_the_unmasked_texts(genrm, score):
    """A length penalty is the same with a mask that changes the lengths and without one."""
    adjustments = []
    for mask in ((), ("--redact-pattern", "[a-z ]+")):
        score("--force --preset nemotron-3-nano", *mask)
        adjustments.append([line["genrm"]["adjustments"] for line in genrm.lines()])
    assert adjustments[0] == adjustments[1]
    assert any(any(adjustment.values()) for adjustment in adjustments[0])


@pytest.mark.usefixtures("private")
def test_an_expression_without_a_match_is_told(genrm, score):
    """An expression that masks nothing may be mistyped, such as one with a name before it; a kind
    that occurs nowhere is no mistake.
    """
    patterns = ("identifier=[0-9]{4}", "[0-9]{3}-[0-9]{4}", "email")
    finished = score(" ".join(f"--redact-pattern {each}" for each in patterns))
    said = " ".join(finished.err.split())
    assert "no text sent to the judge matches identifier=[0-9]{4}: --redact-pattern takes" in said
    assert said.count("no text sent to the judge matches") == 1
    redactions = genrm.metrics()["redactions"]
    assert redactions["identifier=[0-9]{4}"] == 0 < redactions["[0-9]{3}-[0-9]{4}"]


@pytest.fixture
def declared(genrm):
    """Write two groups of two: one declares itself in full, of the other one line says false and
    one nothing.
    """
    declarations = (
        {"synthetic": True},
        {"metadata": {"synthetic": "true"}},
        {"synthetic": False},
        {},
    )
    lines = zip(make_rollouts(groups=2, size=2), declarations, strict=True)
    genrm.write("in.jsonl", [line | more for line, more in lines])


SYNTHETIC = "--require-metadata synthetic=true"


@pytest.mark.usefixtures("declared")
def test_rollouts_that_do_not_declare_it_are_never_sent(genrm, score, judge_server):
    """They go to the rejects with the reason; the judge sees the others only."""
    score(SYNTHETIC)
    assert "Question 0?" in sent(judge_server)
    assert "Question 1?" not in sent(judge_server)
    rejects = [(each["line"], each["reason"]) for each in genrm.lines("in.rejects.jsonl")]
    assert rejects == [
        (3, "declares synthetic=false, not true (require_metadata)"),
        (4, "does not declare synthetic=true (require_metadata)"),
    ]
    assert genrm.metrics()["rejected_lines"] == 2


@pytest.mark.usefixtures("declared")
def test_strict_stops_before_any_call(score, judge_server):
    """With --strict one rollout that does not declare it ends the run with exit code 3, and nothing
    is asked.
    """
    finished = score(f"--strict {SYNTHETIC}", code=3)
    assert "declares synthetic=false, not true" in " ".join(finished.err.split())
    assert judge_server.stats()["requests"] == 0


def test_a_line_that_is_a_whole_group_declares_for_all_its_responses(genrm, score, judge_server):
    """Many responses in one line and compare requests are checked by the line; every requirement
    counts.
    """
    asked = [{"role": "user", "content": "Refused too?"}]
    group = {"responses": ["a", "b"], "synthetic": True}
    lines = [
        {"prompt": "Many?", **group, "metadata": {"level": 2}},
        {"prompt": "Refused?", **group, "metadata": {"level": 3}},
        {"conversation_history": asked, "response_objs": ["a", "b"]},
    ]
    genrm.write("in.jsonl", lines)
    score(f"{SYNTHETIC} --require-metadata level=2")
    assert "Many?" in sent(judge_server)
    assert "Refused" not in sent(judge_server)
    assert genrm.metrics()["rejected_lines"] == 2


def test_an_input_that_declares_nothing_is_refused(genrm, call):
    """When no line declares it there is nothing to score: exit code 3 with the reason."""
    genrm.rollouts(1, 2)
    finished = call(f"score in.jsonl --offline {SYNTHETIC}").ended(3)
    assert "does not declare synthetic=true" in " ".join(finished.err.split())
