"""LLaMA-Factory's ranking data in its sharegpt form: `messages`, and one object each as `chosen`
and `rejected`.

Its converter requires alternating turns, and skips any other row with a log line, so these rows are
counted here. Calls are turns with their own role, and all results that follow one call are joined.

Source: hiyouga/LLaMA-Factory ff6d4d12, `llamafactory/data/converter.py`,
`SharegptDatasetConverter`."""

import json
from collections.abc import Sequence

from genrm_cli.products.export.chat_messages import Message
from genrm_cli.products.export.rows import Json, Pair, UnfitError, in_text, json_of_tools, scores_of

# Turns must alternate, so all results of a call share one.
_JOINED_RESULTS = "\n</tool_response>\n<tool_response>\n"
_ASKING = ("user", "observation")
_ANSWERING = ("assistant", "function_call")


def _render(pair: Pair) -> Json:
    return {
        "messages": _aligned(pair.prompt.messages),
        "chosen": {"role": "assistant", "content": pair.chosen.text},
        "rejected": {"role": "assistant", "content": pair.rejected.text},
        "tools": json_of_tools(pair.prompt.tools),
    } | scores_of(pair)


def _aligned(messages: Sequence[Message]) -> list[Message]:
    """Return the turns in the form that LLaMA-Factory requires.

    Raises:
        UnfitError: they do not alternate, or do not end in a turn to answer.
    """
    turns: list[Message] = []
    for message in messages:
        turn = _turn_of(message)
        if turn["role"] == "observation" and turns and turns[-1]["role"] == "observation":
            turns[-1]["content"] += _JOINED_RESULTS + turn["content"]
        else:
            turns.append(turn)
    spoken = turns[1:] if turns and turns[0]["role"] == "system" else turns
    if len(spoken) % 2 == 0 or any(
        turn["role"] not in (_ANSWERING if number % 2 else _ASKING)
        for number, turn in enumerate(spoken)
    ):
        raise UnfitError(
            "LLaMA-Factory takes turns that alternate and end with the user or a tool result"
        )
    return turns


def _turn_of(message: Message) -> Message:
    if "tool_calls" in message:
        if message["content"].strip():
            raise UnfitError("LLaMA-Factory takes no text next to tool calls")
        calls = [_call_of(call["function"]) for call in message["tool_calls"]]
        content = json.dumps(calls[0] if len(calls) == 1 else calls, ensure_ascii=False)
        return {"role": "function_call", "content": content}
    role = "observation" if message["role"] == "tool" else message["role"]
    return {"role": role, "content": message["content"]}


def _call_of(function: Json) -> Json:
    try:
        arguments = json.loads(function["arguments"])
    except ValueError as error:
        raise UnfitError("LLaMA-Factory takes tool calls whose arguments are JSON") from error
    return {"name": function["name"], "arguments": arguments}


def dataset_info(uri: str) -> Json:
    """Return the entry of `dataset_info.json` for an output."""
    return {
        "genrm": {
            "file_name": uri.rpartition("/")[2],
            "formatting": "sharegpt",
            "ranking": True,
            "columns": {
                "messages": "messages",
                "chosen": "chosen",
                "rejected": "rejected",
                "tools": "tools",
            },
            "tags": {
                "role_tag": "role",
                "content_tag": "content",
                "user_tag": "user",
                "assistant_tag": "assistant",
                "observation_tag": "observation",
                "function_tag": "function_call",
                "system_tag": "system",
            },
        }
    }


_USAGE = """# copy the entry from *.dataset_info.json into the dataset_info.json next to {uri}
llamafactory-cli train --stage dpo --dataset genrm --dataset_dir FOLDER ..."""

FORMATS = (
    in_text(
        "llamafactory",
        "pairs for LLaMA-Factory",
        "pair",
        _render,
        _USAGE,
        sides={".dataset_info.json": dataset_info},
    ),
)
