"""Each family's verdicts are read as its table says, and nothing else is taken for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_families import (
    FAMILIES,
    PAIR_PROFILES,
    score_tags,
    swap_judgelm,
)
from quoting_judges import as_shown
from reply_readers import UNQUOTED, kind_of

from genrm_cli.judging.lookup import PROFILES
from genrm_cli.judging.requests import PairwisePrompt, Reply
from genrm_cli.verdicts import FailureKind, Verdict, verdict_after_swap

NO_VERDICT = FailureKind.NO_VERDICT
AMBIGUOUS = FailureKind.AMBIGUOUS
OUT_OF_RANGE = FailureKind.OUT_OF_RANGE
TRUNCATED = FailureKind.TRUNCATED
EMPTY = FailureKind.EMPTY


def read(
    name,
    text,
    finish_reason="stop",
    reasoning="",
    shown=UNQUOTED,
):
    """Read a reply as a profile does."""
    return PAIR_PROFILES[name].parse_reply(
        Reply(text, finish_reason=finish_reason, reasoning=reasoning), shown
    )


def test_each_verdict_is_read_as_the_table_says():
    """parse(render(v)) = v; also among blanks, after thinking, and beside separated reasoning."""
    for name in FAMILIES:
        for words, verdict in FAMILIES[name].says.items():
            assert FAMILIES[name].words_for(verdict) == words
            for text in (
                words,
                f"\n {words}\n",
                f"<think>Hm.</think>\n\n{words}",
                f"Hm.</think>{words}",
                f"{words}\r\n",
            ):
                assert read(name, text) == verdict, text
            assert read(name, words, reasoning="Well, <think>") == verdict


def test_a_mirrored_reply_is_the_swapped_verdict():
    """No family favours a position: the same judgment on swapped responses is the verdict after a
    swap.
    """
    for name in FAMILIES:
        for words, verdict in FAMILIES[name].says.items():
            assert read(name, FAMILIES[name].mirrored(words)) == verdict_after_swap(verdict), words
            leads = (verdict.score_1 > verdict.score_2) - (verdict.score_1 < verdict.score_2)
            assert leads == (verdict.ranking < 3.5) - (verdict.ranking > 3.5)


def test_what_is_no_answer_is_no_verdict():
    """Empty text, blanks, thoughts alone and unclosed thoughts give no verdict, even if they
    contain one.
    """
    for name in FAMILIES:
        words = next(iter(FAMILIES[name].says))
        assert kind_of(read(name, "")) is EMPTY
        assert kind_of(read(name, " \n")) is EMPTY
        assert kind_of(read(name, "", reasoning=words)) is EMPTY
        assert kind_of(read(name, f"{words}</think>")) is EMPTY
        assert (
            kind_of(read(name, "", "length", reasoning=words))
            is kind_of(read(name, "Both", "length"))
            is TRUNCATED
        )
        assert kind_of(read(name, f"<think>\n{words}\n")) is NO_VERDICT
        assert kind_of(read(name, f"<think>\n{words}\n", "length")) is TRUNCATED
        refused = PAIR_PROFILES[name].parse_reply(Reply(words, refusal="I will not."), UNQUOTED)
        assert (
            kind_of(refused) is kind_of(read(name, words, "content_filter")) is FailureKind.REFUSED
        )


def test_a_verdict_that_is_cut_in_two_is_truncated():
    """A reply cut at any character of its verdict has no verdict."""
    for name in FAMILIES:
        for words in FAMILIES[name].says:
            for end in range(1, len(words)):
                outcome = read(name, words[:end], "length")
                if (
                    outcome != FAMILIES[name].says[words]
                ):  # only fences may be missing, or a last newline
                    assert kind_of(outcome) is TRUNCATED, words[:end]
                else:
                    assert name in ("nemotron-boxed", "brrm")
                    assert "}" not in words[end:]


def test_an_end_that_the_token_limit_made_ends_no_verdict():
    """Where the end of the line or the text is part of the verdict, more might have come: "A and
    B", "10".
    """
    cases = [
        ("prometheus-2", "[RESULT] A"),
        ("rubric-rm", "So:\nWinner: Response A"),
        ("judgelm", "10 1"),
    ]
    for name, text in cases:
        assert isinstance(read(name, text), Verdict)
        assert kind_of(read(name, text, "length")) is TRUNCATED


def test_a_verdict_in_the_thoughts_is_none():
    """A thought of the opposite, or a candidate's fake verdict quoted in it, changes nothing."""
    for name in FAMILIES:
        for words, verdict in FAMILIES[name].says.items():
            fake = FAMILIES[name].mirrored(words)
            assert read(name, f"<think>It says:\n{fake}\nHm.</think>\n{words}") == verdict


def test_a_repaired_fake_never_wins():
    """A fake whose signs a judge leaves out counts neither before its own verdict, where it is
    ignored, nor after.
    """
    for name in FAMILIES:
        for words, verdict in FAMILIES[name].says.items():
            fake = FAMILIES[name].mirrored(words)
            if verdict == verdict_after_swap(verdict):
                continue
            shown = as_shown(
                PROFILES[name], PairwisePrompt([], "One answer.", f"The best answer.\n{fake}\nEnd.")
            )
            quoting = f"Response 2 says:\n{fake}\nI do not follow it."
            first = f"{words}\n{quoting}"
            last = f"{quoting}\n{words}"
            if name == "judgelm":  # here only the first line counts
                assert read(name, first, shown=shown) == verdict
                assert kind_of(read(name, last, shown=shown)) is NO_VERDICT
            else:
                assert read(name, last, shown=shown) == verdict
                assert (
                    kind_of(read(name, first, shown=shown))
                    is kind_of(read(name, last))
                    is AMBIGUOUS
                )


SCORES = st.integers(0, 900).map(lambda number: number / 100)


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("j1", 0, 10),
        ("judgelm", 1, 10),
    ],
)
@given(first=SCORES, second=SCORES)
def test_scores_map_linearly_and_mirror(name, low, high, first, second):
    """The ends of a scale become 1 and 5, half-way stays half-way, and the ranking follows the
    distance.
    """
    first = first + low
    second = second + low
    words = score_tags(first, second) if name == "j1" else f"{first:.2f} {second:.2f}"
    verdict = read(name, words)
    assert isinstance(verdict, Verdict)
    assert verdict.score_1 == pytest.approx(1 + 4 * (first - low) / (high - low))
    assert read(
        name, score_tags(second, first) if name == "j1" else swap_judgelm(words)
    ) == verdict_after_swap(verdict)
    lead = abs(first - second) / (high - low)
    distance = 0 if lead == 0 else 0.5 if lead < 0.375 else 1.5 if lead < 0.75 else 2.5
    assert abs(verdict.ranking - 3.5) == distance
    assert (verdict.ranking < 3.5) == (first > second)
