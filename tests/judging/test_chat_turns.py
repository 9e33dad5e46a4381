"""A chat model's next turn: asked, stored and recalled like a verdict, and never a number."""

import asyncio
from pathlib import Path

import pytest

from genrm_cli.judging.journal import Journal
from genrm_cli.judging.profiles.profile import ChatProfile, render_messages
from genrm_cli.judging.requests import ChatPrompt, Reply
from genrm_cli.verdicts import ChatTurn, Failure, FailureKind, Outcome

PROFILE = ChatProfile("policy", 1, "takes part", {})
PROMPT = ChatPrompt([("system", "Be kind."), ("user", "Hello.")])
KEY = b"k" * 32


def test_turns_are_sent_as_they_are() -> None:
    """No frame and no marker: the policy sees the conversation and nothing else."""
    assert render_messages(PROFILE, PROMPT) == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hello."},
    ]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply("Hi."), ChatTurn()),
        (Reply("Hi, and", finish_reason="length"), ChatTurn(is_truncated=True)),
        (Reply(" \n"), FailureKind.EMPTY),
        (Reply("", finish_reason="length"), FailureKind.TRUNCATED),
        (Reply("", refusal="I won't."), FailureKind.REFUSED),
        (Reply("", finish_reason="content_filter"), FailureKind.REFUSED),
    ],
)
def test_any_text_is_an_answer_and_no_text_is_a_failure(
    reply: Reply, expected: ChatTurn | FailureKind
) -> None:
    """A turn that the limit cut is a turn; silence is a failure with its kind."""
    read = PROFILE.parse_reply(reply, PROMPT)
    assert (read.kind if isinstance(read, Failure) else read) == expected


@pytest.mark.parametrize("said", [ChatTurn(), ChatTurn(is_truncated=True)])
def test_a_turn_survives_the_journal_and_its_copy(tmp_path: Path, said: ChatTurn) -> None:
    """Text, tokens and whether it was cut come back, here and in a journal that took the entries
    in.
    """
    path = str(tmp_path / "turns.sqlite")
    with Journal(path) as journal:
        asyncio.run(journal.record(KEY, "p", Outcome(said, 1, 0.5, 10, 20, 0, "Hi, “you”.")))
    with Journal(path) as journal, Journal(str(tmp_path / "copy.sqlite")) as copy:
        copy.take_in(journal.iter_entries())
        for each in (journal, copy):
            outcome = each.recall(KEY, with_reply=True)
            assert outcome is not None
            assert (outcome.result, outcome.reply_text, outcome.completion_tokens) == (
                said,
                "Hi, “you”.",
                20,
            )
            assert each.damaged == set()
