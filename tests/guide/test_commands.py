"""Every command that the README and the guide show runs, in the order of its page."""

import inspect
import json
import os
import re
import shlex
import shutil
import time

import pytest
from answered_requests import answer_file
from batch_server import serving
from genrm_process import SAMPLE_DATA, Genrm, make_rollouts, read_lines
from pages import README, TEXTS
from typer.main import get_command

from genrm_cli.cli import app
from genrm_cli.commands import read_commands

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PREFIX = "rl/pixelated/therapeutic_session"


def commands_of(page):
    """Return the lines of unlabelled code blocks that call genrm."""
    blocks = [
        block.replace("\\\n", "")
        for language, block in BLOCK.findall(page)
        if language in ("", "sh")
    ]
    return [line for block in blocks for line in block.splitlines() if line.startswith("genrm ")]


COMMANDS = {
    name: commands
    for name, page in TEXTS.items()
    if name != "extending"
    and (commands := commands_of(page))  # its commands need its packages: test_extending.py
}


@pytest.fixture
def workplace(genrm, call, judge_server):
    """Give the files that the pages name: samples, a labelled set, one in a shape of its own, and a
    journal.
    """
    shutil.copytree(SAMPLE_DATA, genrm.folder / "sample_data")
    rollouts = read_lines(SAMPLE_DATA / "rollouts.jsonl")
    policies = ("old", "new")
    genrm.write(
        "rollouts.jsonl",
        [each | {"model": policies[at % 2]} for at, each in enumerate(rollouts)],
    )
    shutil.copy(SAMPLE_DATA / "labelled-pairs.jsonl", genrm.folder / "pairs.jsonl")
    for number in range(2):
        shard = genrm.write(f"rollouts-rs{number}-chunk0.jsonl", make_rollouts()[number::2])
        os.utime(shard, (time.time() - 3600,) * 2)  # else a pattern leaves it to the next run
    genrm.write(
        "mine.jsonl",
        [
            {
                "question": "Why?",
                "samples": {"text": text},
            }
            for text in ("Because.", "No idea.")
        ],
    )
    asked = {
        "prompt": [{"role": "user", "content": "Why?"}],
        "rubrics": [{"criterion": "Is right.", "points": 5}],
    }
    genrm.write(
        "healthbench.jsonl", [asked | {"completion": text} for text in ("Because.", "No idea.")]
    )
    for name in ("old", "new"):
        genrm.write(
            f"{name}.jsonl", [{"prompt": f"Q{n}?", "response": f"{name} {n}"} for n in range(3)]
        )
    steps = [(step, n) for step in (1, 2) for n in range(3)]
    genrm.write(
        "steps.jsonl",
        [
            {
                "prompt": f"Q{n}?",
                "response": f"{step} {n}",
                "step": step,
            }
            for step, n in steps
        ],
    )
    judge = (
        "--base-url",
        judge_server.base_url,
        "--model",
        "my-genrm",
    )
    call(
        "score",
        "rollouts.jsonl",
        *judge,
        "-o",
        "earlier.jsonl",
        "--journal",
        "rollouts.journal.sqlite",
    )
    call("eval", "pairs.jsonl", *judge, "-o", "other.json")
    pairs = json.loads((genrm.folder / "other.json").read_bytes())["pairs"]
    genrm.write(
        "labels.jsonl",
        [{"pair": each["id"], "rater": "ann", "label": "chosen"} for each in pairs[:5]],
    )
    (genrm.folder / "grid.toml").write_text("[axes]\nrepeats = [1, 2]\n", encoding="utf-8")
    offline = (
        "--model",
        "Qwen/Qwen3-8B",
        "--journal",
        "offline.sqlite",
    )
    call("score", "rollouts.jsonl", *offline, "--requests-to", "requests.jsonl")
    genrm.write(
        "replies.jsonl", answer_file(genrm.folder / "requests.jsonl", judge_server.base_url)
    )
    (genrm.folder / "requests.jsonl").unlink()
    return genrm.folder


@pytest.fixture
def batch_url():
    """URL of a server with a batch API."""
    with serving(looks=0) as server:
        yield server.url


def here(text, judge_server, s3_bucket, batch_url=""):
    """Return a text with the endpoints and the bucket that exist here."""
    text = re.sub(r"http://[a-z]+:800[01]/v1", judge_server.base_url, text)
    text = text.replace("https://api.openai.com/v1", batch_url)
    return text.replace("s3://bucket/", f"s3://{s3_bucket.name}/")


def listens(genrm, words):
    """Start a server on a free port, and say whether it listens."""
    server = genrm.start(*words, "--listen", "127.0.0.1:0")
    assert server.stderr is not None
    found = any(b"listening on" in line for line in server.stderr)
    server.terminate()
    server.communicate()
    return found


