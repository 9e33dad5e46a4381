"""Write the turns of a prompt and the items of a response as chat messages, in the shape of
OpenAI's API.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

from genrm_cli.json_types import Record
from genrm_cli.rollouts.rollout import (
    CallingTurn,
    Item,
    Media,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    join_texts,
)

Message = Record
ReasoningPolicy = Literal["keep", "strip", "separate"]
REASONING_FIELD = "reasoning_content"

_ROLES = {"environment": "user"}  # chat templates know no other role for it


def messages_of_prompt(prompt: Sequence[Turn]) -> list[Message]:
    """Return the turns of a prompt as messages; tool calls keep their structure where the line had
    one.
    """
    return _Writer(prompt, "strip").messages


def messages_of_response(
    prompt: Sequence[Turn], items: Iterable[Item], reasoning: ReasoningPolicy
) -> list[Message]:
    """Return a response as the messages that follow its prompt.

    Arguments of calls are JSON text, so that a column of them has one type. Calls are numbered
    through prompt and response, and results name the call they answer, the oldest first.

    Args:
        prompt: the prompt.
        items: the response.
        reasoning: `keep` it in the content between think tags, `strip` it, or `separate` it into
            `reasoning_content`.
    """
    writer = _Writer(prompt, reasoning)
    writer.is_open = False
    start = len(writer.messages)
    for item in items:
        writer.add(item)
    return writer.messages[start:]


class _Writer:
    """Messages in progress. Text and calls of the assistant share a message until something else
    follows.
    """

    def __init__(self, prompt: Iterable[Turn], reasoning: ReasoningPolicy) -> None:
        self.messages: list[Message] = []
        self._reasoning = reasoning
        self.is_open = False  # whether more may be added to the last message
        self._calls = 0
        self._unanswered: list[str] = []
        for turn in prompt:
            self.add(turn)

    def add(self, item: Item) -> None:
        """Add an item of a response, or a turn that the policy did not write in it."""
        match item:
            case CallingTurn():
                if item.words.strip() or not self.is_open:
                    self._begin(item.words)
                for call in item.calls:
                    self._call(call)
            case Turn("tool", text):
                self._result(text, "")
            case Turn(role, text):
                self.messages.append({"role": _ROLES.get(role, role), "content": text})
                self.is_open = False
            case Reasoning(text):
                self._think(text)
            case Text(text) | Refusal(text):
                self._say(text)
            case ToolCall():
                self._call(item)
            case ToolResult(text, name):
                self._result(text, name)
            case Media(kind):
                self._say(f"[{kind}]")

    def _begin(self, text: str = "") -> Message:
        self.messages.append({"role": "assistant", "content": text})
        self.is_open = True
        return self.messages[-1]

    def _current(self, *, for_words: bool) -> Message:
        """Return the assistant message to add to. Text after a call begins a new message."""
        if not self.is_open or (for_words and "tool_calls" in self.messages[-1]):
            return self._begin()
        return self.messages[-1]

    def _say(self, text: str) -> None:
        message = self._current(for_words=True)
        message["content"] = join_texts([message["content"], text])

    def _think(self, text: str) -> None:
        if self._reasoning == "strip":
            return
        if self.is_open and (self.messages[-1]["content"] or "tool_calls" in self.messages[-1]):
            self.is_open = False
        message = self._current(for_words=True)
        if self._reasoning == "separate":
            message[REASONING_FIELD] = message.get(REASONING_FIELD, "") + text
        else:
            message["content"] = f"<think>\n{text.strip()}\n</think>"

    def _call(self, call: ToolCall) -> None:
        self._calls += 1
        name = f"call_{self._calls}"
        self._unanswered.append(name)
        function = {"name": call.name, "arguments": call.arguments}
        record = {"id": name, "type": "function", "function": function}
        self._current(for_words=False).setdefault("tool_calls", []).append(record)

    def _result(self, text: str, name: str) -> None:
        message: Message = {"role": "tool", "content": text}
        if name:
            message["name"] = name
        if self._unanswered:
            message["tool_call_id"] = self._unanswered.pop(0)
        self.messages.append(message)
        self.is_open = False
