"""The embedded judge: counts words, with no model and no network.

It is a stand-in for trying the pipeline and for CI, and a floor that any real judge must beat. It is not a
reward model: it cannot tell a right answer from a wrong one that is written as well, and whoever trains on
its scores trains for topical, varied, finished text and nothing else.

Each response is scored alone, from the conversation's last user turn and its own words:

    score = 1 + 4 * (0.8 * sqrt(max(coverage, 0.15) * beyond) + 0.1 * length + 0.1 * structure)
                  * variety * finished * helps

so an answer has to do both: speak of what was asked, and say more than the question said. See `Features` for
the terms. The principle of an exhibit is ignored: its words cannot be weighed without a model. Stop words and
refusals are known in English only; other languages are scored by the other features.
"""

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from genrm_cli.judging.requests import PairwisePrompt
from genrm_cli.verdicts import MAX_SCORE, MIDDLE_RANKING, MIN_SCORE, Verdict

LEXICAL_VERSION = "lexical-1"
"""Changes whenever any score may change, so that stored verdicts of another version are not reused."""

READ_CHARS = 65_536
"""Longer texts are judged by their start and their last 2,048 characters: time and memory stay bounded."""
_TAIL_CHARS = 2_048
_CACHED_RESPONSES = 256

_MIN_COVERAGE = 0.15  # a good answer may share no word with its question: "Paris."
_ENOUGH_TERMS = 8  # a long question need not be repeated in full to be covered
_HALF_BEYOND = 12  # this many terms of its own earn a response half of `beyond`
_PLAIN_VARIETY = 0.8  # tables, code and refrains repeat this much without being repetitive
_FULL_WORDS, _MANY_WORDS = 30, 500
_LONG_SENTENCE_WORDS, _WALL_WORDS = 40, 200
_SHORT_REFUSAL_WORDS = 60
_OPENING_CHARS = 320
_STEM_CHARS = 5

# Scripts written without spaces between words are counted by the character: kana, Han, Thai to Khmer.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[^\W_{_UNSPACED}]+|[^\W_]")
_ASCII_WORD = re.compile(r"[^\W_]+")
_SENTENCE_END = re.compile(r"[.!?…。！？؟।]+(?=\s|$)|[。！？]|\n+")
_LIST_ITEM = re.compile(r"\s*(?:[-*+•|#>]|\d+[.)])")
_DANGLING = frozenset(",;:-–—([{、，")
_REFUSAL = re.compile(
    r"\bas an? (?:ai|(?:large )?language model)(?: (?:language )?(?:model|assistant))?,? i\b"
    r"|\b(?:sorry|afraid),? (?:but )?(?:that )?i(?: can['’]t| can ?not|(?: am|['’]m) unable)\b"
    r"|\bi(?:['’]m| am) (?:not able|unable) to (?:help|assist|answer|provide|comply|discuss)\b"
    r"|\bi (?:can['’]t|can ?not|won['’]t|will not) (?:assist|answer|provide|comply|discuss|do that)\b"
    r"|\bi (?:can['’]t|can ?not|won['’]t|will not) help(?: you| with|[.,!])"  # not "I can't help feeling"
    r"|\bi (?:must|have to) (?:decline|refuse)\b",
    re.IGNORECASE,
)
_STOP_WORD_LIST = """
    a about after all also am an and any are as at be because been before being both but by can could did do
    does doing don down each else ever few for from further get give had has have having he her here hers him
    his how i if in into is isn it its itself just let ll me more most my no nor not of off on once one only
    or other our out over own please re s same she should so some such t than that the their them then there
    these they this those through to too under until up us use ve very was we were what when where which while
    who whom why will with would you your
"""
# Without "a", which is an answer to a multiple-choice question.
_OPEN_ENDED_LIST = """
    an and as at because but by for from if into my nor of or our than the their to when which while with your
"""
_STOP_WORDS = frozenset(_STOP_WORD_LIST.split())
_OPEN_ENDED = frozenset(_OPEN_ENDED_LIST.split())


class Features(NamedTuple):
    """What is measured of one response; each is between 0 and 1, and higher is better.

    Attributes:
        coverage: share of the question's terms that the response speaks of, of at most 8; 1 if it has none.
        beyond: how much is said that the question did not: 0 for nothing, 0.5 at 12 terms, then slowly to 1.
        variety: distinct runs of three words among all of them; 1 from 80 % up.
        length: 1 between 30 and 500 words, less outside.
        structure: less for sentences above 40 words and for more than 200 words without a line break.
        finished: 0.7 where the text seems to stop in the middle of something.
        helps: 0.25 for a short refusal, 0.7 for a long answer that opens with one.
    """

    coverage: float
    beyond: float
    variety: float
    length: float
    structure: float
    finished: float
    helps: float


