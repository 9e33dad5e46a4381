"""Attribution of phrases: quotations, reported speech and negation.

Heuristics over English word order, limited to the text near a phrase. All text is in lower case.
"""

import re
import tomllib
from importlib.resources import files

# Bounds of what is read around a phrase, so that the work grows with the text and not faster. They
# cover the longest English clauses of counsellors; what is further away belongs to another clause.
_QUOTE_CHARS = 600
_BEFORE_CHARS = 80
_AFTER_CHARS = 120
_LIST_CHARS = 120
_CONTEXT_CHARS = 300
_SCOPE_WORDS = 12
_MOST_QUOTATIONS = 1_000  # a turn of a policy may consist of quotation marks
_QUOTED = " quotedwords"  # one word that no pattern knows, so that the sentence keeps its shape
_STOP = re.compile(r"[.!?\n]")

_QUOTATION = re.compile(
    rf'"([^"\n]{{1,{_QUOTE_CHARS}}})"'
    rf"|(?<!\w)'(?=[^\s'])((?:[^'\n]|(?<=\w)'(?=\w)){{1,{_QUOTE_CHARS}}})'(?!\w)"
)
# What the words near a phrase say about it, by name: the table explains each.
_WORDS = {
    name: re.compile(text)
    for name, text in tomllib.loads(
        files(__package__).joinpath("attribution.toml").read_text(encoding="utf-8")
    ).items()
}


def without_quotations(text: str) -> str:
    """Remove quotations of others; of other quotations remove the quotation marks only.

    A quotation is another's if words near it mention saying, writing, thinking or a story, and the
    therapist neither presents it as their own nor agrees. Only the first 1,000 quotations are
    looked at."""
    return _QUOTATION.sub(_unquoted, text, count=_MOST_QUOTATIONS)


def is_negated(text: str, start: int) -> bool:
    """Return whether a negation covers the phrase that starts at `start` of a sentence."""
    before = _WORDS["no_negation"].sub(" ", text[max(0, start - _CONTEXT_CHARS) : start])
    if _WORDS["negated_speech"].search(_after_last(_WORDS["hard_end"], before)):
        return True
    if (
        text[:start].endswith((", ", "; ", ": "))
        and " or " not in text[start : start + _LIST_CHARS]
    ):
        return False
    scope = _after_last(_WORDS["scope_end"], before).split()[-_SCOPE_WORDS:]
    return bool(_WORDS["negator"].search(" ".join(scope)))


def is_reported(text: str, start: int, following: str) -> bool:
    """Return whether the phrase that starts at `start` of a sentence reports others, without the
    therapist's agreement.

    `following` is the next sentence of the same turn, or empty.
    """
    before = _WORDS["no_report"].sub(" ", text[max(0, start - _CONTEXT_CHARS) : start])
    reported = _WORDS["report"].search(_after_last(_WORDS["report_end"], before)) or _WORDS[
        "report_after"
    ].search(text)
    return reported is not None and not _WORDS["endorses"].search(f"{text[start:]} \n {following}")


def _after_last(end: re.Pattern[str], text: str) -> str:
    return text[max((match.end() for match in end.finditer(text)), default=0) :]


def _unquoted(match: re.Match[str]) -> str:
    inside = match[1] or match[2] or ""
    before = match.string[max(0, match.start() - _BEFORE_CHARS) : match.start()]
    after = match.string[match.end() : match.end() + _AFTER_CHARS]
    lead = _STOP.split(before)[-1]
    trail = _STOP.split(after)[0]
    if (
        _WORDS["meant"].search(lead)
        or _WORDS["endorses"].search(after)
        or not _WORDS["speech"].search(f"{lead} | {trail}")
    ):
        return f" {inside} "
    return _QUOTED + (
        inside[-1]
        if inside[-1] in ".!?" and not re.match(r"[,;]|\s*(?:to|said|says)\b", after)
        else " "
    )
