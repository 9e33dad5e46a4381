"""Text that is safe to print: characters that could control a terminal or reorder a line become
escapes.
"""

from genrm_cli.texts.late_pattern import late_pattern

# C0 and C1 controls except tab and newline, DEL, bidirectional overrides and isolates, line
# separators, lone surrogates.
CONTROL = late_pattern("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escaped_in_json(text: str) -> str:
    """Write control characters of rendered JSON as JSON escapes, which keeps its values."""
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
