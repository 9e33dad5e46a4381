"""The end of a run as a person sees it on a terminal, and as a program reads it."""

import json
import re

import pytest
from msgspec.structs import fields

from genrm_cli.cli.scoring.run_warnings import COUNTS
from genrm_cli.cli.scoring.summary import show_summary
from genrm_cli.scored.run_record import RunRecord, RunTotals
from genrm_cli.settings import Settings
from genrm_cli.typed_json import from_json

LAST = re.compile(r"genrm: (?:done|failed|interrupted): .*; exit (\d+)")
RESULT = {"input", "output", "status", "reason", "error", "exit_code", "metrics"}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "in.jsonl --offline"),
        pytest.param(0, ". --offline --min-age 0", marks=pytest.mark.slow),
        (2, "in.jsonl"),
        pytest.param(2, "in.jsonl - --offline", marks=pytest.mark.slow),
        (3, "missing.jsonl --offline"),
        (4, "in.jsonl --base-url http://127.0.0.1:9/v1 --model m"),
        (5, "in.jsonl --offline -o nowhere/out.jsonl"),
        (6, "half.jsonl --offline"),
    ],
)
def test_the_last_line_has_the_exit_code(genrm, call, code, words):
    """However a run ends that has begun, errors come before the last line, and --json has one form,
    with the same exit code.
    """
    genrm.rollouts(1, 2)
    if code == 6:
        half = [{"prompt": "Why?", "completion": text} for text in ("So.", "No.", "")]
        genrm.write("half.jsonl", half)
    finished = call(f"score --json {words}").ended(code)
    assert LAST.fullmatch(finished.last)[1] == str(code)
    assert ("genrm: error: " in finished.err) == (code != 0)
    printed = json.loads(finished.out)
    assert {"files", "all_listed", "error", "exit_code", "results"} <= printed.keys()
    assert (printed["exit_code"], printed["error"] is None) == (code, code == 0)
    for result in printed["results"]:
        assert result.keys() >= RESULT
        assert (result["metrics"] is not None) == (result["status"] == "scored")


@pytest.fixture
def summary_of(genrm, call, capsys):
    """Return the summary of a run with these figures."""
    genrm.rollouts()
    call("score in.jsonl --offline").ended(0)

    def run(**figures):
        written = genrm.metrics()
        for name, value in figures.items():
            written[name] = written[name] | value if isinstance(value, dict) else value
        show_summary(from_json(RunRecord, written), Settings())
        return " ".join(capsys.readouterr().err.split())

    return run


@pytest.mark.parametrize(
    ("mean", "interval", "words"),
    [
        (0.93, [0.85, 0.97], "0.93 (0.85 to 0.97), high: "),
        (0.85, [0.796, 0.912], "0.85 (0.79 to 0.92), fair: "),
        (0.5, [0.3, 0.7996], "0.50 (0.30 to 0.7996), low: "),
        (0.93, [0.0, 1.0], "0.93 (0.00 to 1.00), unknown: "),
        (0.93, None, "0.93, unknown: "),
        (None, None, "unknown: "),
    ],
)
def test_reliability_is_said_in_words(summary_of, mean, interval, words):
    """A newcomer reads whether differences between rewards are real: the lower end decides."""
    known = {"count": int(mean is not None), "mean": mean}
    said = summary_of(reliability=known, reliability_interval=interval)
    assert f"reliability {words}" in said


@pytest.mark.parametrize(
    ("mean", "says"),
    [(0.41, "longer responses win"), (-0.5, "shorter responses win"), (0.2, None)],
)
def test_rewards_that_follow_length_are_warned_of(summary_of, mean, says):
    """The summary has the correlation with its interval, and above .3 a warning says what it
    means.
    """
    ends = [mean - 0.1, mean + 0.1]
    said = summary_of(length_effect={"count": 9, "mean": mean}, length_effect_interval=ends)
    interval = f"{mean:+.2f} ({ends[0]:+.2f} to {ends[1]:+.2f})"
    assert f"correlates with the reward by {interval} within groups" in said
    assert re.findall("[a-z]+ responses win", said) == ([says] if says else [])


def test_an_up_to_date_input_keeps_its_metrics_in_json(genrm, call):
    """A program that runs the same command again gets the same numbers."""
    genrm.rollouts()
    [first], [second] = (
        json.loads(call("score in.jsonl --json --offline").out)["results"] for _ in range(2)
    )
    assert (first["status"], second["status"]) == ("scored", "up to date")
    assert first["metrics"] == second["metrics"]


def test_the_embedded_judge_is_called_a_stand_in_everywhere(genrm, call):
    """The terminal, every line and the metrics say that no reward model judged."""
    genrm.rollouts()
    assert "built-in lexical baseline" in call("score in.jsonl --offline").err
    assert genrm.metrics()["judge"]["is_baseline"] is True
    judges = {(line["genrm"]["judge"], line["genrm"]["is_baseline"]) for line in genrm.lines()}
    assert judges == {("lexical", True)}


@pytest.mark.slow
def test_files_of_one_run_say_together_how_reliable_their_rewards_are(
    genrm, call_judged, judge_server
):
    """The verdicts of all files decide what a judge that answers at random may still be worth, and
    the summary says that more calls do not help.
    """
    judge_server.behave(verdict="hash")
    names = [f"{number}.jsonl" for number in range(3)]
    for name in names:
        rollouts = [
            {"prompt": f"Question {name} {group}?", "completion": f"Answer {place} of {group}"}
            for group in range(40)
            for place in range(6)
        ]
        genrm.write(name, rollouts)
    finished = call_judged("score --no-probe --json", *names).ended(0)
    results = json.loads(finished.out)["results"]
    alone = [result["metrics"]["reliability_interval"][1] for result in results]
    said = re.search(r"reliability   0\.\d\d \(0\.\d\d to (0\.\d\d)\), low: ", finished.err)
    assert float(said[1]) < max(alone)
    assert "no number of calls will help" in " ".join(finished.err.split())


def test_each_warning_is_about_a_count_of_the_run():
    """A count that was renamed is not left behind in the table of warnings."""
    assert set(COUNTS) <= {field.name for field in fields(RunTotals)}
