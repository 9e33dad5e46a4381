import json

import pytest
from disturbed_scoring import JOURNAL
from judge_behaviour import render_judgement

from genrm_cli.judging.journal import Journal

KEY = "sk-local/0123+456789abcdef"
FOUR_OF_16 = 4  # a seed under which a share of 0.25 meets four of the sixteen comparisons

BAD_REPLIES = {
    "reset before the reply": ({"reset": "before"}, (), "connection"),
    "no reply": ({"hang": True}, ("--call-timeout", 0.4), "timeout"),
    "invalid JSON": ({"body": '{"choices": [{"message": {"content": "sco'}, (), "bad_body"),
    "HTML with 200": (
        {"body": "<html>Welcome</html>", "content_type": "text/html"},
        (),
        "bad_body",
    ),
    "cut off before the answer": ({"content": "", "finish_reason": "length"}, (), "truncated"),
    "no verdict": ({"content": "I would rather not."}, (), "no_verdict"),
    "scores out of range": (
        {"content": '{"score_1": 9, "score_2": -1, "ranking": 7}'},
        (),
        "out_of_range",
    ),
    "50 MB in a small gzip": ({"huge_bytes": 50_000_000, "gzip": True}, (), "bad_body"),
    "400": ({"status": 400}, (), "refused"),
    "a redirect": (
        {
            "status": 307,
            "headers": {"Location": "http://127.0.0.1:9/"},
        },
        (),
        "http",
    ),
}


@pytest.mark.parametrize("name", BAD_REPLIES)
def test_a_bad_reply_is_a_failure_and_asked_again_next_time(scoring, name):
    """Some comparisons get nothing but bad replies: they fail with their kind, the others count,
    and a resume mends.
    """
    fault, arguments, kind = BAD_REPLIES[name]
    scoring.server.behave(fault=fault, fault_share=0.25, seed=FOUR_OF_16)
    scoring.run("--retries", 0, "--max-unscored", 1, *arguments).ended(0)
    metrics = scoring.check_honest()
    assert metrics["failures_by_kind"] == {kind: 4}
    assert metrics["verdicts"] == scoring.journaled() == 12
    scoring.check_resumes()


@pytest.mark.parametrize(
    "fault", [{"gzip": True}, {"chunked": True}, {"gzip": True, "chunked": True}]
)
def test_the_framing_of_a_reply_does_not_matter(scoring, fault):
    """Compressed replies, and those without a length, are read like others."""
    scoring.server.behave(fault=fault)
    scoring.run().ended(0)
    assert scoring.check_honest()["retries"] == 0
    scoring.check_undisturbed()


@pytest.mark.parametrize("status", [401, 200])
def test_an_echoed_key_is_found_nowhere(scoring, status):
    """A judge that repeats the key, in an error or in an answer, gets it into nothing that is kept
    or said.
    """
    if status == 401:
        fault = {"echo_authorization": True}
    else:
        fault = {"content": f"You sent Bearer {KEY}. {render_judgement((4, 2, 2), 20)}"}
    scoring.server.behave(fault=fault, fault_share=0.25, seed=FOUR_OF_16)
    keeps = (
        "--keep-replies",
        "--log-json",
        scoring.folder / "events.jsonl",
        "--retries",
        1,
        "--max-unscored",
        1,
    )
    finished = scoring.run(*keeps, GENRM_API_KEY=KEY).ended(0)
    with Journal(str(scoring.folder / JOURNAL)) as journal:
        exported = json.dumps(list(journal.iter_entries()))
    assert "[key]" in exported
    written = [path.read_bytes().decode(errors="replace") for path in scoring.folder.iterdir()]
    for shown in (
        finished.out.decode(),
        finished.err,
        exported,
        *written,
    ):
        for part in (
            KEY,
            KEY[:12],
            KEY[-12:],
            json.dumps(KEY)[1:-1].replace("/", "\\/"),
        ):
            assert part not in shown
    if status == 401:
        scoring.check_honest()
        scoring.check_resumes()
