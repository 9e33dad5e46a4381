"""What may be sent to a judge: masked texts only, of rollouts that declare what they must."""

import json
import re

import pytest
from genrm_process import make_rollouts
from report_pages import unpacked
from served import serving

MODEL = "nvidia/Qwen3-Nemotron-235B-A22B-GenRM-2603"
ADDRESS = "ana.lima@example.com"
CARD = "4111 1111 1111 1111"
REDACT_ALL = tuple(
    part for name in ("email", "phone", "identity") for part in ("--redact-pattern", name)
)


def private_rollouts():
    """Make one group of four with private data in prompt, answers and principle."""
    return [
        {
            **line,
            "prompt": f"Question 0? Write to {ADDRESS}.",
            "completion": f"{line['completion']} {ADDRESS} or 555-123-4567"
            + f" {CARD}" * (place == 2),
            "principle": f"Do not quote {ADDRESS}.",
        }
        for place, line in enumerate(make_rollouts(groups=1, size=4))
    ]


def judge(server, *more):
    """Name a judge on the command line."""
    return (
        "--base-url",
        server.base_url,
        "--model",
        MODEL,
        *more,
    )


def sent(server):
    """Return all messages that the judge was sent, as one text."""
    return json.dumps([request["body"]["messages"] for request in server.stats()["recent"]])


@pytest.mark.parametrize("profile", ["nemotron", "nemotron-plain"])
def test_nothing_private_reaches_the_judge(genrm, call, judge_server, profile):
    """Prompt, answers and principle are masked, each text counts once, for any number of
    comparisons.
    """
    genrm.write("in.jsonl", private_rollouts())
    call(
        "score in.jsonl", *judge(judge_server, "--profile", profile, "--repeats", 2, *REDACT_ALL)
    ).ended(0)
    text = sent(judge_server)
    for private in (ADDRESS, "example.com", "555-123-4567", CARD):
        assert private not in text
    for shown in (
        "Write to [EMAIL].",
        "[EMAIL] or [PHONE]",
        "[IDENTITY]",
        "Do not quote [EMAIL].",
    ):
        assert shown in text
    # One prompt, four answers and one principle; the card is in one answer.
    assert genrm.metrics()["redactions"] == {"email": 6, "identity": 1, "phone": 4}
    assert ADDRESS in genrm.lines("in.scored.jsonl")[0]["prompt"]  # the user's own file stays whole


def texts_of_page(path):
    """Return a page with what its packed blocks hold."""
    page = path.read_text(encoding="utf-8")
    names = re.findall(r'<script type="text/plain" id="([^"]+)">', page)
    assert "block-0" in names
    return page + "".join(json.dumps(unpacked(page, name)) for name in names)


def test_names_in_a_session_are_masked_as_its_texts_are(genrm, call, judge_server):
    """Of tools, their parameters and who speaks, as well as the key of the group."""
    call_of = {"id": "1", "function": {"name": ADDRESS, "arguments": json.dumps({ADDRESS: 1})}}
    lines = [
        {
            "prompt_id": ADDRESS,
            "messages": [
                {"role": "user", "name": ADDRESS, "content": "Q?"},
                {"role": "assistant", "content": "I look.", "tool_calls": [call_of]},
                {"role": "tool", "name": ADDRESS, "content": "found"},
                {"role": "assistant", "content": f"It is {index}."},
            ],
            "tools": [{"type": "function", "function": {"name": ADDRESS, "description": ADDRESS}}],
        }
        for index in range(2)
    ]
    genrm.write("in.jsonl", lines)
    flags = judge(judge_server, "--no-probe", "--redact-pattern", "email")
    call("score in.jsonl", *flags).ended(0)
    call("report in.scored.jsonl -o page.html --redact-pattern email").ended(0)
    gone = {"calls": sent(judge_server), "page": texts_of_page(genrm.folder / "page.html")}
    for words in ("in.jsonl", "in.jsonl --json", "in.scored.jsonl", "in.scored.jsonl --json"):
        gone[words] = call("show --redact-pattern email", *words.split()).ended(0).out.decode()
    assert [name for name, text in gone.items() if ADDRESS in text] == []


