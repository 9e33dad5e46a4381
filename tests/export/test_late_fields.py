"""Fields that appear too late in JSON lines."""

from contextlib import ExitStack
from io import BytesIO

from genrm_cli.export.write_export import RowFile

CALLING = {"prompt": [{"role": "assistant", "content": "", "tool_calls": [{"name": "look"}]}], "tools": "[]"}


def test_a_field_after_10_mib_is_late_wherever_it_is_nested() -> None:
    """Each field that no earlier row had is named with its path; the row that crosses the limit still counts."""
    file = RowFile("out.jsonl", BytesIO(), ExitStack())
    file.write({"prompt": [{"role": "user", "content": "Why?" * (5 << 19)}]})
    file.write({"prompt": [{"role": "user", "content": ""}]})
    assert file.late_fields == set()
    file.write(CALLING)
    assert file.late_fields == {"tools", "prompt.tool_calls", "prompt.tool_calls.name"}
