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


def on_hostile_terminal(genrm, *commands):
    """Run commands in a pseudo-terminal, each in a folder with hostile files; return what each has
    printed.
    """
    folders = [genrm.folder / str(number) for number in range(len(commands))]
    for folder in folders:
        folder.mkdir()
        write_hostile(Genrm(folder))
    return on_terminal(
        genrm, [(folder, command, 200) for folder, command in zip(folders, commands, strict=True)]
    )


def unsafe_part(text):
    """Return what else than Rich's own colours and cursor was printed of a shown hostile text, with
    what is around.
    """
    assert "Traceback" not in text
    assert "title" in text, "the hostile text was not shown at all"
    found = _RAW.search(_OWN.sub("", text.replace("\r\n", "\n")))
    return (
        b""
        if found is None
        else text[max(0, found.start() - 80) : found.end() + 80].encode("unicode_escape")
    )


def hostile_lines():
    """Make a group whose ids, prompt and answers are hostile, and a line that is rejected with its
    keys.
    """
    lines = [
        {
            "prompt": HOSTILE,
            "completion": f"{HOSTILE} {n}",
            "prompt_id": HOSTILE,
        }
        for n in range(3)
    ]
    return [*lines, {HOSTILE: 1}]


def write_hostile(genrm):
    """Write files that are hostile throughout, one of them by its name as well."""
    genrm.write("in.jsonl", hostile_lines())
    genrm.write(f"{HOSTILE}.jsonl", hostile_lines())
    pairs = [
        {
            "prompt": HOSTILE,
            "chosen": HOSTILE,
            "rejected": "bad",
            "category": HOSTILE,
        },
        {HOSTILE: 1},
    ]
    genrm.write("pairs.jsonl", pairs)


CASES = {
    "score": ("score", "in.jsonl", "--judge", "lexical"),
    "score many": (
        "score",
        ".",
        "--judge",
        "lexical",
        "--min-age",
        "0",
    ),
    "score to stdout": (
        "score",
        "in.jsonl",
        "--judge",
        "lexical",
        "-o",
        "-",
    ),
    "score --json": (
        "score",
        "in.jsonl",
        "--judge",
        "lexical",
        "--json",
    ),
    "dry run": (
        "score",
        ".",
        "--judge",
        "lexical",
        "--min-age",
        "0",
        "--dry-run",
    ),
    "validate": ("validate", "in.jsonl"),
    "validate --json": ("validate", "in.jsonl", "--json"),
    "show": ("show", "in.jsonl"),
    "show --as-judge": ("show", "in.jsonl", "--as-judge"),
    "show --json": ("show", "in.jsonl", "--as-judge", "--json"),
    "no such group": ("show", "in.jsonl", "--group", HOSTILE * 2),
    "compare": (
        "compare",
        "-p",
        HOSTILE,
        HOSTILE,
        f"{HOSTILE}!",
        "--judge",
        "lexical",
    ),
    "config": ("config", "--model", HOSTILE),
    "config --json": ("config", "--model", HOSTILE, "--json"),
    "missing file": ("score", HOSTILE, "--judge", "lexical"),
    "bad value": ("score", "in.jsonl", "--retries", HOSTILE),
    "bad url": (
        "score",
        "in.jsonl",
        "--model",
        "m",
        "--base-url",
        f"http://{HOSTILE}/v1",
    ),
    "unknown option": ("score", f"--{HOSTILE}"),
    "unknown command": (HOSTILE,),
    "bad number": ("show", "in.jsonl", "--limit", HOSTILE),
    "unknown profile": ("profiles", HOSTILE),
    "reply": (
        "profiles",
        "nemotron",
        "--reply",
        HOSTILE,
    ),
    "journal": ("journal", HOSTILE),
    "trust": ("trust", HOSTILE),
    "eval": ("eval", "pairs.jsonl", "--judge", "lexical"),
}
SILENT = {
    "score",
    "score --json",
    "reply",
    "bad number",
}  # they quote nothing
FEW = (
    "score many",
    "show --as-judge",
    "config",
    "unknown option",
    "unknown command",
    "bad url",
    "eval",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "names", [FEW, pytest.param(tuple(CASES), marks=pytest.mark.slow)], ids=("few", "all")
)
def test_no_text_controls_the_terminal(genrm, names):
    """Answers, ids, prompts, reasons, file names, settings and arguments are printed with their
    controls escaped.
    """
    for name, text in zip(
        names, on_hostile_terminal(genrm, *map(CASES.__getitem__, names)), strict=True
    ):
        assert unsafe_part(text + "title" if name in SILENT else text) == b""


@pytest.mark.slow
def test_no_reply_of_a_server_controls_the_terminal(genrm, judge_server, start_judge):
    """Neither do an error page, the message of an error, and the names of models that a server
    lists.
    """
    other = start_judge()
    judge_server.behave(fault={"status": 400, "body": HOSTILE})
    other.behave(fault={"content": HOSTILE})
    more = [
        "--model",
        "m",
        "--retries",
        "0",
        "--give-up-after",
        "1s",
        "--force",
        "--no-journal",
    ]
    commands = [
        (
            "score",
            "in.jsonl",
            "--base-url",
            server.base_url,
            probe,
            *more,
        )
        for server in (judge_server, other)
        for probe in ("--probe", "--no-probe")
    ]
    for text in on_hostile_terminal(genrm, *commands):
        assert unsafe_part(text) == b""


def test_a_pipe_is_as_safe_as_a_terminal(genrm, call):
    """`| less` and a log that someone prints are terminals in the end."""
    cases = [
        "validate",
        "show --as-judge",
        "missing file",
        "unknown option",
    ]
    for name in cases:
        genrm.write("in.jsonl", hostile_lines())
        finished = call(*CASES[name])
        assert unsafe_part(finished.out.decode() + finished.err) == b""


def test_json_holds_the_exact_texts(genrm, call):
    """`show --json` escapes as JSON does, so that a program reads what the judge would be sent."""
    genrm.write("in.jsonl", hostile_lines())
    shown = call("show in.jsonl --as-judge --json --profile nemotron-plain")
    assert HOSTILE in json.loads(shown.out)["messages"][0]["content"]


def test_a_name_begins_no_line_of_its_own(call):
    """A newline in a name cannot forge a message of genrm's."""
    name = "a\ngenrm: done: 1 file: 1 scored; exit 0\n.jsonl"
    finished = call("score --judge lexical", name).ended(3)
    assert not any(
        line.startswith("genrm: done: 1 file: 1 scored; exit 0")
        for line in finished.err.splitlines()
    )


@pytest.mark.slow
def test_stdout_in_ascii_shows_every_result(genrm):
    """What an old terminal cannot show is written as escapes, which leave JSON whole."""
    lines = [{"prompt": "é", "response": text} for text in ("one", "two words 𝄞")]
    (genrm.folder / "é.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    ascii_only = {"PYTHONIOENCODING": "ascii"}
    shown = genrm.run("validate é.jsonl", **ascii_only).ended(0)
    assert b"ring \\u00d7 1" in shown.out
    document = genrm.run("validate é.jsonl --json", **ascii_only).ended(0)
    assert json.loads(document.out)["input"] == "é.jsonl"
