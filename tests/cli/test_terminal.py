"""Nothing untrusted reaches the terminal raw: the real command in a pseudo-terminal, and in a
pipe.
"""

import json
import re

import pytest
from genrm_process import Genrm
from terminals import on_terminal

# The title, the clipboard (OSC 52), a cleared screen, a C1 introducer, a reordered line, a carriage
# return.
HOSTILE = "x\x1b]0;title\x07\x1b]52;c;aGk=\x07\x1b[2J\x9b31m\u202etxt\rgone"
# What Rich writes to a terminal of its own: colours, and the cursor of the progress line.
_OWN = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\x1b\[[12]?K|\x1b\[1A|\r")
_RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def words_in(line):
    """Return the words of a command, in which HOSTILE is the hostile text."""
    return tuple(word.replace("HOSTILE", HOSTILE) for word in line.split())


def on_hostile_terminal(genrm, *lines):
    """Run commands in a pseudo-terminal, each in a folder with hostile files; return what each has
    printed.
    """
    folders = [genrm.folder / str(number) for number in range(len(lines))]
    for folder in folders:
        folder.mkdir()
        write_hostile(Genrm(folder))
    commands = zip(folders, map(words_in, lines), strict=True)
    return on_terminal(genrm, [(folder, words, 200) for folder, words in commands])


def unsafe_part(text, name="title"):
    """Return what else than Rich's own colours and cursor was printed of a shown hostile text, with
    what is around.
    """
    assert "Traceback" not in text
    assert name in text, "the hostile text was not shown at all"
    found = _RAW.search(_OWN.sub("", text.replace("\r\n", "\n")))
    return found and text[max(0, found.start() - 80) : found.end() + 80].encode("unicode_escape")


def write_hostile(genrm):
    """Write files that are hostile throughout, one of them by its name as well: a group whose ids,
    prompt and answers are hostile, and a line that is rejected with its keys.
    """
    line = {"prompt": HOSTILE, "prompt_id": HOSTILE}
    lines = [*({**line, "completion": f"{HOSTILE} {n}"} for n in range(3)), {HOSTILE: 1}]
    genrm.write("in.jsonl", lines)
    genrm.write(f"{HOSTILE}.jsonl", lines)
    pair = {"prompt": HOSTILE, "chosen": HOSTILE, "rejected": "bad", "category": HOSTILE}
    genrm.write("pairs.jsonl", [pair, {HOSTILE: 1}])


FEW = (
    "score . --offline --min-age 0",
    "show in.jsonl --as-judge",
    "config --model HOSTILE",
    "score --HOSTILE",
    "HOSTILE",
    "score in.jsonl --model m --base-url http://HOSTILE/v1",
    "eval pairs.jsonl --offline",
)
MORE = (
    "score in.jsonl --offline -o -",
    "score . --offline --min-age 0 --dry-run",
    "validate in.jsonl",
    "validate in.jsonl --json",
    "show in.jsonl",
    "show in.jsonl --as-judge --json",
    "show in.jsonl --group HOSTILEHOSTILE",
    "compare --offline -p HOSTILE HOSTILE HOSTILE!",
    "config --model HOSTILE --json",
    "score HOSTILE --offline",
    "score in.jsonl --retries HOSTILE",
    "profiles HOSTILE",
    "journal HOSTILE",
    "trust HOSTILE",
)
# They quote nothing.
SILENT = (
    "score in.jsonl --offline",
    "score in.jsonl --offline --json",
    "show in.jsonl --limit HOSTILE",
    "profiles nemotron --reply HOSTILE",
)


@pytest.mark.slow
@pytest.mark.parametrize(("lines", "shown"), [(FEW, "title"), (MORE, "title"), (SILENT, "")])
def test_no_text_controls_the_terminal(genrm, lines, shown):
    """Answers, ids, prompts, reasons, file names, settings and arguments are printed with their
    controls escaped.
    """
    for line, text in zip(lines, on_hostile_terminal(genrm, *lines), strict=True):
        assert unsafe_part(text, shown) is None, line


@pytest.mark.slow
def test_no_reply_of_a_server_controls_the_terminal(genrm, judge_server, start_judge):
    """Neither do an error page, the message of an error, and the names of models that a server
    lists.
    """
    other = start_judge()
    judge_server.behave(fault={"status": 400, "body": HOSTILE})
    other.behave(fault={"content": HOSTILE})
    score = "score in.jsonl --model m --retries 0 --give-up-after 1s --force --no-journal"
    lines = [
        f"{score} --base-url {server.base_url} {probe}"
        for server in (judge_server, other)
        for probe in ("--probe", "--no-probe")
    ]
    assert [unsafe_part(text) for text in on_hostile_terminal(genrm, *lines)] == [None] * 4


@pytest.mark.parametrize(
    "line",
    ["validate in.jsonl", "show in.jsonl --as-judge", "score HOSTILE --offline", "score --HOSTILE"],
)
def test_a_pipe_is_as_safe_as_a_terminal(genrm, call, line):
    """`| less` and a log that someone prints are terminals in the end."""
    write_hostile(genrm)
    finished = call(*words_in(line))
    assert unsafe_part(finished.out.decode() + finished.err) is None


def test_json_holds_the_exact_texts(genrm, call):
    """`show --json` escapes as JSON does, so that a program reads what the judge would be sent."""
    write_hostile(genrm)
    shown = call("show in.jsonl --as-judge --json --profile nemotron-plain")
    assert HOSTILE in json.loads(shown.out)["messages"][0]["content"]


def test_a_name_begins_no_line_of_its_own(call):
    """A newline in a name cannot forge a message of genrm's."""
    forged = "genrm: done: 1 file: 1 scored; exit 0"
    finished = call("score --offline", f"a\n{forged}\n.jsonl").ended(3)
    assert not re.search(f"^{forged}", finished.err, re.MULTILINE)


@pytest.mark.slow
def test_stdout_in_ascii_shows_every_result(genrm):
    """What an old terminal cannot show is written as escapes, which leave JSON whole."""
    lines = [{"prompt": "é", "response": text} for text in ("one", "two words 𝄞")]
    genrm.write("é.jsonl", lines)
    ascii_only = {"PYTHONIOENCODING": "ascii"}
    shown = genrm.run("validate é.jsonl", **ascii_only).ended(0)
    assert b"ring \\u00d7 1" in shown.out
    document = genrm.run("validate é.jsonl --json", **ascii_only).ended(0)
    assert json.loads(document.out)["input"] == "é.jsonl"
