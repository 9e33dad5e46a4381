import json
import os
import subprocess
import sys

import pytest
from genrm_process import SAMPLE_DATA, make_rollouts, without_rewards

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
    lines = [
        line % (b", ".join(LONG_NUMBERS), answer, TEXTS) for answer in (b"Because of that.", b"No.")
    ]
    (genrm.folder / "in.jsonl").write_bytes(b"".join(lines))
    call("score in.jsonl --ignore-fields note --offline").ended(0)
    scored = (genrm.folder / "in.scored.jsonl").read_bytes().splitlines()
    assert len(scored) == 2
    for after in scored:
        assert TEXTS in after
        for number in LONG_NUMBERS:
            assert number.replace(b": ", b":") in after


def test_a_pipe_takes_rollouts_in_and_gives_scored_lines_out(genrm):
    """`score -` reads stdin and writes nothing but scored lines to stdout, and no file."""
    data = genrm.sample("rollouts.jsonl").read_bytes()
    finished = genrm.run("score - --offline", stdin=data).ended(0)
    after = [json.loads(line) for line in finished.out.splitlines()]
    assert list(map(without_rewards, after)) == list(
        map(without_rewards, map(json.loads, data.splitlines()))
    )
    assert [line["reward"] is None for line in after] == [
        line["genrm"]["reason"] == Reason.BLANK for line in after
    ]
    assert genrm.names() == {"rollouts.jsonl"}


def test_a_file_can_be_scored_to_stdout(genrm, call):
    """`-o -` writes the lines that a file would get, and makes no files beside the input."""
    genrm.sample("rollouts.jsonl")
    piped = call("score rollouts.jsonl -o - --quiet --offline").ended(0)
    assert piped.err == ""
    assert genrm.names() == {"rollouts.jsonl"}
    call("score rollouts.jsonl --offline").ended(0)
    assert piped.out == (genrm.folder / "rollouts.scored.jsonl").read_bytes()


@pytest.mark.slow
def test_a_reader_that_leaves_early_is_no_error(genrm):
    """`genrm score ... -o - | head -1` ends without a traceback: a line says so, which --quiet
    leaves out.
    """
    genrm.write("in.jsonl", [{**line, "padding": "x" * 2_000} for line in make_rollouts(groups=50)])
    for quiet, told in (([], b"closed before all lines were written; exit 0\n"), (["-q"], b"")):
        process = genrm.start("score in.jsonl -o - --offline", *quiet)
        assert process.stdout is not None
        assert process.stderr is not None
        assert os.read(process.stdout.fileno(), 10)
        process.stdout.close()
        said = process.stderr.read()
        assert said.endswith(told)
        assert bool(said) == bool(told)
        process.stderr.close()
        assert process.wait(30) == 0


def test_a_pipe_of_the_shell_is_an_output_too(genrm, call):
    """`-o >(command)` and `-o /dev/null` get the scored lines, and no files are put beside a pipe
    or device.
    """
    genrm.sample("rollouts.jsonl")
    (genrm.folder / "sink.jsonl").symlink_to(os.devnull)
    call("score rollouts.jsonl -o sink.jsonl --offline").ended(0)
    assert genrm.names() == {"rollouts.jsonl", "sink.jsonl"}
    assert (genrm.folder / "sink.jsonl").is_symlink()


@pytest.mark.slow
def test_a_run_goes_on_when_nobody_reads_what_it_says(tmp_path):
    """With stderr closed, full or a broken pipe the outputs are written all the same."""
    command = (
        f"{sys.executable} -m genrm_cli score {SAMPLE_DATA}/rollouts.jsonl --judge lexical --force"
    )
    environment = {
        "PATH": os.environ["PATH"],
        "XDG_STATE_HOME": str(tmp_path),
    }
    for place, stderr in enumerate(("2>&-", "2>/dev/full", "2>&1 | true")):
        output = tmp_path / f"{place}.jsonl"
        shell = f"set -o pipefail; {command} -o {output} {stderr}"
        finished = subprocess.run(
            ["bash", "-c", shell], env=environment, stdin=subprocess.DEVNULL, timeout=30
        )
        assert finished.returncode == 0, stderr
        assert len(output.read_bytes().splitlines()) == 36