@pytest.mark.slow
def test_redaction_holds_on_every_way_out(genrm, call, judge_server, tmp_path):
    """Calls, files of requests, which batches upload, the report, and what a server records."""
    genrm.write("in.jsonl", private_rollouts())
    flags = judge(judge_server, "--no-probe", *REDACT_ALL)
    call("score in.jsonl", *flags).ended(0)
    call("score in.jsonl --requests-to requests.jsonl -o other.jsonl --force", *flags).ended(0)
    call("report in.scored.jsonl -o page.html", *REDACT_ALL).ended(0)
    with serving(genrm, *flags, "--record", "served", "--drain", "1s") as server:
        server.group(
            id="g",
            messages=f"Write to {ADDRESS}.",
            responses=[{"text": f"To {ADDRESS}."}, {"text": f"Call 555-123-4567, {CARD}."}],
        )
    gone = {"calls": sent(judge_server)}
    gone["requests.jsonl"] = genrm.text("requests.jsonl")
    gone["page.html"] = texts_of_page(genrm.folder / "page.html")
    for path in (genrm.folder / "served").glob("*"):
        gone[path.name] = path.read_text(encoding="utf-8")
    assert len(gone) >= 5
    for name, text in gone.items():
        for private in (ADDRESS, "555-123-4567", CARD):
            assert private not in text, name


def test_an_episode_and_the_principle_flag_are_masked_too(genrm, call, judge_server):
    """A session shown as one transcript, and what --principle says, pass the same mask."""
    turns = [{"role": "user", "content": f"I am {ADDRESS}."}]
    episodes = [
        {
            "prompt_id": "p",
            "messages": [*turns, {"role": "assistant", "content": f"{reply} {ADDRESS}"}],
        }
        for reply in ("Hello", "Good day to you")
    ]
    genrm.write("in.jsonl", episodes)
    arguments = judge(
        judge_server, "--principle", f"As {ADDRESS} wants.", "--redact-pattern", "email"
    )
    call("score in.jsonl", *arguments).ended(0)
    assert "example.com" not in sent(judge_server)
    assert genrm.metrics()["redactions"] == {"email": 4}


def test_the_journal_knows_masked_and_unmasked_questions_apart(genrm, call, judge_server):
    """A second run with the same mask asks nothing and counts the same; without the mask it asks
    anew.
    """
    genrm.write("in.jsonl", private_rollouts())
    arguments = (
        "score",
        "in.jsonl",
        *judge(judge_server),
        "--no-probe",
        "--force",
    )
    call(*arguments, *REDACT_ALL).ended(0)
    counted = genrm.metrics()["redactions"]
    call(*arguments, *REDACT_ALL).ended(0)
    assert judge_server.stats()["requests"] == 4
    assert genrm.metrics()["journal_hits"] == 4
    assert genrm.metrics()["redactions"] == counted
    call(*arguments).ended(0)
    assert judge_server.stats()["requests"] == 8


def test_lengths_are_those_of_the_unmasked_texts(genrm, call, judge_server):
    """A length penalty is the same with a mask that changes the lengths and without one."""
    genrm.write("in.jsonl", private_rollouts())
    arguments = (
        "score",
        "in.jsonl",
        *judge(judge_server),
        "--force",
        "--preset",
        "nemotron-3-nano",
    )
    adjustments = []
    for mask in ((), ("--redact-pattern", "[a-z ]+")):
        call(*arguments, *mask).ended(0)
        lines = genrm.lines("in.scored.jsonl")
        adjustments.append([line["genrm"]["adjustments"] for line in lines])
    assert adjustments[0] == adjustments[1]
    assert any(any(adjustment.values()) for adjustment in adjustments[0])


def test_a_pattern_that_cannot_be_used_is_a_usage_error(call):
    """Exit code 2, with the flag and what is wrong, before the input is looked at."""
    cases = [
        ("(", "--redact-pattern", "not a regular expression"),
        ("x*", "--redact-pattern", "matches the empty string"),
        ("emails", "--redact-pattern", "Did you mean email?"),
        ("email,phone", "--redact-pattern", "pass each separately"),
    ]
    for pattern, where, problem in cases:
        finished = call("score missing.jsonl --judge lexical --redact-pattern", pattern).ended(2)
        for part in (where, problem):
            assert part in " ".join(finished.err.split())


