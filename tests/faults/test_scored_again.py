import pytest
from disturbed_scoring import JOURNAL, MODEL
from genrm_process import read_lines


@pytest.fixture
def complete(scoring):
    """Give a test an input that has been scored, with its journal, and a judge with all counters at
    zero.
    """
    assert scoring.run().code == 0
    scoring.server.reset()
    return scoring


def test_a_complete_journal_answers_everything(complete):
    """A second run makes no request, not even the probe's, and writes the same."""
    before = complete.scored
    complete.run("--probe").ended(0)
    assert complete.server.stats()["requests"] == 0
    metrics = complete.check_honest()
    assert metrics["journal_hits"] == 16
    assert metrics["calls"] == 0
    assert metrics["prompt_tokens"] == 0
    assert complete.scored == before


@pytest.mark.parametrize(
    "changed",
    [
        ("--preset", "nemotron-3-nano"),
        ("--preset", "nemotron-3-super"),
        ("--keep-replies",),
        ("--call-timeout", 5, "--retries", 1),
        ("--concurrency", "auto"),
        ("--judge-id", MODEL),
        ("--base-url", "http://127.0.0.1:9/v1"),
        (
            "-o",
            "elsewhere.jsonl",
            "--journal",
            f"work/{JOURNAL}",
        ),
    ],
    ids=lambda changed: " ".join(map(str, changed)),
)
def test_what_does_not_change_the_answer_is_free(complete, changed):
    """Other rewards from the same verdicts, other limits, other places: nothing is asked."""
    complete.run(*changed).ended(0)
    assert complete.server.stats()["requests"] == 0


def test_replies_are_kept_in_the_journal(complete):
    """With --keep-replies, a re-scored run contains the recorded replies."""
    assert complete.run("--keep-replies").code == 0
    assert all(
        "ranking" in record["reply"]
        for record in read_lines(complete.folder / "in.comparisons.jsonl")
    )


@pytest.mark.parametrize(
    ("changed", "asked"),
    [
        (("--model", "another-judge"), 16),
        (("--profile", "nemotron-plain"), 16),
        (("--temperature", 0.1), 16),
        (("--max-reply-tokens", 99), 16),
        (("--judge-id", "the same name on another box"), 16),
        (("--principle", "Be brief."), 16),
        (("--compat", "nemo-gym"), 16),
        (("--repeats", 2), 16),
        (("--strategy", "all_pairs"), 15),  # of 24; the ring asked the others in the same order
        (
            ("--ring-k", 2),
            8,
        ),  # beside the first ring half a one: two pairs of four rollouts have not met
        (("--seed", 7), 12),
        (("--no-journal",), 16),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_what_changes_the_answer_is_asked(complete, changed, asked):
    """Another judge, another way of asking or another question is a call; back at the old ones
    nothing is lost.
    """
    complete.run(*changed).ended(0)
    assert complete.server.stats()["requests"] == asked
    complete.check_resumes(missing=0)


def test_a_damaged_journal_stops_the_run_before_any_call(complete):
    """A journal with a broken page is an error that names it; nothing is asked, written or
    destroyed.
    """
    path = complete.folder / JOURNAL
    damaged = bytearray(path.read_bytes())
    damaged[4096 : 4096 + 2048] = bytes(2048)
    path.write_bytes(damaged)
    before = complete.scored
    finished = complete.run().ended(5)
    assert JOURNAL in finished.err
    assert complete.server.stats()["requests"] == 0
    assert complete.scored == before
    assert path.read_bytes() == damaged
