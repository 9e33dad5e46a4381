import contextlib
import os
import signal
import time

import pytest
from disturbed_scoring import JOURNAL, count_verdicts
from soak import KILLS, DumpFolder, Soak

from genrm_cli.storage.location import is_unfinished_name

IN_FLIGHT = 8


@pytest.mark.parametrize("half", range(2))
def test_kills_on_disk_lose_what_was_in_flight(tmp_path, judge_server, soak_rng, half):
    """Killed at any moment, runs ask twice only what was in flight, and end with the outputs of a
    calm one.
    """
    folder = DumpFolder(tmp_path / "dumps", judge_server)
    journal = tmp_path / "shared.sqlite"
    arguments = ("--journal", journal, "--concurrency", IN_FLIGHT)
    soak = Soak(folder, lambda: folder.start(*arguments), judge_server, soak_rng)
    judge_server.behave(latency_s=0.01)
    lost = 0
    for _ in soak.kills(KILLS, runners=1):
        stats = judge_server.wait_until(lambda stats: stats["in_flight"] == 0)
        answers_lost = (
            stats["distinct_answered"] + stats["repeat_answers"] - lost - count_verdicts(journal)
        )
        assert 0 <= answers_lost <= IN_FLIGHT
        lost += answers_lost
    finished = folder.run(*arguments)
    assert finished.code == 0, finished.err
    stats = judge_server.stats()
    assert stats["distinct_answered"] == soak.comparisons
    assert stats["repeat_answers"] <= lost
    assert soak.look() == soak.outputs()
    soak.check_undisturbed(tmp_path / "calm")


def test_sigterm_under_load_keeps_what_was_answered(make_scoring):
    """SIGTERM while answers pour in: only answers that had not arrived are missing from the
    journal.
    """
    scoring = make_scoring(100)
    scoring.server.behave(latency_s=0.01)
    process = scoring.start()
    scoring.server.wait_until(lambda stats: stats["requests"] > 150)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 130
    answered = scoring.server.wait_until(lambda stats: stats["in_flight"] == 0)["distinct_answered"]
    assert 0 <= answered - scoring.journaled() <= IN_FLIGHT
    assert scoring.genrm.names() == {"in.jsonl", JOURNAL}
    scoring.check_resumes()


def _writes_outputs(folder):
    """Whether bytes are in a hidden file of the folder, which is not an output yet."""
    with contextlib.suppress(FileNotFoundError):  # it has just been renamed
        return any(
            is_unfinished_name(path.name) and path.stat().st_size for path in folder.iterdir()
        )
    return False


def test_sigterm_while_the_outputs_are_written_leaves_nothing_half(make_scoring):
    """After the last verdict SIGTERM still ends a run with 130 and without hidden files."""
    scoring = make_scoring(4)
    text = "word " * 8_000
    alone = [
        {"prompt": f"Alone {number}?", "completion": text, "id": 100 + number}
        for number in range(1_500)
    ]
    scoring.genrm.write("in.jsonl", [*scoring.lines, *alone])
    process = scoring.start()
    while not _writes_outputs(scoring.folder):
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert scoring.genrm.names() == {"in.jsonl", JOURNAL}
    assert scoring.journaled() == 16


def test_a_judge_that_is_killed_and_comes_back(make_scoring):
    """While the judge is away nothing fails for good: the run goes on when it is back, and ends
    like a calm one.
    """
    scoring = make_scoring(25)
    server = scoring.server
    server.behave(latency_s=0.02)
    process = scoring.start("--give-up-after", 30)
    server.wait_until(lambda stats: stats["requests"] >= 40)
    server.kill()
    time.sleep(0.5)
    assert process.poll() is None
    server.restart()
    _, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert scoring.check_honest()["failures"] == 0
    scoring.check_undisturbed()
    scoring.check_resumes()


def test_a_run_that_is_stopped_for_a_while_goes_on(scoring):
    """A suspended process (SIGSTOP, a laptop's lid) finds its calls answered or timed out, and
    finishes.
    """
    scoring.server.behave(latency_s=0.05)
    process = scoring.start("--call-timeout", 0.4)
    scoring.server.wait_until(lambda stats: stats["requests"] >= 4)
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(0.8)
    os.kill(process.pid, signal.SIGCONT)
    process.communicate(timeout=60)
    assert process.returncode == 0
    scoring.check_honest()
    scoring.check_undisturbed()
