"""A chat model's next turn: asked, stored and recalled like a verdict, and never a number."""

import asyncio

from stored_outcomes import verdict_in

from genrm_cli.judging.journal import Journal
from genrm_cli.judging.profiles.profile import ChatProfile, render_messages
from genrm_cli.judging.requests import ChatPrompt, Reply
from genrm_cli.verdicts import ChatTurn, Failure, FailureKind, Outcome

PROFILE = ChatProfile(name="policy", version=1, about="takes part", request_fields={})
PROMPT = ChatPrompt(
    [
        ("system", "Be kind."),
        ("user", "Hello."),
    ]
)
KEY = b"k" * 32


def test_turns_are_sent_as_they_are():
    """No frame and no marker: the policy sees the conversation and nothing else."""
    assert render_messages(PROFILE, PROMPT) == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hello."},
    ]


def test_any_text_is_an_answer_and_no_text_is_a_failure():
    """A turn that a limit or its server cut is a turn; silence is a failure with its kind. A server
    that gives no reason has cut nothing.
    """
    cases = [
        (Reply("Hi."), ChatTurn()),
        (Reply("Hi, and", finish_reason="length"), ChatTurn(is_truncated=True)),
        (Reply("Hi.", finish_reason="EOS_TOKEN"), ChatTurn()),
        (Reply("Hi, and", finish_reason="max_tokens"), ChatTurn(is_truncated=True)),
        (Reply("Hi, and", finish_reason="abort"), ChatTurn(is_truncated=True)),
        (Reply(" \n"), FailureKind.EMPTY),
        (Reply("", finish_reason="abort"), FailureKind.TRUNCATED),
        (Reply("", finish_reason="length"), FailureKind.TRUNCATED),
        (Reply("", refusal="I won't."), FailureKind.REFUSED),
        (Reply("", finish_reason="content_filter"), FailureKind.REFUSED),
    ]
    for reply, expected in cases:
        read = PROFILE.parse_reply(reply, PROMPT)
        assert (read.kind if isinstance(read, Failure) else read) == expected


def test_a_turn_survives_the_journal_and_its_copy(tmp_path):
    """Text, tokens and whether it was cut come back, here and in a journal that took the entries
    in.
    """
    text = "Hi, “you”."
    for name, said in {
        "whole": ChatTurn(),
        "cut": ChatTurn(is_truncated=True),
    }.items():
        path = str(tmp_path / f"{name}.sqlite")
        with Journal(path) as journal:
            asyncio.run(journal.record(KEY, "p", Outcome(said, 1, 0.5, 10, 20, text)))
        with Journal(path) as journal, Journal(str(tmp_path / f"{name}.copy.sqlite")) as copy:
            copy.import_entries(journal.iter_entries())
            for each in (journal, copy):
                outcome = verdict_in(each, KEY, with_reply=True)
                assert outcome is not None
                assert outcome.result == said
                assert outcome.reply_text == text
                assert outcome.completion_tokens == 20
                assert each.damaged == set()
