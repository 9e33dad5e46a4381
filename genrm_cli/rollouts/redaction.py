"""Masking of personal data in texts that leave the machine."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from genrm_cli.errors import SettingRef, UsageError, how_to_install
from genrm_cli.rollouts.private_forms import EMAIL, MARKS, Form
from genrm_cli.texts.late_pattern import late_pattern
from genrm_cli.texts.regex import compile_regex

# Of the user's own patterns, of which no kind is known.
OWN_MARK = "[REDACTED]"
_LONG_NUMBER = late_pattern(
    r"[0-9](?:[^0-9A-Za-z\n]{0,3}[0-9]){5}"
)  # every form has at least six digits


class Redactor:
    """Mask matches of patterns: built-in names, or regular expressions.

    Built-in patterns run first, in a fixed order; regular expressions follow in the order given and
    see the marks.

    Attributes:
        own: the regular expressions.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        """Compile the patterns.

        Raises:
            ValueError: RE2 does not accept one.
            UsageError: one needs the extra `redact`, which is not installed.
        """
        self._email = "email" in patterns
        self._numbers = _number_forms([name for name in ("identity", "phone") if name in patterns])
        self.own = {text: compile_regex(text) for text in patterns if text not in MARKS}

    def redact(self, text: str, counts: Counter[str]) -> str:
        """Return the text with each match replaced by `[EMAIL]`, `[PHONE]`, `[IDENTITY]` or
        `[REDACTED]`.

        `counts` is incremented for each match, under the built-in name or the regular expression
        itself."""
        if self._email and ("@" in text or "%40" in text):
            text = _mask(text, EMAIL, "email", counts)
        if self._numbers:
            text = self._mask_numbers(text, counts)
        for name, pattern in self.own.items():
            text = _mask_own(text, pattern, name, counts)
        return text

    def _mask_numbers(self, text: str, counts: Counter[str]) -> str:
        """Mask lines that contain a long enough number; no form spans lines."""
        lines = text.split("\n")
        for number, line in enumerate(lines):
            if _LONG_NUMBER.search(line):
                for name, form in self._numbers:
                    line = _mask(line, form, name, counts)
                lines[number] = line
        return "\n".join(lines)


def _number_forms(names: Sequence[str]) -> list[tuple[str, Form]]:
    if not names:
        return []
    try:
        from genrm_cli.rollouts.private_numbers import NUMBERS
    except ModuleNotFoundError as error:
        setting = SettingRef("redact_pattern", names[0])
        told = f" needs {error.name}: {how_to_install('redact')}."
        raise UsageError(setting, told) from error
    return [(name, form) for name in names for form in NUMBERS[name]]


@lru_cache(maxsize=8)
def redactor_of(patterns: tuple[str, ...]) -> Redactor:
    """Return the redactor of these patterns; the groups of a run share one."""
    return Redactor(patterns)


Mask = Callable[[str], str]


def mask_of(patterns: tuple[str, ...]) -> Mask:
    """Return the function that masks a text as for a judge, without counting."""
    if not patterns:
        return str
    redactor = redactor_of(patterns)
    counts = Counter[str]()
    return lambda text: redactor.redact(text, counts)


def masked_values(value: Any, mask: Mask) -> Any:
    """Return a JSON value with every text in it masked."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {name: masked_values(each, mask) for name, each in value.items()}
    return [masked_values(each, mask) for each in value] if isinstance(value, list) else value


def _mask(text: str, form: Form, name: str, counts: Counter[str]) -> str:
    pieces: list[str] = []
    kept_to = at = 0
    search = form.pattern.search
    while (found := search(text, at)) is not None:
        start = found.start("it")
        end = start + form.private_chars(found["it"])
        if start == end:
            at = found.start() + 1  # another match may begin within the refused text
            continue
        pieces += text[kept_to:start], MARKS[name]
        kept_to = at = end
        counts[name] += 1
    return "".join((*pieces, text[kept_to:])) if pieces else text


def _mask_own(text: str, pattern: re.Pattern[str], name: str, counts: Counter[str]) -> str:
    marks = (OWN_MARK, *MARKS.values())

    def mark(found: re.Match[str]) -> str:
        start, end = found.span()
        # `[A-Z]+` must not mask the marks themselves.
        at = text.rfind("[", max(0, start - len(OWN_MARK)), start + 1)
        is_in_mark = at >= 0 and any(
            text.startswith(each, at) and end <= at + len(each) for each in marks
        )
        if start == end or is_in_mark:
            return str(found[0])
        counts[name] += 1
        return OWN_MARK

    return str(pattern.sub(mark, text))
