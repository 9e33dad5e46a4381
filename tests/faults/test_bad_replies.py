import pytest

FOUR_OF_16 = 4  # a seed under which a share of 0.25 meets four of the sixteen comparisons
BAD_REPLIES = [
    ({"hang": True}, ("--call-timeout", 0.4), "timeout"),
    ({"body": "<html>Welcome</html>", "content_type": "text/html"}, (), "bad_body"),
    ({"content": "", "finish_reason": "length"}, (), "truncated"),
    ({"content": "I would rather not."}, (), "no_verdict"),
]


@pytest.mark.parametrize(("fault", "arguments", "kind"), BAD_REPLIES)
def test_a_bad_reply_is_a_failure_and_asked_again_next_time(scoring, fault, arguments, kind):
    """Some comparisons get nothing but bad replies: they fail with their kind, the others count,
    and a resume mends.
    """
    scoring.server.behave(fault=fault, fault_share=0.25, seed=FOUR_OF_16)
    scoring.run("--retries", 0, "--max-unscored", 1, *arguments).ended(0)
    metrics = scoring.check_honest()
    assert metrics["failures_by_kind"] == {kind: 4}
    assert metrics["verdicts"] == scoring.journaled() == 12
    scoring.check_resumes()


@pytest.mark.parametrize(
    "fault", [{"gzip": True}, {"chunked": True}, {"gzip": True, "chunked": True}]
)
def test_the_framing_of_a_reply_does_not_matter(scoring, fault):
    """Compressed replies, and those without a length, are read like others."""
    scoring.server.behave(fault=fault)
    scoring.run().ended(0)
    assert scoring.check_honest()["retries"] == 0
    scoring.check_undisturbed()
