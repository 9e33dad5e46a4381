"""The rows of every format, word for word."""

import json
from pathlib import Path

import pyarrow.parquet
import pytest
from genrm_process import read_lines
from scored_lines import scored, write_lines

from genrm_cli.products.export.chat_messages import messages_of_prompt, messages_of_response
from genrm_cli.products.export.formats import FORMATS
from genrm_cli.products.export.rows import (
    ExportedAnswer,
    Pair,
    Prompt,
    PromptRow,
    Sample,
    UnfitError,
)
from genrm_cli.rollouts.reading.messages import items_of_messages, turns_of_messages
from genrm_cli.rollouts.rollout import Reasoning, Text, ToolCall, ToolResult, Turn

S = {"role": "system", "content": "Be brief."}
U = {"role": "user", "content": "2+2?"}
A4 = {"role": "assistant", "content": "4"}
A5 = {"role": "assistant", "content": "5"}
FUNCTION = {"name": "add", "arguments": '{"a": 2}'}
CALL = {"id": "call_1", "type": "function", "function": FUNCTION}
CALLING = {"role": "assistant", "content": "", "tool_calls": [CALL]}
UNNAMED = {"role": "tool", "content": "4", "tool_call_id": "call_1"}
RESULT = {**UNNAMED, "name": "add"}

PROMPT = Prompt("00ff", [S, U], (), "j")
GOOD = ExportedAnswer("x/task:1#0", [A4], 4.5, 0.25, 0.7, [-0.5, -1.5])
BAD = ExportedAnswer("x/task:1#1", [A5], 2.0, None, None, None)
PAIR = Pair(PROMPT, GOOD, BAD)
ROWS = {
    "pair": PAIR,
    "label": Sample(PROMPT, GOOD, True),
    "sample": Sample(PROMPT, GOOD),
    "prompt": PromptRow(PROMPT, [GOOD, BAD], 3),
}
GOLDEN = json.loads(Path(__file__).with_name("rows_of_formats.json").read_text())


def test_a_row_is_written_as_its_loader_reads_it():
    """The keys and values of `trainer-formats.md`, where each was tried with the loader."""
    for name in FORMATS:
        format_ = FORMATS[name]
        assert format_.render(ROWS[format_.unit]) == GOLDEN[name]
        assert "out.jsonl" in format_.usage("out.jsonl")


ONE_MESSAGE = ["llamafactory", "axolotl", "ms-swift"]


def test_a_loader_of_single_answers_gets_no_others():
    """A response with tool calls is refused with a reason: the loader would drop it or train on a
    part of it.
    """
    for name in ONE_MESSAGE:
        longer = ExportedAnswer("x", [CALLING, RESULT, A4], 5.0)
        with pytest.raises(UnfitError, match="one answer"):
            FORMATS[name].render(Pair(PROMPT, longer, BAD))


def test_a_loader_without_tools_gets_no_prompt_that_needs_them():
    """A prompt with tool definitions is refused: the model would learn to call what it was not told
    of.
    """
    for name in ["openrlhf", "nemo-rl", "axolotl", "ms-swift", "torchtune"]:
        with pytest.raises(UnfitError):
            FORMATS[name].render(Pair(Prompt("1", [U], ("{}",)), GOOD, BAD))


def test_a_loader_that_removes_calls_gets_no_prompt_with_them():
    """Earlier calls in a prompt are refused even without definitions: the result of a call would
    have no call.
    """
    for name in ["axolotl", "ms-swift", "torchtune"]:
        with pytest.raises(UnfitError, match="tool"):
            FORMATS[name].render(Pair(Prompt("1", [U, CALLING, RESULT, A4, U]), GOOD, BAD))


def test_llamafactory_gets_calls_in_its_own_roles():
    """Calls and results become turns that alternate; two results after one call are joined."""
    prompt = Prompt("1", [S, U, CALLING, RESULT, RESULT, A4, U])
    row = FORMATS["llamafactory"].render(Pair(prompt, GOOD, BAD))
    assert row["messages"] == [
        S,
        U,
        {"role": "function_call", "content": '{"name": "add", "arguments": {"a": 2}}'},
        {"role": "observation", "content": "4\n</tool_response>\n<tool_response>\n4"},
        A4,
        U,
    ]


