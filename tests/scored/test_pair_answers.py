"""What judges say about each pair of a group, whatever they were shown."""

from genrm_cli.groups.line_records import ComparisonRecord, FailureRecord
from genrm_cli.scored.lines import answers_by_pair
from genrm_cli.verdicts import FailureKind

FAILED = FailureRecord(kind=FailureKind.TIMEOUT, detail="late")


def record_of(
    *shown: int,
    scores: tuple[float, float] | None = None,
    grades: tuple[float | None, ...] | None = None,
    repeat: int = 0,
    component: str | None = None,
    judge: str = "m",
) -> ComparisonRecord:
    """Return the record of a request; without scores and grades, of one that failed."""
    return ComparisonRecord(
        format=1,
        group="g",
        component=component,
        i=None,
        j=None,
        shown=shown,
        judge_idx=repeat,
        judge=judge,
        score_1=None if scores is None else scores[0],
        score_2=None if scores is None else scores[1],
        ranking=None if scores is None else 3.5,
        failure=FAILED if scores is None and grades is None else None,
        attempts=1,
        latency_s=0.0,
        prompt_tokens=0,
        completion_tokens=0,
        grades=grades,
    )


def scores_in(*records: ComparisonRecord) -> dict[tuple[int, int], list[object]]:
    """Return both scores of each answer by pair; the kind of a failure."""
    return {
        shown: [
            each.failure.kind
            if each.verdict is None
            else (each.verdict.score_1, each.verdict.score_2)
            for each in answers
        ]
        for shown, answers in answers_by_pair(records).items()
    }


def test_a_pair_is_told_in_the_order_shown_repeat_by_repeat():
    """A verdict for a component does not count."""
    later = record_of(0, 1, scores=(5.0, 2.0), repeat=1)
    first = record_of(0, 1)
    other = record_of(1, 0, scores=(3.0, 4.0))
    assert scores_in(later, other, first, record_of(0, 1, scores=(1.0, 1.0), component="c")) == {
        (0, 1): [FailureKind.TIMEOUT, (5.0, 2.0)],
        (1, 0): [(3.0, 4.0)],
    }


def test_a_list_tells_of_each_of_its_pairs():
    """In the order shown; a response that is left out gives no verdict, and a list without a reply
    fails for all of its pairs.
    """
    assert scores_in(record_of(2, 1, 0, grades=(1.0, None, 5.0)), record_of(3, 4, 5)) == {
        (2, 1): [FailureKind.NO_VERDICT],
        (2, 0): [(1.0, 5.0)],
        (1, 0): [FailureKind.NO_VERDICT],
        **{shown: [FailureKind.TIMEOUT] for shown in ((3, 4), (3, 5), (4, 5))},
    }


def test_responses_graded_one_by_one_meet_by_judge():
    """In both orders; a grade that came later in the place of a failed one meets the other's, and
    grades of two judges never meet.
    """
    found = scores_in(
        record_of(0),
        record_of(0, grades=(4.0,), repeat=1),
        record_of(1, grades=(2.0,)),
        record_of(1, grades=(1.0,), judge="other"),
        record_of(0, judge="other"),
    )
    assert found == {
        (0, 1): [(4.0, 2.0), FailureKind.TIMEOUT, FailureKind.TIMEOUT],
        (1, 0): [(2.0, 4.0), FailureKind.TIMEOUT],
    }
