"""Nothing untrusted reaches the terminal raw: the real command in a pseudo-terminal, and in a pipe."""

import json
import os
import pty
import re
import subprocess

import pytest
from genrm_process import COMMAND, Genrm, Json
from judge_server_fixture import JudgeServer

# The title, the clipboard (OSC 52), a cleared screen, a C1 introducer, a reordered line, a carriage return.
HOSTILE = "x\x1b]0;title\x07\x1b]52;c;aGk=\x07\x1b[2J\x9b31m\u202etxt\rgone"
# What Rich writes to a terminal of its own: colours, and the cursor of the progress line.
_OWN = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\x1b\[[12]?K|\x1b\[1A|\r")
_RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def on_terminal(genrm: Genrm, *arguments: object, **environment: str) -> tuple[int, str]:
    """Run the command in a pseudo-terminal; return its exit code and what the terminal received."""
    ours, its = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdin=its,
        stdout=its,
        stderr=its,
        cwd=genrm.folder,
        env=genrm.environment(TERM="xterm-256color", COLUMNS="200", **environment),
    )
    os.close(its)
    received = b""
    while True:
        try:
            block = os.read(ours, 65536)
        except OSError:  # the process has closed its end
            break
        received += block
    os.close(ours)
    return process.wait(60), received.decode()


def check_safe(text: str) -> None:
    """Hold what was printed to the claim: nothing but Rich's own colours and cursor, and no message that was forged."""
    assert "Traceback" not in text
    found = _RAW.search(_OWN.sub("", text.replace("\r\n", "\n")))
    assert found is None, text[max(0, found.start() - 80) : found.end() + 80].encode("unicode_escape")
    assert "title" in text, "the hostile text was not shown at all"


def hostile_lines() -> list[Json]:
    """Make a group whose ids, prompt and answers are hostile, and a line that is rejected with its keys."""
    lines = [{"prompt": HOSTILE, "completion": f"{HOSTILE} {n}", "prompt_id": HOSTILE} for n in range(3)]
    return [*lines, {HOSTILE: 1}]


CASES = {
    "score": ("score", "in.jsonl", "--judge", "lexical", "--table", "4"),
    "score many": ("score", ".", "--judge", "lexical", "--min-age", "0"),
    "score to stdout": ("score", "in.jsonl", "--judge", "lexical", "-o", "-"),
    "score --json": ("score", "in.jsonl", "--judge", "lexical", "--json", "--table", "4"),
    "dry run": ("score", ".", "--judge", "lexical", "--min-age", "0", "--dry-run"),
    "validate": ("validate", "in.jsonl"),
    "validate --json": ("validate", "in.jsonl", "--json"),
    "show": ("show", "in.jsonl"),
    "show --as-judge": ("show", "in.jsonl", "--as-judge"),
    "show --json": ("show", "in.jsonl", "--as-judge", "--json"),
    "no such group": ("show", "in.jsonl", "--group", "x"),
    "compare": ("compare", "-p", HOSTILE, HOSTILE, f"{HOSTILE}!", "--judge", "lexical"),
    "config": ("config", "--model", HOSTILE),
    "config --json": ("config", "--model", HOSTILE, "--json"),
    "missing file": ("score", HOSTILE, "--judge", "lexical"),
    "bad value": ("score", "in.jsonl", "--retries", HOSTILE),
    "bad url": ("score", "in.jsonl", "--model", "m", "--base-url", f"http://{HOSTILE}/v1"),
    "unknown option": ("score", f"--{HOSTILE}"),
    "unknown command": (HOSTILE,),
    "bad number": ("show", "in.jsonl", "--limit", HOSTILE),
    "unknown profile": ("profiles", "show", HOSTILE),
    "reply": ("profiles", "test", "nemotron", "--reply", HOSTILE),
    "journal": ("journal", "stats", HOSTILE),
    "trust": ("trust", HOSTILE),
    "eval": ("eval", "pairs.jsonl", "--judge", "lexical"),
}
SILENT = {"reply", "bad number"}  # they quote nothing


@pytest.mark.parametrize("name", CASES)
def test_no_text_controls_the_terminal(genrm: Genrm, name: str) -> None:
    """Answers, ids, prompts, reasons, file names, settings and arguments are printed with their controls escaped."""
    genrm.write("in.jsonl", hostile_lines())
    genrm.write(f"{HOSTILE}.jsonl", hostile_lines())
    pairs = [{"prompt": HOSTILE, "chosen": HOSTILE, "rejected": "bad", "category": HOSTILE}, {HOSTILE: 1}]
    genrm.write("pairs.jsonl", pairs)
    _, text = on_terminal(genrm, *CASES[name])
    if name in SILENT:
        text += "title"
    check_safe(text)


def test_no_reply_of_a_server_controls_the_terminal(genrm: Genrm, judge_server: JudgeServer) -> None:
    """Neither do an error page, the message of an error, and the names of models that a server lists."""
    genrm.write("in.jsonl", hostile_lines())
    judge = ("--base-url", judge_server.base_url, "--model", "m", "--retries", "0", "--give-up-after", "1s")
    for fault in ({"status": 400, "body": HOSTILE}, {"content": HOSTILE}):
        judge_server.behave(fault=fault)
        for probe in ("--probe", "--no-probe"):
            _, text = on_terminal(genrm, "score", "in.jsonl", *judge, probe, "--force", "--no-journal", "--reask", "0")
            check_safe(text)


@pytest.mark.parametrize("name", ["validate", "show --as-judge", "missing file", "unknown option"])
def test_a_pipe_is_as_safe_as_a_terminal(genrm: Genrm, name: str) -> None:
    """`| less` and a log that someone prints are terminals in the end."""
    genrm.write("in.jsonl", hostile_lines())
    finished = genrm.run(*CASES[name])
    check_safe(finished.out.decode() + finished.err)


def test_json_holds_the_exact_texts(genrm: Genrm) -> None:
    """`show --json` escapes as JSON does, so that a program reads what the judge would be sent."""
    genrm.write("in.jsonl", hostile_lines())
    shown = genrm.run("show", "in.jsonl", "--as-judge", "--json", "--profile", "nemotron-plain")
    assert HOSTILE in json.loads(shown.out)["messages"][0]["content"]


def test_a_name_begins_no_line_of_its_own(genrm: Genrm) -> None:
    """A newline in a name cannot forge a message of genrm's."""
    name = "a\ngenrm: done: 1 file: 1 scored; exit 0\n.jsonl"
    finished = genrm.run("score", name, "--judge", "lexical")
    assert finished.code == 3
    assert not any(line.startswith("genrm: done: 1 file: 1 scored; exit 0") for line in finished.err.splitlines())
