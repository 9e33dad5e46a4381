"""Fields that appear too late in JSON lines."""

from genrm_cli.export.write_export import LateFields

PLAIN = {"prompt": [{"role": "user", "content": "Why?"}]}
CALLING = {"prompt": [{"role": "assistant", "content": "", "tool_calls": [{"name": "look"}]}], "tools": "[]"}
TEN_MIB = 10 << 20


def test_a_field_after_10_mib_is_late_wherever_it_is_nested() -> None:
    """Each field that no earlier row had is named with its path."""
    fields = LateFields()
    fields.add(PLAIN, TEN_MIB)
    fields.add(CALLING, 100)
    assert fields.names == {"tools", "prompt.tool_calls", "prompt.tool_calls.name"}


def test_a_field_within_10_mib_is_never_late() -> None:
    """The row that crosses the limit still counts, and so do rows of a small file."""
    fields = LateFields()
    fields.add(PLAIN, TEN_MIB - 1)
    fields.add(CALLING, 100)
    fields.add(CALLING, 100)
    assert fields.names == set()
