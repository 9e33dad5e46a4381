"""The share of the group that gives the same final answer."""

import re
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache

from genrm_cli.json_types import JsonObject, field_at
from genrm_cli.rewards.component import Column, Ids, Lines, LocalKind, Rollouts
from genrm_cli.settings import checks
from genrm_cli.settings.components import Component, Option
from genrm_cli.texts.late_pattern import late_pattern
from genrm_cli.texts.regex import compile_regex


class AnswerForm(StrEnum):
    """The form of a response's answer. The last answer counts."""

    BOXED = "boxed"  # \boxed{...}, braces balanced
    NUMBER = "number"
    LABELLED = "labelled"  # the text after "answer:", in its line or the next non-empty one


Extraction = AnswerForm | re.Pattern[str]
"""A form, or a pattern whose only group is the answer."""

# `\{` and `\}` are printed braces, which need no partner.
_BRACES = late_pattern(r"(\\boxed\s*\{)|\\[{}]|([{])|([}])")
_LABEL = late_pattern(r"\banswer[*_]{0,3}\s?[:：]", re.IGNORECASE)
# A digit right after a letter is part of a name (`H2O`, `x1`); a minus right after a letter, a
# digit or a closing bracket is a subtraction.
_NUMBER = late_pattern(
    r"(?:(?<![A-Za-z0-9_)\]}])[-+\u2212])?"
    r"(?<![A-Za-z0-9_])(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+|(?=\.[0-9]))"
    r"(?:\.[0-9]+)?"
    r"(?:[eE][-+]?[0-9]{1,3}(?![0-9]))?"
)
_ORNAMENT = " \t\r\n*_`"


def extract_answer(text: str, extraction: Extraction) -> str | None:
    r"""Return the last answer that a response states; None if it states none.

    White space around the answer, runs of it inside, and a full stop at the end are ignored.
    Numbers are normalised, so that 1,000 and 1000.0 and 1e3 are one answer. A `\boxed{` that is
    never closed is skipped."""
    if extraction is AnswerForm.BOXED:
        return _tidy(_last_boxed(text))
    patterns = {AnswerForm.LABELLED: _LABEL, AnswerForm.NUMBER: _NUMBER}
    pattern = patterns[extraction] if isinstance(extraction, AnswerForm) else extraction
    found = deque(pattern.finditer(text), maxlen=1)
    if not found:
        return None
    last = found[0]
    if extraction is AnswerForm.LABELLED:
        line, _, _ = text[last.end() :].lstrip(_ORNAMENT).partition("\n")
        return _tidy(line.rstrip(_ORNAMENT))
    return _tidy(last[0] if extraction is AnswerForm.NUMBER else last[1] or "")


def consistency_values(answers: Sequence[str | None]) -> list[float]:
    """Return the share of the group that gave the most common answer, for those who gave it; 0.0
    for the others.

    Among equally common answers, the first one is the majority. A response without an answer gets
    0.0 and counts in n, but never forms the majority. A group of one that answers gets 1.0."""
    counts = Counter(answer for answer in answers if answer is not None)
    if not counts:
        return [0.0] * len(answers)
    majority, count = counts.most_common(1)[0]
    return [count / len(answers) if answer == majority else 0.0 for answer in answers]


def _last_boxed(text: str) -> str:
    """Return the content of the last closed box, in one pass: trying box by box would be
    quadratic.
    """
    open_starts: list[int] = []  # start of the content of an open box; -1 for any other brace
    begin = 0
    end = 0
    for found in _BRACES.finditer(text):
        if found[1] or found[2]:
            open_starts.append(found.end() if found[1] else -1)
        elif found[3] and open_starts:
            opened = open_starts.pop()
            if opened > begin:
                begin = opened
                end = found.start()
    return text[begin:end]


def _tidy(answer: str) -> str | None:
    """Normalise an answer so that equal answers compare equal; None if nothing is left."""
    words = " ".join(answer.split()).removesuffix(".").rstrip()
    if not _NUMBER.fullmatch(words):
        return words or None
    # Decimal keeps every digit; float would make two long numbers one.
    plain = format(Decimal(words.replace(",", "").replace("\u2212", "-")), "f")
    if "." in plain:
        plain = plain.rstrip("0").rstrip(".")
    return "0" if plain == "-0" else plain


def _compute(component: Component, rollouts: Rollouts, records: Lines, _ids: Ids) -> Column:
    answers: dict[int, str | None] = {}
    for index, (rollout, record) in enumerate(zip(rollouts, records, strict=True)):
        if rollout.answer is None:
            # a rollout without a response is ignored; one whose response has no answer is not
            continue
        if (path := component.option("field")) is None:
            extraction = _extraction(component.option("extract"), component.option("pattern"))
            answers[index] = extract_answer(rollout.answer, extraction)
        elif (answer := _answer_at(record, path)) is not None:  # a missing value never counts as 0
            answers[index] = answer
    if not answers and any(rollout.answer is not None for rollout in rollouts):
        return Column([None] * len(rollouts), failure=f"no rollout has {component.option('field')}")
    values = dict(zip(answers, consistency_values(list(answers.values())), strict=True))
    found = [answers.get(index) for index in range(len(rollouts))]
    notes = [None if answer is None else {"answer": answer[:200]} for answer in found]
    return Column([values.get(index) for index in range(len(rollouts))], notes)


def _answer_at(record: JsonObject, path: str) -> str | None:
    value = field_at(record, path)
    if isinstance(value, float):
        return f"{value:.17g}"  # 1.0 is the same answer as 1
    return str(value) if isinstance(value, (str, int)) else None


@lru_cache(maxsize=16)
def _extraction(form: str | None, pattern: str | None) -> Extraction:
    return AnswerForm(form) if form is not None else compile_regex(pattern or "")


def _refuse(options: Mapping[str, Option]) -> str | None:
    return (
        None
        if len(options) == 1
        else "set exactly one of extract, pattern and field, to locate the answer"
    )


KIND = LocalKind(
    options={"extract": checks.one_of(AnswerForm), "pattern": checks.pattern, "field": checks.text},
    short="extract",
    refuse=_refuse,
    source="responses",
    reads_record=lambda component: component.option("field") is not None,
    of_a_group=True,
    compute=_compute,
)
