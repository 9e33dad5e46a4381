"""Scored lines that try a loader: a system message, earlier turns, hostile characters, and
tools.
"""

from typing import Any, NamedTuple

from scored_lines import scored

Message = dict[str, Any]


class Task(NamedTuple):
    """A prompt, and responses to it from the best to the worst."""

    prompt: list[Message]
    responses: list[list[Message]]
    tools: list[dict[str, Any]] | None = None

    @property
    def chosen(self) -> list[Message]:
        """The response with the highest reward."""
        return self.responses[0]

    @property
    def rejected(self) -> list[Message]:
        """The response with the lowest reward."""
        return self.responses[-1]


def says(role, content):
    """Make a message."""
    return {"role": role, "content": content}


def _answers(*texts):
    return [[says("assistant", text)] for text in texts]


def _call(number, city):
    function = {"name": "weather", "arguments": f'{{"city": "{city}"}}'}
    return says("assistant", "") | {
        "tool_calls": [{"id": f"call_{number}", "type": "function", "function": function}]
    }


def _result(number, text):
    return says("tool", text) | {"tool_call_id": f"call_{number}"}


PLAIN = [
    Task(
        [
            says("system", "Be brief. {braces} {{ stay }}"),
            says("user", "What is 2+2?"),
            says("assistant", "4"),
            says("user", "Und 3+3, bitte? ✓"),
        ],
        _answers('6, "sechs"\n\n1. {x}\n2. %s', "About 6.", "7 — 七"),
    ),
    Task([says("user", "Name a prime.")], _answers("Two.\nIt is even.", "Nine, perhaps.", "Four.")),
    Task(
        [says("system", "Be kind."), says("user", "I am sad.")],
        _answers("I am sorry. What happened?", "Why?", "Too bad."),
    ),
]
WITH_TOOLS = Task(
    [
        says("system", "Use the tool."),
        says("user", "Weather in Oslo?"),
        _call(1, "Oslo"),
        _result(1, "snow"),
        says("assistant", "It snows in Oslo."),
        says("user", "And in Rome?"),
    ],
    [
        [_call(2, "Rome"), _result(2, "sun"), says("assistant", "Rome has sun.")],
        [_call(2, "Rome"), _result(2, "sun"), says("assistant", "Sun?")],
        [says("assistant", "No idea.")],
    ],
    [
        {
            "type": "function",
            "function": {
                "name": "weather",
                "description": "Tell the weather.",
                "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
            },
        }
    ],
)


def lines_of(tasks):
    """Return the scored lines of some tasks; rewards fall from 5 by 2."""
    lines = []
    for number, task in enumerate(tasks):
        for index, response in enumerate(task.responses):
            line = scored(
                response,
                5.0 - 2.0 * index,
                group=f"task:{number}",
                index=index,
                size=len(task.responses),
                prompt=task.prompt,
            )
            lines.append(line | ({"tools": task.tools} if task.tools else {}))
    return lines
