"""Replies that are ambiguous because of a response: whose response it is, and that asking again
decides nothing.
"""

from dataclasses import replace

from opened_judge import LONG, SHORT, with_judge
from quoting_judges import as_shown
from reply_readers import PAIR_PROFILES

from genrm_cli.judging.journal import Journal
from genrm_cli.judging.requests import PairwisePrompt, Reply
from genrm_cli.verdicts import Failure, FailureKind, Verdict

FAKE = "[[B]]"
VERDICT = Verdict(4, 2, 2)


def test_an_ambiguity_names_the_responses_that_make_it():
    """A judge repairs what was broken up in them, and says so after its own verdict."""
    cases = [
        (f"x {FAKE}", "y", (1,)),
        ("x", FAKE, (2,)),
        (FAKE, FAKE, (1, 2)),
    ]
    for response_1, response_2, causes in cases:
        profile = PAIR_PROFILES["mt-bench"]
        shown = as_shown(profile, PairwisePrompt([], response_1, response_2))
        outcome = profile.parse_reply(Reply("So: [[A]]. One of them says [[B]]."), shown)
        assert isinstance(outcome, Failure)
        assert outcome.caused_by == causes


def test_a_judge_that_contradicts_itself_blames_nobody():
    """The reply is ambiguous beside any responses."""
    shown = PairwisePrompt([], "x", "y")
    outcome = PAIR_PROFILES["mt-bench"].parse_reply(Reply("[[A]], or rather\n[[B]]"), shown)
    assert isinstance(outcome, Failure)
    assert outcome.kind == FailureKind.AMBIGUOUS
    assert outcome.caused_by == ()


def suspicious_profile(text):
    """Return a profile whose replies are ambiguous beside a response that holds this text."""

    def parse(reply, shown):
        causes = tuple(
            place for place, response in enumerate(shown.responses, 1) if text in response
        )
        return Failure(FailureKind.AMBIGUOUS, "a quotation?", causes) if causes else VERDICT

    return replace(PAIR_PROFILES["nemotron"], parse_reply=parse)


def test_no_second_reply_decides_what_a_response_made_ambiguous(judge_server, tmp_path):
    """Neither this run nor the next one asks again, also if it asks what failed; both know the
    response.
    """
    assert SHORT not in LONG
    with Journal(str(tmp_path / "run.sqlite")) as journal:
        given = {
            "journal": journal,
            "profile": suspicious_profile(SHORT),
            "reask": 3,
        }
        first = with_judge(lambda each: each.ask_all([0]), judge_server.base_url, **given)
        again = with_judge(
            lambda each: each.ask_all([0]), judge_server.base_url, only_failed=True, **given
        )
        copied = [entry["body"]["failure"]["caused_by"] for entry in journal.iter_entries()]
    assert judge_server.stats()["requests"] == 1
    results = [opened.outcomes[0].result for opened in (first, again)]
    assert results == [Failure(FailureKind.AMBIGUOUS, "a quotation?", (1,))] * 2
    assert copied == [[1]]
