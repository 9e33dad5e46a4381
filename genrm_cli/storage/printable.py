"""Text that is safe to print: characters that could control a terminal or reorder a line become escapes."""

import re

# C0 and C1 controls except tab and newline, DEL, bidirectional overrides and isolates, line separators, lone
# surrogates.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escaped(text: str) -> str:
    """Write control characters as escapes, such as `\\x1b`; keep tabs and newlines."""
    return _CONTROL.sub(_escape, text)


def escaped_line(text: str) -> str:
    """Write control characters as escapes, including newlines, so that a name cannot begin a new line."""
    return escaped(text).replace("\n", "\\n")


def escaped_in_json(text: str) -> str:
    """Write control characters of rendered JSON as JSON escapes, which keeps its values."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
