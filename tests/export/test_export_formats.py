"""The rows of every format, word for word."""

from dataclasses import replace

import pyarrow.parquet
import pytest
from genrm_process import read_lines
from scored_lines import scored, write_lines

from genrm_cli.export.chat_messages import messages_of_prompt, messages_of_response
from genrm_cli.export.formats import FORMATS
from genrm_cli.export.rows import (
    ExportedAnswer,
    JudgeReply,
    Pair,
    Prompt,
    PromptRow,
    Sample,
    UnfitError,
)
from genrm_cli.rollouts.reading.messages import items_of_messages, turns_of_messages
from genrm_cli.rollouts.rollout import Reasoning, Text, ToolCall, ToolResult, Turn
from genrm_cli.verdicts import Verdict

S = {"role": "system", "content": "Be brief."}
U = {"role": "user", "content": "2+2?"}
A4 = {"role": "assistant", "content": "4"}
A5 = {"role": "assistant", "content": "5"}
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "add", "arguments": '{"a": 2}'},
}
CALLING = {
    "role": "assistant",
    "content": "",
    "tool_calls": [CALL],
}
RESULT = {
    "role": "tool",
    "content": "4",
    "name": "add",
    "tool_call_id": "call_1",
}

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
KEY = "0123456789abcdef" * 4
SAYING = {"role": "assistant", "content": '{"score_1": 4, "score_2": 2, "ranking": 2}'}
ROWS["judgement"] = JudgeReply(
    KEY, (0, 1), "j", [S, U], SAYING, Verdict(3.5, 2.5, 2.5), True, "00ff", (GOOD, BAD)
)
IDS = {
    "prompt_id": "00ff",
    "chosen_id": "x/task:1#0",
    "rejected_id": "x/task:1#1",
    "judge": "j",
}
SCORES = {
    "score_chosen": 4.5,
    "score_rejected": 2.0,
    "margin": 2.5,
    **IDS,
}
SCORE = {
    "score": 4.5,
    "prompt_id": "00ff",
    "completion_id": "x/task:1#0",
    "judge": "j",
}
EXPLICIT = {
    "prompt": [S, U],
    "chosen": [A4],
    "rejected": [A5],
    **SCORES,
}

GOLDEN = {
    "trl-dpo": EXPLICIT,
    "trl-orpo": EXPLICIT,
    "trl-simpo": EXPLICIT,
    "trl-reward": EXPLICIT,
    "trl-kto": {
        "prompt": [S, U],
        "completion": [A4],
        "label": True,
        **SCORE,
    },
    "trl-sft": {
        "prompt": [S, U],
        "completion": [A4],
        **SCORE,
    },
    "trl-grpo": {"prompt": [S, U], "prompt_id": "00ff"},
    "openrlhf": EXPLICIT,
    "nemo-rl": {
        "context": [S, U],
        "completions": [
            {
                "rank": 0,
                "completion": [A4],
                "reward": 4.5,
            },
            {
                "rank": 1,
                "completion": [A5],
                "reward": 2.0,
            },
        ],
        **SCORES,
    },
    "verl": {
        "data_source": "genrm",
        "prompt": [S, U],
        "ability": "chat",
        "reward_model": {"style": "model", "ground_truth": ""},
        "extra_info": {
            "index": 3,
            "prompt_id": "00ff",
            "judge": "j",
            "offline_rewards": [4.5, 2.0],
            "offline_ids": ["x/task:1#0", "x/task:1#1"],
        },
    },
    "llamafactory": {
        "messages": [S, U],
        "chosen": A4,
        "rejected": A5,
        "tools": "",
        **SCORES,
    },
    "axolotl": {
        "prompt": [S, U],
        "chosen": A4,
        "rejected": A5,
        **SCORES,
    },
    "ms-swift": {
        "messages": [S, U, A4],
        "rejected_response": "5",
        **SCORES,
    },
    "torchtune": {
        "chosen": [S, U, A4],
        "rejected": [S, U, A5],
        **SCORES,
    },
    "groups": {
        "prompt": [S, U],
        "completions": [[A4], [A5]],
        "rewards": [4.5, 2.0],
        "advantages": [0.7, None],
        "standard_errors": [0.25, None],
        "logprobs": [[-0.5, -1.5], None],
        "completion_ids": ["x/task:1#0", "x/task:1#1"],
        "tools": "",
        "prompt_id": "00ff",
        "judge": "j",
    },
    "judge-sft": {
        "messages": [S, U, SAYING],
        "preferred": "first",
        "prompt_id": "00ff",
        "first_id": "x/task:1#0",
        "second_id": "x/task:1#1",
        "judge": "j",
        "journal_key": KEY,
    },
    "genrm-rl": {
        "messages": [[S, U]],
        "uuid": "01234567-89ab-cdef-0123-456789abcdef",
        "num_responses": 2,
        "score_1": 4,
        "score_2": 3,
        "ranking": 3,
        "license": "",
        "used_in": [],
    },
}


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
        messages = messages_of_response((Turn("user", "2+2?"),), ITEMS, policy)
        assert messages == [
            {
                "role": "assistant",
                **first,
                "tool_calls": [CALL],
            },
            RESULT,
            {"role": "assistant", **last},
        ]


def test_messages_survive_reading_and_writing():
    """System, earlier turns, calls and results of a prompt come out as messages again, numbered
    through.
    """
    messages = [
        S,
        U,
        CALLING,
        RESULT,
        A4,
        {"role": "user", "content": "And 3?"},
    ]
    turns = turns_of_messages(messages)
    assert turns[2] == Turn("assistant", '[calls add({"a": 2})]')
    again = messages_of_prompt(turns)
    assert again == [
        *messages[:3],
        {key: value for key, value in RESULT.items() if key != "name"},
        *messages[4:],
    ]
    answer = messages_of_response(turns, items_of_messages([CALLING, RESULT, A5]) or (), "keep")
    assert [message.get("tool_call_id") for message in answer] == [None, "call_2", None]


def test_the_calls_of_a_prompt_reach_the_file(genrm, call):
    """They are calls in the file, as in the scored lines, and no text."""
    asked = [
        U,
        CALLING,
        {key: value for key, value in RESULT.items() if key != "name"},
        A4,
        U,
    ]
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


def test_rankings_are_rounded_towards_the_middle_and_not_over_it():
    """Both orders of a pair get opposite rankings: a rounding of halves upwards would not."""
    cases = [
        (1.5, (2, 5)),
        (2.5, (3, 4)),
        (3.2, (3, 4)),
        (3.4, (3, 4)),
        (1, (1, 6)),
    ]
    for ranking, labels in cases:
        rows = [
            replace(ROWS["judgement"], verdict=Verdict(4, 2, each))
            for each in (ranking, 7 - ranking)
        ]
        assert tuple(FORMATS["genrm-rl"].render(row)["ranking"] for row in rows) == labels
