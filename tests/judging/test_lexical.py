"""The embedded judge: fair, bounded, deterministic, and right where the difference is plain to see."""

import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genrm_cli.judging.lexical import (
    LEXICAL_VERSION,
    READ_CHARS,
    judge_lexically,
    measure_response,
    question_of,
    rank_difference,
    score_response,
)
from genrm_cli.judging.requests import PairwisePrompt

QUESTION = "How do I store fresh basil so that it stays green for a week?"
GOOD = (
    "Trim the stems of the basil, stand them in a glass with two fingers of water and cover the leaves with "
    "a bag. Leave it at room temperature, because the cold of a fridge turns the leaves black. Change the "
    "water every second day, and the basil stays green for about a week."
)
WORSE = {
    "nothing": "",
    "whitespace": " \n\t \u3000",
    "refusal": "I'm sorry, but I can't help with that.",
    "polite refusal": "As an AI language model, I do not store herbs, so I can offer nothing on basil here.",
    "off topic": "The tram leaves every nine minutes until midnight and stops at the museum and the harbour.",
    "truncated": GOOD[: GOOD.index("because") + len("because the")],
    "echo": QUESTION,
    "one word": "Fridge.",
    "stuck": "Basil stays green. " * 25,
    "one word again and again": "basil " * 80,
    "unclosed code": GOOD + "\n```\nbasil --keep",
}

TEXTS = st.text(max_size=400)
TURNS = st.lists(st.tuples(st.sampled_from(["user", "assistant", "system"]), st.text(max_size=80)), max_size=3)


def exhibit_of(response_1, response_2, question=QUESTION, principle=None):
    """Show two responses to one user turn."""
    return PairwisePrompt([("user", question)], response_1, response_2, principle)


@pytest.mark.parametrize("kind", WORSE)
def test_a_good_answer_beats_an_obviously_bad_one_in_both_places(kind):
    """A complete answer wins over empty, refusing, off-topic, cut, echoing and repeating ones."""
    first = judge_lexically(exhibit_of(GOOD, WORSE[kind]))
    second = judge_lexically(exhibit_of(WORSE[kind], GOOD))
    assert first.score_1 > first.score_2
    assert first.ranking < 3.5 < second.ranking


@given(TURNS, TEXTS, TEXTS)
def test_swapping_the_responses_mirrors_the_verdict(conversation, response_1, response_2):
    """Swapped responses get swapped scores and the ranking 7 - r."""
    verdict = judge_lexically(PairwisePrompt(conversation, response_1, response_2))
    mirrored = judge_lexically(PairwisePrompt(conversation, response_2, response_1))
    assert (mirrored.score_1, mirrored.score_2) == (verdict.score_2, verdict.score_1)
    assert mirrored.ranking == 7 - verdict.ranking


@given(TURNS, TEXTS, TEXTS)
def test_every_verdict_is_finite_and_in_range(conversation, response_1, response_2):
    """Whatever the text, scores stay in 1 to 5 with two decimals and rankings in 1 to 6."""
    verdict = judge_lexically(PairwisePrompt(conversation, response_1, response_2))
    for score in (verdict.score_1, verdict.score_2):
        assert math.isfinite(score)
        assert 1.0 <= score <= 5.0
        assert score == round(score, 2)
    assert verdict.ranking in {1.0, 2.0, 3.0, 3.5, 4.0, 5.0, 6.0}


@given(TURNS, TEXTS)
def test_identical_responses_tie(conversation, response):
    """The same text in both places is a tie at 3.5."""
    verdict = judge_lexically(PairwisePrompt(conversation, response, response))
    assert verdict.score_1 == verdict.score_2
    assert verdict.ranking == 3.5


@given(TEXTS, TEXTS)
@settings(max_examples=50)
def test_features_are_shares(question, response):
    """Every feature lies in 0 to 1, and there are none exactly where the score is 1.0 for want of words."""
    features = measure_response(question, response)
    if features is None:
        assert score_response(question, response) == 1.0
    else:
        assert all(0.0 <= value <= 1.0 for value in features)


def test_a_score_depends_on_its_own_response_only():
    """A response gets the same score whatever it is compared with, and whatever the principle says."""
    scores = {judge_lexically(exhibit_of(GOOD, other, principle=other)).score_1 for other in WORSE.values()}
    assert scores == {score_response(QUESTION, GOOD)}


@pytest.mark.parametrize(
    ("score_1", "score_2", "ranking"),
    [
        (3.0, 3.0, 3.5),
        (3.01, 3.0, 3.0),
        (3.49, 3.0, 3.0),
        (3.5, 3.0, 2.0),
        (4.49, 3.0, 2.0),
        (4.5, 3.0, 1.0),
        (5.0, 1.0, 1.0),
        (1.0, 5.0, 6.0),
        (3.0, 4.4, 5.0),
        (3.0, 3.2, 4.0),
    ],
)
def test_ranking_follows_the_gap_between_scores(score_1, score_2, ranking):
    """The ranking moves at 0.01, 0.5 and 1.5 points of difference, towards the better response."""
    assert rank_difference(score_1, score_2) == ranking


