"""Which judge made rewards: it is named before and after a run, and its results are not mixed up
with another's.
"""

import json

import pytest
from genrm_process import make_rollouts


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--model", "other"), "it was judged by m, not other"),
        (("--model", "m", "--judge-id", "oslo"), "it was judged by m, not oslo"),
    ],
)
def test_another_judges_results_are_not_replaced_unasked(genrm, call, judge_server, flags, says):
    """Another model or identity is refused with 2 and the difference, also in a folder;
    --force replaces.
    """
    genrm.write("in.jsonl", make_rollouts())
    judge = ("--base-url", judge_server.base_url)
    assert call("score in.jsonl --model m", *judge).code == 0
    before = (genrm.folder / "in.scored.jsonl").read_bytes()
    for given in (("in.jsonl",), (".", "--min-age", "0")):
        refused = call("score", *given, *judge, *flags)
        assert refused.code == 2, refused.err
        assert says in refused.err, refused.err
        assert "--force" in refused.err, refused.err
        assert (genrm.folder / "in.scored.jsonl").read_bytes() == before
    assert call("score in.jsonl -o other.jsonl", *judge, *flags).code == 0
    assert call("score in.jsonl --force", *judge, *flags).code == 0


def test_a_judge_that_moved_continues(genrm, call, judge_server, start_judge):
    """As a nightly job: what is done stays done, the rest is finished elsewhere, no call is paid
    twice.
    """
    for name in ("done", "begun"):
        genrm.write(f"{name}.jsonl", make_rollouts(groups=2, size=3))
    first = (
        *judge_server.flags,
        "--no-probe",
        "--profile",
        "nemotron",
    )
    assert call("score done.jsonl", *first).code == 0
    assert call("score begun.jsonl --max-calls 2", *first).code == 6
    moved = start_judge()
    tonight = (
        "--base-url",
        moved.base_url,
        *first[2:],
        "--min-age",
        0,
    )
    finished = call("score .", *tonight).ended(0)
    assert moved.stats()["requests"] == 6 - 2
    assert "1 up to date" in finished.err
    assert call("score . --judge-id m", *tonight).code == 0
    assert moved.stats()["requests"] == 4


def verdict(ranking):
    """Return a judge's reply for the first response (ranking 1) or the second (6)."""
    scores = (5, 1) if ranking < 4 else (1, 5)
    return json.dumps(
        {
            "score_1": scores[0],
            "score_2": scores[1],
            "ranking": ranking,
        }
    )


def test_a_grader_that_cannot_be_read_is_named_with_its_component(genrm, call, judge_server):
    """A judge that does not know rubrics ends the run with 4; the error begins with the component,
    and proposes no profile, which would not change how a rubric is asked.
    """
    genrm.write("in.jsonl", make_rollouts())
    judge_server.behave(script=[{}] * 2, fault={"content": "I do not grade."})
    finished = call("score in.jsonl --component rubric:helpfulness", *judge_server.flags).ended(4)
    assert "genrm: error: component rubric: the judge cannot be used: " in finished.err
    assert "Give this component a stronger model." in finished.err
    assert "--profile" not in finished.err


def test_a_judge_without_a_preference_ends_the_run(genrm, call, judge_server):
    """The same scores for a right answer and for nonsense end it with 4 and no outputs; --no-probe
    goes on.
    """
    judge_server.behave(
        verdict={
            "score_1": 3,
            "score_2": 3,
            "ranking": 3,
        }
    )
    genrm.write("in.jsonl", make_rollouts())
    refused = call("score in.jsonl", *judge_server.flags)
    assert refused.code == 4
    assert "does not prefer a right answer to nonsense" in refused.err
    assert "in.scored.jsonl" not in genrm.names()
    assert call("score in.jsonl --no-probe", *judge_server.flags).code == 0
