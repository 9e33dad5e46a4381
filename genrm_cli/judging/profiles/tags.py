"""Read verdicts that are marks in prose: a label in brackets, the content of a tag, a line of its own."""

import re
from collections.abc import Callable, Mapping

from genrm_cli.judging.profiles.answer import excerpt, make_failure
from genrm_cli.verdicts import Failure, FailureKind, Verdict

# Whatever stands in double brackets and could be a label; whether it is one is decided after matching.
LABEL = re.compile(r"\[\[([A-Za-z<>= ]{1,12})\]\]")
# A tag that is not closed, or holds more than an answer, is a match with nothing in it: no verdict.
ANSWER_TAG = re.compile(r"<answer>(?:([^<]{0,80})</answer>)?")

_DECIMAL = re.compile(r"[+-]?[0-9]{1,9}(?:\.[0-9]{1,9})?")

ReadMark = Callable[[str], Verdict | Failure]


def read_last_mark(answer: str, mark: re.Pattern[str], read: ReadMark, form: str) -> Verdict | Failure:
    """Read the last mark of an answer; those before it do not count.

    Args:
        answer: what the judge said after its thinking.
        mark: its first group is what is read; one that did not take part is read as empty.
        read: the content of a mark to a verdict.
        form: what the mark looks like, for a person.
    """
    contents = [found[1] or "" for found in mark.finditer(answer)]
    if not contents:
        return make_failure(FailureKind.NO_VERDICT, f"no {form}; ends with {excerpt(answer[-40:])}")
    return read(contents[-1])


def read_only_mark(answer: str, mark: re.Pattern[str], read: ReadMark, form: str) -> Verdict | Failure:
    """Read the last mark of an answer; one before it that says something else makes it `ambiguous`."""
    last = read_last_mark(answer, mark, read, form)
    if isinstance(last, Failure):
        return last
    for found in mark.finditer(answer):
        other = read(found[1] or "")
        if isinstance(other, Verdict) and other != last:
            return make_failure(FailureKind.AMBIGUOUS, f"two verdicts: {excerpt(found[0])} and a later one")
    return last


def read_label(content: str, verdicts: Mapping[str, Verdict]) -> Verdict | Failure:
    """Look a label up, spaces left out."""
    label = content.replace(" ", "")
    if label not in verdicts:
        known = ", ".join(verdicts)
        return make_failure(FailureKind.NO_VERDICT, f"{excerpt(content)} is not a verdict, expected one of {known}")
    return verdicts[label]


def parse_decimal(text: str) -> float | None:
    """Return the number that a text is, spaces around it aside; None if it is anything else (`4/5`, `nan`)."""
    stripped = text.strip()
    return float(stripped) if _DECIMAL.fullmatch(stripped) else None
