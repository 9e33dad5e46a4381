"""The end of a run as a person sees it on a terminal, and as a program reads it."""

import json
import re
from typing import Any

import pytest
from msgspec.structs import fields

from genrm_cli.cli.scoring.run_warnings import COUNTS
from genrm_cli.cli.scoring.summary import show_summary
from genrm_cli.scored.run_record import RunRecord, RunTotals
from genrm_cli.settings import Settings
from genrm_cli.typed_json import from_json

LEXICAL = ("--judge", "lexical")
LAST = re.compile(r"genrm: (?:done|failed|interrupted): .*; exit (\d+)")


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        (0, ("in.jsonl", *LEXICAL)),
        pytest.param(0, (".", *LEXICAL, "--min-age", "0"), marks=pytest.mark.slow),
        (2, ("in.jsonl",)),
        pytest.param(2, ("in.jsonl", "-", *LEXICAL), marks=pytest.mark.slow),
        (3, ("missing.jsonl", *LEXICAL)),
        (
            4,
            (
                "in.jsonl",
                "--base-url",
                "http://127.0.0.1:9/v1",
                "--model",
                "m",
            ),
        ),
        (
            5,
            (
                "in.jsonl",
                *LEXICAL,
                "-o",
                "nowhere/out.jsonl",
            ),
        ),
        (6, ("half.jsonl", *LEXICAL)),
    ],
)
def test_the_last_line_has_the_exit_code(genrm, call, code, arguments):
    """However a run ends that has begun, errors come before the last line, and --json has one form,
    with the same exit code.
    """
    genrm.rollouts(1, 2)
    if code == 6:
        genrm.write(
            "half.jsonl", [{"prompt": "Why?", "completion": text} for text in ("So.", "No.", "")]
        )
    finished = call("score --json", *arguments)
    *_, last = finished.err.splitlines()
    found = LAST.fullmatch(last)
    assert found is not None, last
    assert int(found[1]) == code
    assert finished.code == code
    assert ("genrm: error: " in finished.err) == (code != 0)
    printed = json.loads(finished.out)
    assert {
        "files",
        "all_listed",
        "error",
        "exit_code",
        "results",
    } <= printed.keys()
    assert printed["exit_code"] == code
    assert (printed["error"] is None) == (code == 0)
    for result in printed["results"]:
        assert result.keys() >= {
            "input",
            "output",
            "status",
            "reason",
            "error",
            "exit_code",
            "metrics",
        }
        assert (result["metrics"] is not None) == (result["status"] == "scored")


def test_reliability_is_said_in_words(genrm, call, capsys):
    """A newcomer reads whether differences between rewards are real: the lower end decides."""
    cases = [
        (0.93, [0.85, 0.97], "0.93 (0.85 to 0.97), high: "),
        (0.9, [0.6, 0.98], "0.90 (0.60 to 0.98), fair: "),
        (0.85, [0.796, 0.912], "0.85 (0.79 to 0.92), fair: "),
        (0.5, [0.3, 0.7996], "0.50 (0.30 to 0.7996), low: "),
        (0.7, [0.58, 0.82], "0.70 (0.58 to 0.82), fair: "),
        (0.2, [0.1, 0.4], "0.20 (0.10 to 0.40), low: "),
        (0.93, [0.0, 1.0], "0.93 (0.00 to 1.00), unknown: "),
        (0.93, None, "0.93, unknown: "),
        (None, None, "unknown: "),
    ]
    for mean, interval, word in cases:
        genrm.rollouts()
        call("score in.jsonl --offline")
        metrics: dict[str, Any] = genrm.metrics()
        metrics["reliability"] |= {
            "count": int(mean is not None),
            "mean": mean,
        }
        metrics["reliability_interval"] = interval
        show_summary(from_json(RunRecord, metrics), Settings())
        assert f"reliability   {word}" in capsys.readouterr().err


def test_rewards_that_follow_length_are_warned_of(genrm, call, capsys):
    """The summary has the correlation with its interval, and above .3 a warning says what it
    means.
    """
    cases = [
        (0.41, "longer responses win"),
        (-0.5, "shorter responses win"),
        (0.2, ""),
    ]
    for mean, says in cases:
        genrm.rollouts()
        call("score in.jsonl --offline")
        metrics: dict[str, Any] = genrm.metrics()
        metrics["length_effect"] |= {"count": 9, "mean": mean}
        metrics["length_effect_interval"] = [mean - 0.1, mean + 0.1]
        show_summary(from_json(RunRecord, metrics), Settings())
        shown = " ".join(capsys.readouterr().err.split())
        assert (
            f"correlates with the reward by {mean:+.2f} ({mean - 0.1:+.2f} to {mean + 0.1:+.2f}) "
            "within groups" in shown
        )
        assert ("responses win" in shown) == bool(says)
        assert says in shown


def test_an_up_to_date_input_keeps_its_metrics_in_json(genrm, call):
    """A program that runs the same command again gets the same numbers."""
    genrm.rollouts()
    first, second = (
        json.loads(call("score in.jsonl --json --offline").out)["results"][0] for _ in range(2)
    )
    assert first["status"] == "scored"
    assert second["status"] == "up to date"
    assert first["metrics"] == second["metrics"]


def test_files_of_one_run_say_together_how_reliable_their_rewards_are(genrm, call, judge_server):
    """The verdicts of all files decide what a judge that answers at random may still be worth, and
    the summary says that more calls do not help.
    """
    judge_server.behave(verdict="hash")
    names = [f"{number}.jsonl" for number in range(3)]
    for number, name in enumerate(names):
        rollouts = [
            {"prompt": f"Question {number} {group}?", "completion": f"Answer {place} of {group}"}
            for group in range(40)
            for place in range(6)
        ]
        genrm.write(name, rollouts)
    finished = call("score --no-probe --json", *names, *judge_server.flags).ended(0)
    results = json.loads(finished.out)["results"]
    alone = [result["metrics"]["reliability_interval"][1] for result in results]
    said = re.search(r"reliability   0\.\d\d \(0\.\d\d to (0\.\d\d)\), low: ", finished.err)
    assert said is not None, finished.err
    assert float(said[1]) < max(alone)
    assert "no number of calls will help" in " ".join(finished.err.split())


def test_each_warning_is_about_a_count_of_the_run():
    """A count that was renamed is not left behind in the table of warnings."""
    assert set(COUNTS) <= {field.name for field in fields(RunTotals)}