def test_llamafactory_gets_turns_that_alternate_or_none():
    """What its converter would skip with a log line is refused here."""
    for messages in [[U, U], [A4], [U, A4], [S]]:
        with pytest.raises(UnfitError, match="alternate"):
            FORMATS["llamafactory"].render(Pair(Prompt("1", messages), GOOD, BAD))


def test_a_session_says_which_messages_the_policy_wrote():
    """In groups the messages of a session carry a mark; those of single answers do not."""
    session = ExportedAnswer("x", [A4, U, A5], 3.0, is_session=True)
    row = FORMATS["groups"].render(PromptRow(PROMPT, [session, BAD], 0))
    assert [message["policy"] for message in row["completions"][0]] == [True, False, True]
    assert row["completions"][1] == [A5]


ITEMS = (
    Reasoning("Hm."),
    Text("Let me add."),
    ToolCall("add", '{"a": 2}'),
    ToolResult("4", "add"),
    Reasoning("Done."),
    Text("4"),
)


def test_reasoning_is_kept_stripped_or_separated():
    """Each thought stays with the message that it precedes, or goes."""
    cases = [
        (
            "keep",
            {"content": "<think>\nHm.\n</think>\n\nLet me add."},
            {"content": "<think>\nDone.\n</think>\n\n4"},
        ),
        ("strip", {"content": "Let me add."}, {"content": "4"}),
        (
            "separate",
            {"content": "Let me add.", "reasoning_content": "Hm."},
            {"content": "4", "reasoning_content": "Done."},
        ),
    ]
    for policy, first, last in cases:
        called, result, ended = messages_of_response((Turn("user", "2+2?"),), ITEMS, policy)
        assert called == {"role": "assistant", **first, "tool_calls": [CALL]}
        assert result == RESULT
        assert ended == {"role": "assistant", **last}


def test_messages_survive_reading_and_writing():
    """System, earlier turns, calls and results of a prompt come out as messages again, numbered
    through.
    """
    turns = turns_of_messages([S, U, CALLING, RESULT, A4, U])
    assert turns[2] == Turn("assistant", '[calls add({"a": 2})]')
    assert messages_of_prompt(turns) == [S, U, CALLING, UNNAMED, A4, U]
    answer = messages_of_response(turns, items_of_messages([CALLING, RESULT, A5]) or (), "keep")
    assert [message.get("tool_call_id") for message in answer] == [None, "call_2", None]


def test_the_calls_of_a_prompt_reach_the_file(genrm, call):
    """They are calls in the file, as in the scored lines, and no text."""
    asked = [U, CALLING, UNNAMED, A4, U]
    write_lines(genrm.folder / "x.scored.jsonl", [scored([A5], 4.0, size=1, prompt=asked)])
    assert call("export", "x.scored.jsonl", "--to", "verl", "-o", "out.jsonl").code == 0
    assert read_lines(genrm.folder / "out.jsonl")[0]["prompt"] == asked


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_verl_learns_which_rows_are_of_validation(genrm, call, suffix):
    """Each row names its split as verl's own data sets do; the printed options name both files."""
    lines = [
        scored([A5], 4.0, size=1, group=f"task:{number}", prompt=[U | {"content": f"{number}?"}])
        for number in range(4)
    ]
    write_lines(genrm.folder / "x.scored.jsonl", lines)
    output = f"out{suffix}"
    done = call("export", "x.scored.jsonl", "--to", "verl", "-o", output, "--split", "0.25")
    assert f"data.train_files={output} data.val_files=out.validation{suffix} " in done.err
    names = {"out": ["train"] * 3, "out.validation": ["test"]}
    for stem, expected in names.items():
        path = genrm.folder / f"{stem}{suffix}"
        is_parquet = suffix == ".parquet"
        rows = pyarrow.parquet.read_table(path).to_pylist() if is_parquet else read_lines(path)
        assert [row["extra_info"]["split"] for row in rows] == expected