def examples():
    """Return the examples in the help of each command."""
    found = {}
    commands = get_command(app.app)
    for name in read_commands():
        text = inspect.cleandoc(commands.get_command(None, name).help).replace("\\\n", "")
        found[name] = re.findall(r"^Example: (genrm .*)", text, re.MULTILINE)
    return found


def test_every_command_has_an_example():
    """Help shows how to call a command."""
    assert [name for name, shown in examples().items() if not shown] == []


@pytest.mark.slow
def test_every_example_of_the_help_runs(workplace, call, judge_server, s3_bucket, batch_url):
    """Each ends with exit code 0 where its files and its judge exist; a server listens until it is
    stopped.
    """
    genrm = Genrm(workplace)
    call("score", "rollouts.jsonl", "--strategy", "all_pairs", "--both-orders", "--offline")
    for name in ("run", "before", "after"):
        for kind in ("scored", "comparisons"):
            shutil.copy(workplace / f"rollouts.{kind}.jsonl", workplace / f"{name}.{kind}.jsonl")
    call(
        "score",
        "rollouts.jsonl",
        "--offline",
        "-o",
        f"s3://{s3_bucket.name}/rl/env/rollouts.scored.jsonl",
    )
    genrm.sample("compare-request.json")
    models = [
        {
            "prompt": f"{q}?",
            "completion": f"{name} knows {q}.",
            "model": name,
        }
        for q in "abcd"
        for name in "xyz"
    ]
    genrm.write("models.jsonl", models)
    call("score", "models.jsonl", "--offline")
    call(
        "score",
        "rollouts.jsonl",
        "--offline",
        "-o",
        f"s3://{s3_bucket.name}/rl/env/scored/1.scored.jsonl",
    )
    call("score", "rollouts.jsonl", "--model", "m", "--requests-to", "requests.jsonl", "--force")
    (workplace / "scored").mkdir()
    call("score", "rollouts.jsonl", "--offline", "-o", "scored/1.scored.jsonl")
    for command in (each for shown in examples().values() for each in shown):
        words = shlex.split(here(command, judge_server, s3_bucket, batch_url))[1:]
        stdin = (workplace / words[words.index("<") + 1]).read_bytes() if "<" in words else b""
        words = words[: next((n for n, word in enumerate(words) if word in "<>"), None)]
        if words[0] == "serve":
            assert listens(genrm, words), command
            continue
        # An example before it may have asked for more verdicts.
        again = ("--force",) if words[0] == "score" else ()
        ended = call(*words, *again, stdin=stdin)
        assert ended.code == 0, f"{command}\n{ended.err}"
        if words[0] == "collect" and "-o" in words:  # what the examples of review name
            call("score", words[words.index("-o") + 1], "--offline")


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_runs(
    name,
    workplace,
    call,
    judge_server,
    s3_bucket,
    batch_url,
):
    """A command that a page shows ends with exit code 0 where its files and its judge exist."""
    body = b"".join(json.dumps(line).encode() + b"\n" for line in make_rollouts())
    s3_bucket.client.put_object(Bucket=s3_bucket.name, Key=f"{PREFIX}/run-7.jsonl", Body=body)

    for block in (block for language, block in BLOCK.findall(TEXTS[name]) if language == "toml"):
        if block.startswith("base_url"):  # the settings file that the page's commands name
            (workplace / "genrm.toml").write_text(here(block, judge_server, s3_bucket))
    for command in COMMANDS[name]:
        _, *words = shlex.split(here(command, judge_server, s3_bucket, batch_url), comments=True)
        if words[0] == "serve":
            assert listens(Genrm(workplace), words), command
            continue
        if words[0] == "collect" and "--base-url" in words:
            continue  # test_session_judge.py has a judge that reads sessions
        stdin = b""
        if "<" in words:
            stdin = (workplace / words.pop()).read_bytes()
            words.pop()
        place = words.index(">") if ">" in words else len(words)
        ended = call(*words[:place], stdin=stdin)
        assert ended.code == 0, f"{command}\n{ended.err}"
        for output in words[place + 1 :]:
            (workplace / output).write_bytes(ended.out)


def test_the_lines_of_the_readme_are_read(genrm, call):
    """Each line that the README shows is a rollout that genrm recognises."""
    cases = [block for language, block in BLOCK.findall(README) if language == "json"]
    for block in cases:
        path = genrm.folder / "shown.jsonl"
        path.write_text(block)
        call("score", path.name, "--judge", "lexical").ended(0)
        assert len(read_lines(path.with_name("shown.scored.jsonl"))) == len(block.splitlines())
