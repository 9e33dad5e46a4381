"""Stems of the content words of a text, to measure what two texts have in common."""

import re
from functools import lru_cache

_STEM_CHARS = 6
_WORD = re.compile(r"[^\W\d_]{3,}")
_SUFFIX = re.compile(r"(?:ations?|ingly|ings?|edly|ements?|ments?|ness|iest|ies|ied|ers?|ed|es|ly|s|y|e)$")
_EMPTY_LIST = """
    about after again all also and any anything are because been before being but can could did does doing don for
    from get gets getting got had has have having her here hers him his how into isn its itself just know let lets
    like made make makes many maybe more most much need not now off one only other our out over own please really
    said same say she should some something sort still such take than that the their them then there these they
    thing things think this those through too under until upon use very want was way well were what when where which
    while who whom why will with would yes yet you your yours yourself client therapist session sessions end
"""
_EMPTY = frozenset(_EMPTY_LIST.split())


@lru_cache(maxsize=4_096)
def stems(text: str) -> frozenset[str]:
    """Return the lower-case stems of content words of three letters or more."""
    return frozenset(stem(word) for word in _WORD.findall(text.lower()) if word not in _EMPTY)


def stem(word: str) -> str:
    """Remove a common English ending if three letters remain, then a doubled last letter, then all past the sixth."""
    cut = _SUFFIX.sub("", word) if len(word) > 4 else word.removesuffix("s") if len(word) == 4 else word
    cut = cut if len(cut) >= 3 else word
    if len(cut) > 3 and cut[-1] == cut[-2]:
        cut = cut[:-1]
    return cut[:_STEM_CHARS]
