"""An unfinished answer is no answer: for every profile, in every family's thoughts, and for every
reason why a reply ends.
"""

import pytest
from judge_families import WORDING
from reply_readers import JUDGES

from genrm_cli.verdicts import Failure, FailureKind

FINISHED = ("stop", "eos", "eos_token", "end_turn", "stop_sequence", "tool_calls", "STOP")
UNFINISHED = (
    "length",
    "abort",
    "insufficient_system_resource",
    "network_error",
    "MAX_TOKENS",
    "model_context_window_exceeded",
    None,
)
THOUGHTS = WORDING["thoughts"]
EVERY = pytest.mark.parametrize("name", JUDGES)


@EVERY
def test_a_draft_in_an_open_thought_never_counts(name):
    """Neither where the thought is cut off nor where the server calls the reply finished."""
    judge = JUDGES[name]
    for begin in THOUGHTS:
        for draft in (f"At first sight\n{judge.draft}", f"At first sight\n{judge.draft}\n, but"):
            for reason in ("stop", "length", "abort", None):
                outcome = judge.read(begin + draft, reason)
                assert isinstance(outcome, Failure), (begin, reason, outcome)
                cut = FailureKind.TRUNCATED if reason in ("length", "abort") else None
                assert cut in (None, outcome.kind)


@EVERY
def test_a_finished_thought_is_removed_before_the_verdict_is_read(name):
    """In the tags of any family, also where the chat template wrote the opening one: the draft in
    it makes nothing ambiguous.
    """
    judge = JUDGES[name]
    expected = judge.read(judge.final, "stop")
    assert not isinstance(expected, Failure)
    for begin, end in THOUGHTS.items():
        thought = f"At first sight\n{judge.draft}\n, but no.{end}"
        assert judge.read(f"{begin}{thought}\n{judge.final}", "stop") == expected, begin
        if end.startswith(("</", "[/", "◁/")):
            assert judge.read(f"{thought}{judge.final}", "stop") == expected, end


@EVERY
def test_a_draft_in_a_cut_reply_never_counts(name):
    """Whatever the server calls the end, and where it calls it nothing."""
    judge = JUDGES[name]
    for reason in UNFINISHED:
        outcome = judge.read(f"{judge.draft}\nseems right, but on a closer look assistant", reason)
        assert isinstance(outcome, Failure), reason
        kind = FailureKind.NO_VERDICT if reason is None else FailureKind.TRUNCATED
        assert outcome.kind is kind


@EVERY
def test_a_finished_reply_counts_by_any_name(name):
    """Servers have several words for an end that the judge chose."""
    judge = JUDGES[name]
    expected = judge.read(judge.final, "stop")
    for reason in FINISHED:
        assert judge.read(judge.final, reason) == expected


@EVERY
def test_a_verdict_at_the_very_end_counts_if_nothing_could_follow(name):
    """Brackets, tags and objects end themselves; a number may be the beginning of a longer one."""
    judge = JUDGES[name]
    expected = judge.read(judge.final, "stop")
    is_open = judge.final[-1].isalnum()
    for reason in UNFINISHED:
        outcome = judge.read(judge.final, reason)
        if is_open and (reason is not None or judge.final[-1].isdecimal()):
            assert isinstance(outcome, Failure)
        else:
            assert outcome == expected, reason


def test_a_number_that_was_cut_is_no_number():
    """`8 1` of `8 10` is no verdict of JudgeLM; nor is a score of a profile of one's own."""
    judge = JUDGES["judgelm"]
    for reason in UNFINISHED:
        assert isinstance(judge.read("8 1", reason), Failure)
        assert isinstance(judge.read("8 10\nThe first is", reason), Failure)


def test_a_tag_that_is_mentioned_begins_no_thought():
    """Judges name the tags that a task asks for; only a tag that is used hides what follows."""
    for said in ("`<reasoning>` is missing", "It lacks the <reasoning> tags", "(<think>) stays"):
        for name, words in (("mt-bench", "[[A]]"), ("arena-hard", "[[A>B]]")):
            judge = JUDGES[name]
            expected = judge.read(words, "stop")
            assert judge.read(f"{said}. {words}", "stop") == expected
            assert judge.read(f"So it lacks <reasoning>.</think>{words}", "stop") == expected
