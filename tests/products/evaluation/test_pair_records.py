"""What the answers about a pair in one order become."""

from types import SimpleNamespace

from genrm_cli.groups.line_records import FailureRecord
from genrm_cli.products.evaluation.pair_records import NOT_JUDGED, order_of
from genrm_cli.scored.lines import PairAnswer
from genrm_cli.verdicts import FailureKind, Verdict

NO_VERDICT = FailureRecord(kind=FailureKind.NO_VERDICT, detail="")


def answer(judge, score=None):
    """Return an answer with this score of the first response against 3; without one, a failure."""
    record = SimpleNamespace(
        judge=judge, attempts=1, latency_s=1.0, prompt_tokens=7, completion_tokens=3
    )
    if score is None:
        return PairAnswer(record, None, NO_VERDICT)
    return PairAnswer(record, Verdict(score, 3.0, 3.5), None)


def test_each_judge_of_a_panel_counts_once():
    """However many of its repeats came; a repeat is the panel's, and its cost that of all calls."""
    answers = [answer("a", 5.0), answer("b", 2.0), answer("a", 4.0), answer("b")]
    order = order_of(answers, ["a", "b"], chosen_first=True, is_paid=True)
    assert (order.score_1, order.result, order.failure) == ((4.5 + 2) / 2, "right", None)
    assert order.repeats == ("right", "right")
    assert (order.attempts, order.latency_s, order.prompt_tokens) == (4, 1.0, 28)
    free = order_of(answers, ["a", "b"], chosen_first=False, is_paid=False)
    assert (free.result, free.attempts, free.prompt_tokens) == ("wrong", 0, 0)


def test_an_order_without_a_verdict_has_the_failure_of_its_first_judge():
    """A reply that cannot be read is an answer of the judge; one that was never asked is none."""
    failed = order_of([answer("a"), answer("b")], ["a", "b"], chosen_first=True, is_paid=True)
    assert (failed.result, failed.failure, failed.repeats) == (None, NO_VERDICT, ("unreadable",))
    assert (NOT_JUDGED.was_asked, NOT_JUDGED.repeats) == (False, (None,))