@pytest.mark.parametrize(
    ("question", "good", "bad"),
    [
        (
            "Как хранить свежий базилик?",
            "Свежий базилик лучше хранить в стакане с водой при комнатной температуре, накрыв пакетом. "
            "Воду меняйте через день, и зелень простоит около недели.",
            "Хранить базилик. Хранить базилик. Хранить базилик. Хранить базилик.",
        ),
        (
            "如何保存新鲜的罗勒?",
            "把罗勒的茎剪短,插进装了一点水的玻璃杯里,再用袋子轻轻盖住叶子,放在室温下。每隔一天换一次水,可以保存一个星期。",
            "罗勒罗勒罗勒罗勒罗勒罗勒罗勒罗勒罗勒罗勒",
        ),
        (
            "バジルを新鮮に保つには?",
            "茎を少し切り、水を入れたコップに立てて、葉に袋をふんわりかぶせます。室温に置き、水は一日おきに替えてください。",
            "はい。",
        ),
        ("ताज़ी तुलसी कैसे रखें?", "तुलसी की डंडियों को पानी भरे गिलास में रखें और पत्तों को थैली से ढक दें।", "।"),
    ],
)
def test_other_scripts_are_read(question, good, bad):
    """Cyrillic, Han, kana and Devanagari answers are scored by their words, not taken for empty."""
    assert score_response(question, good) > max(1.5, score_response(question, bad))


@pytest.mark.parametrize(
    "response",
    [
        "word " * 1_000_000,
        " " * 5_000_000,
        "a" * 5_000_000,
        "." * 5_000_000,
        "`" * 5_000_000,
        "e\u0301\u0323" * 1_600_000,
        "漢字。" * 1_600_000,
        "I'm sorry, but " * 330_000,
        "\u202e\u200d\ufdfa\x00" * 1_000_000,
    ],
    ids=["words", "spaces", "letter", "dots", "ticks", "marks", "han", "sorry", "odd"],
)
def test_huge_and_hostile_text_is_scored_at_once(response):
    """Five million characters as question and response take less than a second of work and score in range."""
    started = time.process_time()
    verdict = judge_lexically(exhibit_of(response, GOOD, question=response))
    assert time.process_time() - started < 1.0
    assert 1.0 <= verdict.score_1 <= 5.0


def test_the_end_of_a_very_long_text_is_read():
    """Past the reading limit the last characters still show whether the text was finished."""
    body = " ".join(f"term{number}" for number in range(READ_CHARS // 4))
    assert measure_response(QUESTION, body + " and the").finished < 1.0
    assert measure_response(QUESTION, body + " at last.").finished == 1.0


@pytest.mark.parametrize(
    ("text", "is_finished"),
    [
        ("Paris", True),
        ("The answer is A", True),
        ("Buy these:\n- flour\n- eggs\n- a small jar of the very best honey that you can find", True),
        ("It goes from here to the", False),
        ("There are three reasons:", False),
        ("First warm the oven and then mix the flour with some cold", False),
        ("```python\nprint(1)", False),
        ("```python\nprint(1)\n```", True),
    ],
)
def test_unfinished_text_is_told_from_short_or_listed_text(text, is_finished):
    """Open code, dangling punctuation and broken sentences are unfinished; short answers are not."""
    assert (measure_response(QUESTION, text).finished == 1.0) is is_finished


@pytest.mark.parametrize(
    ("text", "helps"),
    [
        ("I'm sorry, but I can't help with that.", 0.25),
        ("I’m afraid I cannot discuss this.", 0.25),
        ("I am unable to provide this.", 0.25),
        ("I'm sorry you had such a week. That sounds exhausting.", 1.0),
        ("I can't help feeling that basil belongs in a glass.", 1.0),
        ("I'm sorry, but I can't say what your kitchen is like. " + GOOD + " " + GOOD, 0.7),
    ],
)
def test_refusals_are_told_from_regret(text, helps):
    """A short refusal loses most, a long answer that opens with one loses some, sympathy nothing."""
    assert measure_response(QUESTION, text).helps == helps


@pytest.mark.parametrize(
    ("conversation", "question"),
    [
        ([("user", "first"), ("assistant", "reply"), ("user", "second")], "second"),
        ([("user", "first"), ("assistant", "reply")], "first"),
        ([("system", "rules")], "rules"),
        ([], ""),
    ],
)
def test_the_question_is_the_last_user_turn(conversation, question):
    """Responses should speak of the last user turn; without one the last turn stands in, and [] has none."""
    assert question_of(conversation) == question


def test_known_scores_stand():
    """These scores belong to this version of the judge: a change here needs a new LEXICAL_VERSION."""
    assert LEXICAL_VERSION == "lexical-1"
    found = {kind: score_response(QUESTION, text) for kind, text in WORSE.items()}
    assert score_response(QUESTION, GOOD) == 3.87
    assert found == {
        "nothing": 1.0,
        "whitespace": 1.0,
        "refusal": 1.27,
        "polite refusal": 1.43,
        "off topic": 2.42,
        "truncated": 2.21,
        "echo": 1.59,
        "one word": 1.76,
        "stuck": 1.04,
        "one word again and again": 1.01,
        "unclosed code": 3.02,
    }
