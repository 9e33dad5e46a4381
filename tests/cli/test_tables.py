"""Tables in a real terminal: numbers and names are whole at any width, and texts give way."""

import re

import pytest
from rich.cells import cell_len
from terminals import on_terminal

from genrm_cli.cli.tables import Table, excerpts, names, numbers, texts

_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_WHOLE = re.compile(r"\S*(?:\d|\w_\w)\S*")  # a number, or a name such as simple_tiebreaker
_LONG = "a response that is much longer than any terminal could show in a line of its own " * 3
COMMANDS = {
    "eval": ("eval", "pairs.jsonl", "--offline"),
    "compare": (
        "compare",
        "-p",
        "Name a river.",
        "The Volga.",
        _LONG,
        "A river.",
        "--offline",
        "-q",
    ),
    "show": ("show", "in.scored.jsonl"),
    "rollouts": ("show", "in.jsonl"),
    "profiles": ("profiles",),
    "config": ("config",),
}


@pytest.mark.slow
def test_tables_fit_a_terminal_and_keep_every_digit(genrm, call):
    """No line of a table is wider than the terminal, and every number and name of the pipe's table
    is there, whole.
    """
    lines = [
        {"prompt": f"Question {'ab'[n % 2]}?", "response": _LONG[: 9 * n + 5]} for n in range(12)
    ]
    genrm.write("in.jsonl", lines)
    pair = {"prompt": "Which?", "chosen": "This one.", "rejected": "No."}
    genrm.write("pairs.jsonl", [pair | {"category": f"long_category_{n}"} for n in range(3)])
    call("score", "in.jsonl", "--offline", "--strategy", "all_pairs", "--both-orders", "-q")
    cases = [(name, width) for name in COMMANDS for width in (80, 60)]
    shown = on_terminal(genrm, [(genrm.folder, COMMANDS[name], width) for name, width in cases])
    piped = {name: call(*command).out.decode() for name, command in COMMANDS.items()}
    for (name, width), text in zip(cases, shown, strict=True):
        plain = _CODES.sub("", text.rpartition("\x1b[2K")[2]).replace("\r", "")
        assert "error:" not in plain, plain
        assert max(map(cell_len, plain.split("\n"))) <= width, (name, plain)
        missing = set(_WHOLE.findall(piped[name])) - set(plain.split())
        assert not missing, (name, missing, plain)


def test_columns_that_do_not_fit_follow_below_their_names():
    """Eleven numbers in a narrow terminal are shown in several parts, each with the names of the
    rows.
    """
    table = Table([*names("judge"), *numbers(*(f"column {n}" for n in range(11)))])
    table.add("a-judge-with-a-name", *(f"{n}.123456" for n in range(11)))
    lines = [line.plain for line in table.iter_lines(50)]
    assert max(map(len, lines)) <= 50
    assert sum("a-judge-with-a-name" in line for line in lines) > 2
    assert "a-judge-with-a-name" in lines[-1]
    assert "10.123456" in lines[-1]


def test_texts_shrink_and_wide_characters_count_twice():
    """A text wraps, an excerpt is cut with an ellipsis; Chinese takes two columns each; a pipe gets
    it all.
    """
    table = Table([*names("n"), *texts("text"), *excerpts("beginning"), *numbers("count")])
    table.add("1", "several words that wrap " * 3, "河" * 60, "7")
    narrow = [line.plain for line in table.iter_lines(50)]
    assert len(narrow) > 3
    assert max(map(cell_len, narrow)) <= 50
    assert "…" in narrow[1]
    assert len(list(table.iter_lines(None))) == 2