def test_an_expression_without_a_match_is_told(genrm, call, judge_server):
    """An expression that masks nothing may be mistyped, such as one with a name before it; a kind
    that occurs nowhere is no mistake.
    """
    genrm.write("in.jsonl", private_rollouts())
    patterns = ("identifier=[0-9]{4}", "[0-9]{3}-[0-9]{4}", "email")
    flags = [part for each in patterns for part in ("--redact-pattern", each)]
    err = " ".join(call("score in.jsonl", *judge(judge_server), *flags).ended(0).err.split())
    assert "no text sent to the judge matches identifier=[0-9]{4}: --redact-pattern takes" in err
    assert err.count("no text sent to the judge matches") == 1
    redactions = genrm.metrics()["redactions"]
    assert redactions["identifier=[0-9]{4}"] == 0
    assert redactions["[0-9]{3}-[0-9]{4}"] > 0


def declared_rollouts():
    """Make two groups of two: one declares itself in full, of the other one line says false and one
    nothing.
    """
    lines = make_rollouts(groups=2, size=2)
    lines[0]["synthetic"] = True
    lines[1]["metadata"] = {"synthetic": "true"}
    lines[2]["synthetic"] = False
    return lines


def test_rollouts_that_do_not_declare_it_are_never_sent(genrm, call, judge_server):
    """They go to the rejects with the reason; the judge sees the others only."""
    genrm.write("in.jsonl", declared_rollouts())
    arguments = judge(judge_server, "--no-probe", "--require-metadata", "synthetic=true")
    call("score in.jsonl", *arguments).ended(0)
    assert "Question 0?" in sent(judge_server)
    assert "Question 1?" not in sent(judge_server)
    rejects = genrm.lines("in.rejects.jsonl")
    assert [(reject["line"], reject["reason"]) for reject in rejects] == [
        (3, "declares synthetic=false, not true (require_metadata)"),
        (4, "does not declare synthetic=true (require_metadata)"),
    ]
    assert genrm.metrics()["rejected_lines"] == 2


def test_strict_stops_before_any_call(genrm, call, judge_server):
    """With --strict one rollout that does not declare it ends the run with exit code 3, and nothing
    is asked.
    """
    genrm.write("in.jsonl", declared_rollouts())
    finished = call(
        "score in.jsonl", *judge(judge_server, "--strict", "--require-metadata", "synthetic=true")
    ).ended(3)
    assert "declares synthetic=false, not true" in " ".join(finished.err.split())
    assert judge_server.stats()["requests"] == 0


def test_a_line_that_is_a_whole_group_declares_for_all_its_responses(genrm, call, judge_server):
    """Many responses in one line and compare requests are checked by the line; every requirement
    counts.
    """
    lines = [
        {
            "prompt": "Many?",
            "responses": ["a", "b"],
            "synthetic": True,
            "metadata": {"level": 2},
        },
        {
            "prompt": "Refused?",
            "responses": ["a", "b"],
            "synthetic": True,
            "metadata": {"level": 3},
        },
        {
            "conversation_history": [{"role": "user", "content": "Refused too?"}],
            "response_objs": ["a", "b"],
        },
    ]
    genrm.write("in.jsonl", lines)
    required = ["--require-metadata", "synthetic=true", "--require-metadata", "level=2"]
    call("score in.jsonl", *judge(judge_server, *required)).ended(0)
    assert "Many?" in sent(judge_server)
    assert "Refused" not in sent(judge_server)
    assert genrm.metrics()["rejected_lines"] == 2


def test_an_input_that_declares_nothing_is_refused(genrm, call):
    """When no line declares it there is nothing to score: exit code 3 with the reason."""
    genrm.rollouts(1, 2)
    finished = call("score in.jsonl --judge lexical --require-metadata synthetic=true").ended(3)
    assert "does not declare synthetic=true" in " ".join(finished.err.split())
