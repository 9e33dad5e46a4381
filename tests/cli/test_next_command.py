"""The command that a run ends with, on a terminal."""

import pytest
from scored_lines import metrics
from terminals import on_terminal

from genrm_cli.cli.scoring.next_command import next_command
from genrm_cli.scored.run_record import RunRecord
from genrm_cli.settings.resolve import Origin
from genrm_cli.typed_json import from_json

MARK = {"size_bytes": 1, "upload": None, "mtime_ns": 1}
NEEDED = {"setting": "ring_k", "at_best": 2.0, "expected": 3.5, "at_worst": None}
GIVEN = [Origin("model", "m", "flag"), Origin("probe", False, "flag")]


def record(mean=None, interval=None, **more):
    """Return the record of a run of eight groups of five on one ring, without failures."""
    written = metrics(output="my run.scored.jsonl", output_mark=MARK, **more)
    written |= {"strategy": "ring", "ring_k": 1.0, "groups": 8, "group_sizes": {"5": 8}}
    written |= {"rollouts": 40, "scored": 40, "reliability_interval": interval}
    written["judge"] |= {"name": "m", "is_baseline": False}
    written["reward"] |= {"count": 40, "mean": 2.0, "std": 1.0, "min": 0.0, "max": 4.0}
    written["reliability"] |= {"count": 8 * (mean is not None), "mean": mean}
    return from_json(RunRecord, written)


@pytest.mark.parametrize(
    ("run", "line"),
    [
        (
            record(0.9, [0.85, 0.95]),
            "genrm export 'my run.scored.jsonl' --to groups -o groups.jsonl",
        ),
        (record(0.7, [0.6, 0.75]), "genrm report 'my run.scored.jsonl'"),
        (record(), "genrm report 'my run.scored.jsonl'"),
        (record(0.3, [0.2, 0.4]), "genrm report 'my run.scored.jsonl'"),
        (
            record(0.3, [0.2, 0.4], rings_needed=NEEDED),
            "genrm score in.jsonl --model m --no-probe --ring-k 3.5",
        ),
        (record(0.9, [0.85, 0.95], partial=True), "genrm score in.jsonl --model m --no-probe"),
    ],
    ids=["high", "fair", "unknown", "low and no help", "low", "stopped"],
)
def test_the_next_command_follows_the_account(run, line):
    """Export what can be trained on, ask more where that helps, go on after a stop, else look."""
    assert list(next_command(run, "in.jsonl", GIVEN)) == [f"next: {line}"]


def test_lines_on_stdout_have_no_next_command():
    """No file could be named."""
    run = from_json(RunRecord, metrics(output="-"))
    assert list(next_command(run, "-", [])) == []


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on_with_its_settings_file(genrm, judge_server):
    """The command names the file that the user named, so it asks the same judge."""
    genrm.rollouts(2, 3)
    settings = f'base_url = ["{judge_server.base_url}"]\nmodel = "m"\n'
    (genrm.folder / "judge.toml").write_text(settings)
    arguments = ("score", "in.jsonl", "--config", "judge.toml", "--max-calls", "4")
    [shown] = on_terminal(genrm, [(genrm.folder, arguments, 80)])
    last = shown.strip().splitlines()[-1].strip()
    assert last == "next: genrm score in.jsonl --config judge.toml --max-calls 4"
    genrm.run(*last.split()[2:]).ended(0)


@pytest.mark.slow
def test_each_command_hands_over_to_the_next(genrm):
    """On a terminal, the last line of a run, a report, a trial and a collection is a command, which
    runs as it stands; in a log, the last line is the result.
    """
    genrm.rollouts(2, 3)
    cases = [
        ("score in.jsonl --offline", "genrm report in.scored.jsonl"),
        ("report in.scored.jsonl --force", "genrm show in.scored.jsonl --worst 3"),
        ("score in.jsonl --offline --quick --force", "genrm report in.scored.jsonl"),
        ("collect --scripted-policy good -o s.jsonl", "genrm score s.jsonl --judge lexical"),
    ]
    for line, following in cases:
        [shown] = on_terminal(genrm, [(genrm.folder, tuple(line.split()), 80)])
        last = shown.strip().splitlines()[-1].strip()
        assert last == f"next: {following}"
        words = last.split()[2:]
        again = ["--force"] if words[0] == "report" else []
        genrm.run(*words, *again).ended(0)
        assert "next: " not in genrm.run(*line.split(), "--force").ended(0).err.splitlines()[-1]
