"""Counts and statistics of a run."""

import json

import pytest
from scored_lines import totals_of

from genrm_cli.metrics.group_measures import GroupMeasures, count_verdicts
from genrm_cli.metrics.run_metrics import RunMetrics, reference_metrics
from genrm_cli.pairing.pairs import Comparison
from genrm_cli.scored.json_form import to_json
from genrm_cli.verdicts import Failure, FailureKind, Outcome, Verdict


def summary_of(metrics, wall_time_s):
    """Return the totals of a run as they are written."""
    return to_json(totals_of(metrics, wall_time_s))


SEED_EXAMPLE = [Verdict(1, 5, 6), Verdict(4, 1, 1)]


def metrics_of(*results):
    """Count results as a run without compat does, verdicts as those of a group with as many
    repeats.
    """
    metrics = RunMetrics()
    verdicts = [result for result in results if isinstance(result, Verdict)]
    for repeat, verdict in enumerate(verdicts):
        metrics.add_measures(
            GroupMeasures(verdicts=count_verdicts([{Comparison(0, 1, repeat): verdict}]))
        )
    for result in results:
        metrics.add_outcome(Outcome(result))
        if isinstance(result, Verdict):
            metrics.add_scores(result)
    return metrics


def test_golden_metrics_of_the_seed_example():
    """The three numbers that the reference's compare reply has for its own example."""
    assert reference_metrics(metrics_of(*SEED_EXAMPLE)) == {
        "mean_individual_score": 2.75,
        "std_individual_score": pytest.approx(1.7853571071357126, abs=1e-15),
        "tiebreak_usage_rate": 0.0,
    }


def test_a_group_counts_alike_with_and_without_a_file():
    """Its size is known in both cases; one that a trial leaves out has no rollouts to compare."""
    read, arrived = RunMetrics(), RunMetrics()
    for size in (1, 3, 3):
        read.add_group(size)
        arrived.add_group_without_file(size, planned=size)
    read.add_group(5, is_left_out=True)
    assert arrived.group_sizes == {1: 1, 3: 2}
    assert read.group_sizes == {1: 1, 3: 2, 5: 1}
    assert (read.groups, read.groups_left_out, read.rollouts_in_groups) == (4, 1, 6)
    assert (arrived.groups, arrived.rollouts, arrived.rollouts_in_groups) == (3, 7, 6)
    assert arrived.comparisons_planned == 7


def test_failures_do_not_dilute_the_tiebreak_rate():
    """Outages are no ties, as they are in the reference, and no scores."""
    failures = [Failure(FailureKind.TIMEOUT, "600 s")] * 5
    metrics = reference_metrics(metrics_of(*failures, Verdict(3, 3, 2), Verdict(4, 2, 1)))
    assert metrics["tiebreak_usage_rate"] == 0.5
    assert metrics["mean_individual_score"] == 3.0


def test_the_summary_of_nothing_is_honest():
    """Where nothing was counted there is null, not 0 and not NaN, and the object is plain JSON."""
    summary = summary_of(RunMetrics(), 0.0)
    for name in (
        "mean_individual_score",
        "std_individual_score",
        "tiebreak_usage_rate",
        "first_place_win_rate",
    ):
        assert summary[name] is None
    assert summary["unscored_share"] == 0.0
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_contradictions_are_a_share_of_the_verdicts_on_pairs():
    """A tie contradicts nothing; grades of single responses have no ranking of their own and do not
    count.
    """
    verdicts = [
        Verdict(4, 2, 5),
        Verdict(2, 4, 2),
        Verdict(5, 5, 5),
        Verdict(3, 3, 2),
        Verdict(4, 2, 3.5),
    ]
    metrics = metrics_of(*verdicts, *[Verdict(4, 2, 2)] * 5)
    grades = count_verdicts([{Comparison(0, 1, 0): Verdict(1, 5, 1)}], in_order=False)
    metrics.add_measures(GroupMeasures(verdicts=grades))
    summary = summary_of(metrics, 1.0)
    assert summary["contradiction_rate"] == 0.2


def test_every_comparison_is_counted_once():
    """Verdicts of this run, verdicts from the journal and failures add up to what was finished."""
    metrics = metrics_of(*SEED_EXAMPLE, Failure(FailureKind.NOT_ASKED, "stopped"))
    known = Outcome(
        Verdict(4, 2, 2), attempts=3, prompt_tokens=10, completion_tokens=5, from_journal=True
    )
    shared = Outcome(Failure(FailureKind.EMPTY, "equal to one in flight"), from_journal=True)
    for outcome in (known, known, shared):
        metrics.add_outcome(outcome)
    summary = summary_of(metrics, 2.0)
    assert summary["verdicts"] == 2
    assert summary["journal_hits"] == 2
    assert summary["failures"] == 2
    assert metrics.finished == 6


def test_the_first_place_win_rate_shows_position_bias():
    """The share of decided verdicts that favour the response shown first; ties go by their
    ranking.
    """
    cases = [
        ([Verdict(5, 1, 1)], 1.0),
        ([Verdict(1, 5, 6)], 0.0),
        (SEED_EXAMPLE, 0.5),
        ([Verdict(3, 3, 1), Verdict(3, 3, 6), Verdict(3, 3, 2)], 2 / 3),
        ([Verdict(3, 3, 3.5)], None),
        ([Verdict(5, 1, 6), Verdict(3, 3, 3.5)], 1.0),
    ]
    for verdicts, rate in cases:
        assert summary_of(metrics_of(*verdicts), 1.0)["first_place_win_rate"] == (
            rate and pytest.approx(rate)
        )


def test_retries_are_calls_beyond_the_first():
    """Three calls for two comparisons are one retry, but a second turn is not; the built-in judge
    makes no calls.
    """
    metrics = metrics_of(*SEED_EXAMPLE)
    assert summary_of(metrics, 1.0)["retries"] == 0
    for attempts, turns in ((1, 1), (2, 1), (2, 2)):
        metrics.add_outcome(Outcome(SEED_EXAMPLE[0], attempts, turns=turns))
    assert metrics.calls == 5
    assert summary_of(metrics, 1.0)["retries"] == 1
    metrics.add_outcome(Outcome(SEED_EXAMPLE[0], 4, turns=2))
    assert summary_of(metrics, 1.0)["retries"] == 3
    metrics.add_outcome(Outcome(Failure(FailureKind.NOT_ASKED, "stopped")))
    metrics.add_outcome(Outcome(SEED_EXAMPLE[0], 4, from_journal=True))
    assert summary_of(metrics, 1.0)["retries"] == 3  # nobody was asked
