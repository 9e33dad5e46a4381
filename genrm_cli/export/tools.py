"""The tools that a line offers to the policy."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_PLACES = (("tools",), ("responses_create_params", "tools"), ("request", "tools"), ("response", "tools"))


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the policy may call: its definition as JSON text, in the shape of OpenAI's chat completions."""

    definition: str


def tools_of(record: Mapping[str, Any]) -> tuple[Tool, ...]:
    """Return the tools of a line: `tools`, or those of its request; definitions of the Responses API are nested."""
    for path in _PLACES:
        value: object = record
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        if isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
            return tuple(Tool(json.dumps(_nested(each), ensure_ascii=False)) for each in value)
    return ()


def json_of_tools(tools: Sequence[Tool]) -> str:
    """Return tools as the text of a JSON list; empty for none."""
    return f"[{', '.join(tool.definition for tool in tools)}]" if tools else ""


def _nested(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    if tool.get("type", "function") != "function" or isinstance(tool.get("function"), Mapping):
        return tool
    return {"type": "function", "function": {name: value for name, value in tool.items() if name != "type"}}
