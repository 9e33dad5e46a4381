"""The built-in judge, which counts words, without a model or a network.

It is for trying out the pipeline, for CI, and as a baseline that any real judge must beat. It is
not a reward model: a policy trained on its scores learns to write topical, varied, finished text
and nothing else. It ignores principles and knows stop words and refusals in English only."""

import math
from functools import lru_cache

from genrm_cli.judging.requests import PairwisePrompt
from genrm_cli.texts.late_pattern import late_pattern
from genrm_cli.verdicts import MAX_SCORE, MIDDLE_RANKING, MIN_SCORE, Verdict

# Increase it when any score changes: it is part of the key of stored verdicts.
LEXICAL_VERSION = "lexical-2"
# Of longer texts, only the start and the end are read, to bound time and memory.
READ_CHARS = 65_536
_TAIL_CHARS = 2_048  # shows whether the text is finished
_OPENING_CHARS = 320  # about two sentences: refusals come first

# Scripts written without spaces between words (kana, Han, Thai to Khmer) are counted by character.
_UNSPACED = late_pattern(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"
)
_PUNCTUATION = ".,:;!?…。，、！？।؟()[]{}<>\"'`“”‘’*_#|=+-–—/\\$"
_SENTENCE_ENDS = ".!?\n。！？।؟"
_DANGLING = frozenset(",;:-–—([{、，")
_LIST_ITEM = late_pattern(r"\s*(?:[-*+•|#>]|\d+[.)])")
_REFUSAL = late_pattern(
    r"\bi(?: can't| can ?not| won't| will not|(?:'m| am) (?:unable|not able) to)"
    # not "I can't help feeling"
    r" (?:help(?: you| with|[.,!])|assist|answer|provide|comply|discuss)"
    r"|\b(?:sorry|afraid),? (?:but )?i(?: can't| can ?not|(?: am|'m) unable)\b|\bi (?:must|have "
    r"to) (?:decline|refuse)"
    r"|\bas an? (?:ai|(?:large )?language model)(?: (?:language )?(?:model|assistant))?,? i\b"
)
# Without "a", which answers multiple-choice questions.
_OPEN_ENDED_WORDS = (
    "an and as at because but by for from if into my of or our than the their to "
    "when which while with"
)
_OTHER_STOP_WORDS = """
    a about after all also am any are be been before being can could did do does each ever few get
    had has have he her him his how i in is it its just let me more most no not on one only other
    out over please same she should so some such that them there these they this those too up us use
    very was we were what where who why will would you your"""
_OPEN_ENDED = frozenset(_OPEN_ENDED_WORDS.split())
_STOP_WORDS = _OPEN_ENDED.union(_OTHER_STOP_WORDS.split(), [""])


def judge_lexically(prompt: PairwisePrompt) -> Verdict:
    """Compare two responses by their words; swapped responses get swapped scores and the ranking 7
    - r.
    """
    last_turn = prompt.conversation[-1][1] if prompt.conversation else ""
    question = next(
        (text for role, text in reversed(prompt.conversation) if role == "user"), last_turn
    )
    score_1, score_2 = (
        score_response(question, response) for response in (prompt.response_1, prompt.response_2)
    )
    return Verdict(score_1, score_2, rank_difference(score_1, score_2))


def rank_difference(score_1: float, score_2: float) -> float:
    """Rank a gap between scores: 3 or 4 below half a point, 2 or 5 below 1.5, else 1 or 6; 3.5 for
    equal scores.
    """
    gap = round(abs(score_1 - score_2), 2)
    if gap == 0:
        return MIDDLE_RANKING
    step = 0.5 + (gap >= 0.5) + (gap >= 1.5)
    return MIDDLE_RANKING - math.copysign(step, score_1 - score_2)


@lru_cache(maxsize=256)  # a response takes part in several comparisons
def score_response(question: str, response: str) -> float:
    """Score one response from 1.0 to 5.0 in steps of 0.01; 1.0 for a response without a letter or
    digit.

    A good answer uses terms of the question (`shared`), adds terms of its own (`own`), and is
    finished."""
    text = _abridge(response)
    if not any(map(str.isalnum, text)):
        return MIN_SCORE
    words = _split_words(text)
    asked = _terms_of(question)
    count = len(words)
    distinct = set(words)
    said = _content_of(distinct)
    shared = len(asked & said)
    own = len(said) - shared
    # A good answer may share no word with its question ("Paris."), and need not repeat a long
    # question in full.
    coverage = max(0.15, min(1.0, shared / min(len(asked), 8))) if asked else 1.0
    length = min(1.0, count / 30) if count <= 500 else max(0.4, 500 / count)
    flow = min(1.0, 40 * max(1, sum(map(text.count, _SENTENCE_ENDS))) / count)
    flow *= 0.6 if count > 200 and "\n" not in text else 1.0
    quality = 0.8 * math.sqrt(coverage * own / (own + 8)) + 0.1 * length + 0.1 * flow
    quality *= min(1.0, len(distinct) / min(count, 4 * math.sqrt(count)))
    if _REFUSAL.search(text[:_OPENING_CHARS].replace("’", "'")):
        quality *= 0.25 if count < 60 else 0.7
    quality *= 0.7 if is_unfinished(text) else 1.0
    return round(MIN_SCORE + (MAX_SCORE - MIN_SCORE) * quality, 2)


def is_unfinished(text: str) -> bool:
    """Return whether a text stops in a code block, after a comma, on a word like "the", or in a
    long last line.
    """
    if text[-1] in _DANGLING or text.count("```") % 2:
        return True
    last_line = text[text.rfind("\n") + 1 :]
    words = _split_words(last_line)
    return text[-1].isalnum() and (
        words[-1] in _OPEN_ENDED or (len(words) > 8 and not _LIST_ITEM.match(last_line))
    )


@lru_cache(maxsize=16)
def _terms_of(question: str) -> frozenset[str]:
    return _content_of(set(_split_words(_abridge(question))))


def _content_of(words: set[str]) -> frozenset[str]:
    return frozenset(word.strip(_PUNCTUATION) for word in words) - _STOP_WORDS


def _split_words(text: str) -> list[str]:
    return (text if text.isascii() else _UNSPACED.sub(r" \g<0> ", text)).split()


def _abridge(text: str) -> str:
    if len(text) > READ_CHARS:
        text = text[: READ_CHARS - _TAIL_CHARS - 1] + "\n" + text[-_TAIL_CHARS:]
    return text.rstrip().lower()
