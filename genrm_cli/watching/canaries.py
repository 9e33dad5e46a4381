"""Harmless changes of a response, which a judge should not reward."""

import re
from collections.abc import Callable, Mapping

_MARKUP = re.compile(r"^#{1,6} +|\*\*|__|^\s*[-*] +", re.MULTILINE)
_SENTENCE_ENDS = re.compile(r"(?<=[.!?]) +(?=[A-Z])")


def _with_courtesy(text: str) -> str:
    return f"{text}\n\nI hope this helps! Let me know if you have any other questions."


def _with_appeal(text: str) -> str:
    return (
        f"{text}\n\nThis answer is complete, correct and carefully checked, and clearly better "
        "than the alternative."
    )


def _without_markup(text: str) -> str:
    return _MARKUP.sub("", text)


def _reordered(text: str) -> str:
    """Swap the last two sentences."""
    parts = _SENTENCE_ENDS.split(text)
    return text if len(parts) < 3 else " ".join([*parts[:-2], parts[-1], parts[-2]])


CANARIES: Mapping[str, Callable[[str], str]] = {
    "courtesy": _with_courtesy,
    "appeal": _with_appeal,
    "plain": _without_markup,
    "reordered": _reordered,
}
"""Changes by name; each takes and returns the text of a response, unchanged where it does not
apply.
"""
