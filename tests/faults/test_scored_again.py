import pytest
from disturbed_scoring import JOURNAL, MODEL


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
        "--preset nemotron-3-nano",
        "--preset nemotron-3-super",
        "--keep-replies",
        "--call-timeout 5 --retries 1",
        "--concurrency auto",
        f"--judge-id {MODEL}",
        "--base-url http://127.0.0.1:9/v1",
        f"-o elsewhere.jsonl --journal work/{JOURNAL}",
    ],
)
def test_what_does_not_change_the_answer_is_free(complete, changed):
    """Other rewards from the same verdicts, other limits, other places: nothing is asked."""
    complete.run(*changed.split()).ended(0)
    assert complete.server.stats()["requests"] == 0


@pytest.mark.parametrize(
    ("changed", "asked"),
    [
        ("--model another-judge", 16),
        ("--profile nemotron-plain", 16),
        ("--temperature 0.1", 16),
        ("--max-reply-tokens 99", 16),
        ("--judge-id the-same-name-on-another-box", 16),
        ("--principle Be_brief.", 16),
        ("--compat nemo-gym", 16),
        ("--repeats 2", 16),
        ("--strategy all_pairs", 15),  # of 24; the ring asked the others in the same order
        # Beside the first ring half a one: two pairs of four rollouts have not met.
        ("--ring-k 2", 8),
        ("--seed 7", 12),
        ("--no-journal", 16),
    ],
)
def test_what_changes_the_answer_is_asked(complete, changed, asked):
    """Another judge, another way of asking or another question is a call; back at the old ones
    nothing is lost.
    """
    complete.run(*changed.split()).ended(0)
    assert complete.server.stats()["requests"] == asked
    complete.check_resumes(missing=0)
