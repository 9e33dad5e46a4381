"""Nothing is shown that nobody wrote: the nulls with which Arrow pads objects of other shapes."""

import io
import json

import pytest

from genrm_cli.rollouts.formats import recognise
from genrm_cli.rollouts.views import view_group
from genrm_cli.storage.encoding.parquet import iter_rows

pytest.importorskip("pyarrow")


def call(name, **arguments):
    """Return a tool call with its arguments as an object."""
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


def tool(name, **properties):
    """Return a tool with a parameter of each kind."""
    shapes = {key: {"type": kind} for key, kind in properties.items()}
    parameters = {"type": "object", "properties": shapes}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TOOLS = [tool("weather", city="string"), tool("search", query="string", limit="integer")]
CALLS = [call("weather", city="Oslo"), call("search", query="fjords", limit=3), call("ping")]
LINE = {
    "messages": [
        {"role": "user", "content": "Where is it cold?"},
        {"role": "assistant", "content": "", "tool_calls": CALLS},
        {"role": "tool", "content": "-3"},
        {"role": "assistant", "content": "In Oslo."},
    ],
    "tools": TOOLS,
}


def view_of(record):
    """Show the sole rollout of a line."""
    return view_group(recognise(record).read(record))


def read_back(record):
    """Write a record to Parquet, and read it."""
    import pyarrow as arrow
    from pyarrow import parquet

    file = io.BytesIO()
    parquet.write_table(arrow.Table.from_pylist([record]), file)
    file.seek(0)
    (row,) = iter_rows(file, "x.parquet", 10**9)
    return json.loads(row.raw)


def test_what_arrow_pads_is_not_shown():
    """Tools and arguments of different shapes share a column, and are shown as they were
    written.
    """
    padded = read_back(LINE)
    assert '"query":null' in json.dumps(padded, separators=(",", ":"))
    assert view_of(padded) == view_of(LINE)
    assert "null" not in "\n".join(view_of(padded).responses)


def test_a_null_that_the_policy_wrote_is_shown():
    """Arguments and tools as JSON text are what was written."""
    written = call("search")
    written["function"]["arguments"] = '{"query": "fjords", "limit": null}'
    answer = {"role": "assistant", "content": "", "tool_calls": [written]}
    line = {**LINE, "messages": [LINE["messages"][0], answer], "tools": json.dumps(TOOLS)}
    line["tools"] = line["tools"].replace(
        '{"type": "string"}', '{"type": "string", "default": null}'
    )
    view = view_of(line)
    assert '"limit": null' in view.responses[0]
    assert '"default":null' in view.conversation[0].text