def judge_lexically(exhibit: PairwisePrompt) -> Verdict:
    """Compare two responses by their words alone.

    Swapping the responses swaps the scores and turns the ranking r into 7 - r. Scores have two decimals;
    responses without a single word get 1.0, and equal scores get the middle ranking 3.5.
    """
    question = question_of(exhibit.conversation)
    score_1 = score_response(question, exhibit.response_1)
    score_2 = score_response(question, exhibit.response_2)
    return Verdict(score_1, score_2, rank_difference(score_1, score_2))


def rank_difference(score_1: float, score_2: float) -> float:
    """Turn two scores into a ranking: 3 or 4 below half a point apart, 2 or 5 below 1.5, else 1 or 6.

    Equal scores are 3.5.
    """
    gap = round(abs(score_1 - score_2), 2)
    if gap == 0:
        return MIDDLE_RANKING
    step = 0.5 if gap < 0.5 else 1.5 if gap < 1.5 else 2.5
    return MIDDLE_RANKING - math.copysign(step, score_1 - score_2)


def question_of(conversation: Sequence[tuple[str, str]]) -> str:
    """Choose what responses should speak of: the last user turn, else the last turn, else nothing."""
    for role, text in reversed(conversation):
        if role == "user":
            return text
    return conversation[-1][1] if conversation else ""


def score_response(question: str, response: str) -> float:
    """Score one response from 1.0 to 5.0 in steps of 0.01; 1.0 where it holds no word."""
    return _score_read(_abridge(question), _abridge(response))


def measure_response(question: str, response: str) -> Features | None:
    """Measure what the score is made of; None where the response holds no word."""
    text = _abridge(response)
    words = _split_words(text)
    if not words:
        return None
    asked = _question_terms(_abridge(question))
    said = _terms(words)
    shared = len(asked & said)
    own = len(said) - shared
    return Features(
        coverage=min(1.0, shared / min(len(asked), _ENOUGH_TERMS)) if asked else 1.0,
        beyond=own / (own + _HALF_BEYOND),
        variety=min(1.0, _distinct_share(words) / _PLAIN_VARIETY),
        length=_length(len(words)),
        structure=_structure(text, len(words)),
        finished=0.7 if _stops_midway(text, words) else 1.0,
        helps=_helps(text, len(words)),
    )


# A response meets at least two others of its group, so its features would be computed as often.
@lru_cache(maxsize=_CACHED_RESPONSES)
def _score_read(question: str, response: str) -> float:
    found = measure_response(question, response)
    if found is None:
        return MIN_SCORE
    core = math.sqrt(max(found.coverage, _MIN_COVERAGE) * found.beyond)
    quality = 0.8 * core + 0.1 * found.length + 0.1 * found.structure
    quality *= found.variety * found.finished * found.helps
    return round(MIN_SCORE + (MAX_SCORE - MIN_SCORE) * quality, 2)


def _abridge(text: str) -> str:
    if len(text) <= READ_CHARS:
        return text
    return text[: READ_CHARS - _TAIL_CHARS - 1] + "\n" + text[-_TAIL_CHARS:]


def _split_words(text: str) -> list[str]:
    return (_ASCII_WORD if text.isascii() else _WORD).findall(text.lower())


def _terms(words: list[str]) -> frozenset[str]:
    """Reduce words to terms: no stop words, no plural s, five letters, so that close forms meet."""
    return frozenset(
        (word[:-1] if len(word) > 3 and word[-1] == "s" else word)[:_STEM_CHARS] for word in set(words) - _STOP_WORDS
    )


@lru_cache(maxsize=_CACHED_RESPONSES)
def _question_terms(question: str) -> frozenset[str]:
    return _terms(_split_words(question))


def _distinct_share(words: list[str]) -> float:
    if len(words) < 4:
        return len(set(words)) / len(words)
    return len(set(zip(words, words[1:], words[2:], strict=False))) / (len(words) - 2)


def _length(word_count: int) -> float:
    if word_count > _MANY_WORDS:
        return max(0.4, _MANY_WORDS / word_count)
    return min(1.0, word_count / _FULL_WORDS)


def _structure(text: str, word_count: int) -> float:
    sentence_count = max(1, len(_SENTENCE_END.findall(text)))
    flow = min(1.0, _LONG_SENTENCE_WORDS * sentence_count / word_count)
    is_wall = word_count > _WALL_WORDS and "\n" not in text.strip()
    return flow * (0.6 if is_wall else 1.0)


def _stops_midway(text: str, words: list[str]) -> bool:
    """Tell whether the text stops inside a code block, after a comma, on a word like "the", or mid-sentence.

    Short last lines and list items may end without a full stop.
    """
    text = text.rstrip()
    if text[-1] in _DANGLING or text.count("```") % 2:
        return True
    if not text[-1].isalnum():
        return False
    if words[-1] in _OPEN_ENDED:
        return True
    last_line = text[text.rfind("\n") + 1 :]
    return len(_split_words(last_line)) > 8 and not _LIST_ITEM.match(last_line)


def _helps(text: str, word_count: int) -> float:
    if not _REFUSAL.search(text[:_OPENING_CHARS]):
        return 1.0
    return 0.25 if word_count < _SHORT_REFUSAL_WORDS else 0.7
