"""Every command on a terminal shows what it prints in a pipe: whole, in order, and not broken where
it should not be.
"""

import re

import pytest
from screens import Shown
from terminals import on_terminal, stopped_on_terminal
from tried_commands import TRIED

from genrm_cli.commands import read_commands

WIDTHS = (40, 60, 80)
# Exact texts, which the terminal breaks where it likes.
EXACT = {("show", "in.jsonl"), ("profiles", "nemotron")}
# A page that is formatted, and a table with excerpts of long texts.
FORMATTED = {("guide", "running"), ("demo",)}
LONGEST = 20  # characters of a word that a table does not break
_PROGRESS = re.compile(r"^reading: |^comparisons \d+/|in flight,|, starting$|\d left$")
# What differs between two runs, and the bars of tables and headings.
_CHANGING = re.compile(r"\d+")


@pytest.fixture
def tried(genrm, call, judge_server):
    """Write inputs with wide characters and names of any length; return all that is tried."""
    question = (
        "Was heißt 日本語の文章です, und was 這是一個很長的句子沒有空格所以終端機必須自己斷行?"
    )
    answers = ("one", "zwei 語", "three words")
    for name in ("in", "other"):
        lines = [{"prompt": question, "response": f"{text} {name}"} for text in answers]
        genrm.write(f"{name}.jsonl", lines)
    pair = {"prompt": question, "chosen": "one", "rejected": "two words"}
    categories = ("分類", "a category with a name that is longer than half of a terminal")
    genrm.write("pairs.jsonl", [{**pair, "category": each} for each in categories])
    genrm.write("bad.jsonl", [{"Frage": question, "x": 1}, {"日本": question}])
    call("score in.jsonl other.jsonl --offline").ended(0)
    judge = f"--base-url {judge_server.base_url} --model m --no-journal"
    return [
        (name, *line.replace("JUDGE", judge).split())
        for name, lines in TRIED.items()
        for line in ("--help", *lines)
    ]


def test_every_command_is_tried():
    """A new command comes with its lines."""
    assert set(TRIED) == set(read_commands())


def is_whole(row):
    """Return whether the terminal may break a row: a command, or a word that is longer than it."""
    return "genrm " in row or "--" in row or len(row.split()) == 1


# What the line of progress says depends on when it is drawn.
PROGRESS = ("starting", "reading: ", "comparisons 0/")


@pytest.mark.slow
def test_results_stand_on_lines_of_their_own(genrm):
    """The line of progress is gone when a command prints its result on the same terminal."""
    genrm.rollouts(1, 2)
    [printed] = on_terminal(genrm, [(genrm.folder, ("validate", "in.jsonl"), 40)])
    shown = Shown(printed, 40)
    assert shown.shown[0].split() == ["input", "in.jsonl"]
    assert any(row.startswith(PROGRESS) for row in shown.erased)
    assert not any(row.startswith(PROGRESS) for row in shown.shown)


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_a_terminal_shows_what_a_pipe_gets(genrm, call, tried, width):
    """Nothing is written over, cut off, broken in a table, or left of a line of progress."""
    wrong = []
    printed = on_terminal(genrm, [(genrm.folder, words, width) for words in tried])
    for words, text in zip(tried, printed, strict=True):
        finished = call(*words, COLUMNS=str(width))
        in_pipe = finished.out.decode() + finished.err
        shown = Shown(text, width)
        rows = shown.shown
        on_screen = _CHANGING.sub("0", "".join("".join(rows).split()))
        missing = [
            word
            for word in in_pipe.split()
            if len(word) <= LONGEST and _CHANGING.sub("0", word) not in on_screen
        ]
        found = {
            "traceback": [row for row in rows if "Traceback" in row],
            "codes in a pipe": re.findall(r"\x1b.{,20}", in_pipe),
            "written over": shown.overwritten,
            "broken": [row for row in shown.broken if words[:2] not in EXACT and not is_whole(row)],
            "left of progress": [row for row in rows if _PROGRESS.search(row)],
            "missing": [] if words in FORMATTED else missing,
        }
        wrong += [(words, what, each[:9]) for what, each in found.items() if each]
    assert not wrong, "\n".join(map(repr, wrong))


@pytest.mark.slow
def test_an_old_terminal_without_a_home_shows_every_command(genrm, tried):
    """ASCII, the C locale and no HOME: whatever a command prints is ASCII, and no traceback."""
    old = {
        "PYTHONIOENCODING": "ascii",
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
    }
    commands = [(genrm.folder, words, 60) for words in tried]
    shown = on_terminal(genrm, commands, old, without=("HOME",))
    for words, printed in zip(tried, shown, strict=True):
        assert printed.isascii(), words
        assert printed.strip(), words
        assert "Traceback" not in printed, words


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_ctrl_c_leaves_only_messages_on_the_screen(genrm, judge_server, width):
    """The line of progress of a run that waits for its judge is gone, whatever its height was."""
    judge_server.behave(latency_s=60)
    genrm.rollouts(1, 4)
    words = ("score", "in.jsonl", *judge_server.flags, "--no-probe")
    shown = Shown(stopped_on_terminal(genrm, words, width, "groups 0/1"), width)
    assert shown.overwritten == []
    assert not [row for row in shown.shown if _PROGRESS.search(row)]
    assert "interrupted" in "".join(shown.shown)
