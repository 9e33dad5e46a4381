"""The embedded judge: fair, bounded, deterministic, and right where the difference is plain to
see.
"""

from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.judging.lexical import (
    LEXICAL_VERSION,
    READ_CHARS,
    judge_lexically,
    score_response,
)
from genrm_cli.judging.requests import PairwisePrompt

QUESTION = "How do I store fresh basil so that it stays green for a week?"
GOOD = (
    "Trim the stems of the basil, stand them in a glass with two fingers of water and cover the "
    "leaves with "
    "a bag. Leave it at room temperature, because the cold of a fridge turns the leaves black. "
    "Change the "
    "water every second day, and the basil stays green for about a week."
)
WORSE = {
    "nothing": "",
    "whitespace": " \n\t \u3000",
    "refusal": "I'm sorry, but I can't help with that.",
    "polite refusal": "As an AI language model, I do not store herbs, so I can offer nothing on "
    "basil here.",
    "off topic": "The tram leaves every nine minutes until midnight and stops at the museum and "
    "the harbour.",
    "truncated": GOOD[: GOOD.index("because") + len("because the")],
    "echo": QUESTION,
    "one word": "Fridge.",
    "stuck": "Basil stays green. " * 25,
    "one word again and again": "basil " * 80,
    "unclosed code": GOOD + "\n```\nbasil --keep",
}

KNOWN = {
    "good": 4.02,
    "nothing": 1.0,
    "whitespace": 1.0,
    "refusal": 1.31,
    "polite refusal": 1.48,
    "off topic": 2.25,
    "truncated": 2.28,
    "echo": 1.59,
    "one word": 1.83,
    "stuck": 1.07,
    "one word again and again": 1.01,
    "unclosed code": 3.13,
}

TEXTS = st.text(max_size=400)
TURNS = st.lists(
    st.tuples(st.sampled_from(["user", "assistant", "system"]), st.text(max_size=80)), max_size=3
)


def prompt_of(response_1, response_2, question=QUESTION, principle=None):
    """Show two responses to one user turn."""
    return PairwisePrompt([("user", question)], response_1, response_2, principle)


def test_a_good_answer_beats_an_obviously_bad_one_in_both_places():
    """A complete answer wins over empty, refusing, off-topic, cut, echoing and repeating ones."""
    for kind in WORSE:
        first = judge_lexically(prompt_of(GOOD, WORSE[kind]))
        second = judge_lexically(prompt_of(WORSE[kind], GOOD))
        assert first.score_1 > first.score_2
        assert first.ranking < 3.5 < second.ranking


@given(TURNS, TEXTS, TEXTS)
def test_swapping_the_responses_mirrors_the_verdict(conversation, response_1, response_2):
    """Swapped responses get swapped scores and the ranking 7 - r."""
    verdict = judge_lexically(PairwisePrompt(conversation, response_1, response_2))
    mirrored = judge_lexically(PairwisePrompt(conversation, response_2, response_1))
    assert mirrored.score_1 == verdict.score_2
    assert mirrored.score_2 == verdict.score_1
    assert mirrored.ranking == 7 - verdict.ranking


def test_huge_and_hostile_text_is_scored_by_its_ends():
    """Two million characters score as the part within the reading limit does, and stay in
    range.
    """
    cases = {
        "words": "word " * 400_000,
        "spaces": " " * 2_000_000,
        "letter": "a" * 2_000_000,
        "dots": "." * 2_000_000,
        "ticks": "`" * 2_000_000,
        "marks": "e\u0301\u0323" * 700_000,
        "han": "漢字。" * 700_000,
        "sorry": "I'm sorry, but " * 130_000,
        "odd": "\u202e\u200d\ufdfa\x00" * 500_000,
    }
    for case, response in cases.items():
        verdict = judge_lexically(prompt_of(response, GOOD, question=response))
        abridged = response[: READ_CHARS - 2049] + "\n" + response[-2048:]
        assert 1.0 <= verdict.score_1 == score_response(abridged, abridged) <= 5.0, case


def test_known_scores_stand():
    """These scores belong to this version of the judge: a change here needs a new
    LEXICAL_VERSION.
    """
    assert LEXICAL_VERSION == "lexical-2"
    found = {kind: score_response(QUESTION, text) for kind, text in {"good": GOOD, **WORSE}.items()}
    assert found == KNOWN
