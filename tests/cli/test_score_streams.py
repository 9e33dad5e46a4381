import json
import os
import subprocess
import sys

import pytest
from genrm_process import COMMAND, make_rollouts, without_rewards
from processes import start_process

from genrm_cli.verdicts import Reason

# Values that a careless way through Python or a double would change.
LONG_NUMBERS = (
    b'"big": 123456789012345678901234567890',
    b'"small": 0.1000000000000000055511151231257827021',
)
TEXTS = "“Žluťoučký kůň” 日本語 👩‍👩‍👧 \u2028 \x7f".encode()


def test_numbers_and_texts_survive_to_the_byte(genrm, call):
    """Integers beyond 64 bits, decimals beyond a double and any script come out as they went in."""
    line = b'{"prompt": "Why?", %s, "completion": "%s", "note": "%s"}\n'
    numbers = b", ".join(LONG_NUMBERS)
    lines = [line % (numbers, answer, TEXTS) for answer in (b"Because of that.", b"No.")]
    (genrm.folder / "in.jsonl").write_bytes(b"".join(lines))
    call("score in.jsonl --ignore-fields note --offline").ended(0)
    scored = (genrm.folder / "in.scored.jsonl").read_bytes().splitlines()
    assert len(scored) == 2
    for after in scored:
        assert TEXTS in after
        assert all(number.replace(b": ", b":") in after for number in LONG_NUMBERS)


def test_streams_hold_scored_lines_and_nothing_else(genrm, call):
    """`score -` reads stdin and `-o -` writes what a file would get; no file is made beside."""
    data = genrm.sample("rollouts.jsonl").read_bytes()
    piped = call("score - --offline --quiet", stdin=data).ended(0)
    assert piped == call("score rollouts.jsonl -o - --quiet --offline")
    assert piped.err == ""
    assert genrm.names() == {"rollouts.jsonl"}
    after = [json.loads(line) for line in piped.out.splitlines()]
    before = map(json.loads, data.splitlines())
    assert [without_rewards(line) for line in after] == [without_rewards(line) for line in before]
    for line in after:
        assert (line["reward"] is None) == (line["genrm"]["reason"] == Reason.BLANK)
    call("score rollouts.jsonl --offline").ended(0)
    assert piped.out.decode() == genrm.text("rollouts.scored.jsonl")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("quiet", "told"), [("", b"closed before all lines were written; exit 0\n"), ("-q", b"")]
)
def test_a_reader_that_leaves_early_is_no_error(genrm, quiet, told):
    """`genrm score ... -o - | head -1` ends without a traceback: a line says so, which --quiet
    leaves out.
    """
    padding = {"padding": "x" * 2_000}
    genrm.write("in.jsonl", [line | padding for line in make_rollouts(groups=50)])
    process = genrm.start(f"score in.jsonl -o - --offline {quiet}")
    assert os.read(process.stdout.fileno(), 10)
    process.stdout.close()
    said = process.stderr.read()
    assert said.endswith(told)
    assert bool(said) == bool(told)
    process.stderr.close()
    assert process.wait(30) == 0


def test_a_device_is_an_output_too(genrm, call):
    """`-o >(command)` and `-o /dev/null` get the scored lines, and no files are put beside a pipe
    or device.
    """
    genrm.sample("rollouts.jsonl")
    (genrm.folder / "sink.jsonl").symlink_to(os.devnull)
    call("score rollouts.jsonl -o sink.jsonl --offline").ended(0)
    assert genrm.names() == {"rollouts.jsonl", "sink.jsonl"}
    assert (genrm.folder / "sink.jsonl").is_symlink()


@pytest.mark.slow
@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full", "2>&1 | true"])
def test_a_run_goes_on_when_nobody_reads_what_it_says(genrm, stderr):
    """With stderr closed, full or a broken pipe the outputs are written all the same."""
    genrm.rollouts()
    shell = f"{sys.executable} -m genrm_cli score in.jsonl --offline {stderr}"
    process = start_process(
        ["bash", "-c", f"set -o pipefail; {shell}"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        cwd=genrm.folder, env=genrm.environment(),
    )  # fmt: skip
    assert process.wait(30) == 0
    assert len(genrm.lines()) == 8


@pytest.mark.slow
def test_help_whose_reader_is_gone_is_no_failure(genrm):
    """`genrm score -h | head -1` exits with 0 and prints no error."""
    reader, writer = os.pipe()
    os.close(reader)
    process = start_process(
        [*COMMAND, "score", "-h"],
        stdout=writer,
        stderr=subprocess.PIPE,
        env=genrm.environment(),
    )
    os.close(writer)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
