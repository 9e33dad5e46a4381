"""What `--quick` recommends, figure by figure, of trials whose figures all differ."""

import pytest
from scored_lines import metrics

from genrm_cli.cli.scoring.trial import recommend, trial_settings
from genrm_cli.scored.run_record import RunRecord
from genrm_cli.settings import settings_from
from genrm_cli.typed_json import from_json

PAIRS = {"strategy": "ring", "ring_k": 2.0, "group_sizes": {"5": 30}}
LISTS = {"strategy": "lists", "ring_k": None, "repeats": 2, "group_sizes": {"3": 30}}


def trial_of(shape, mean, interval, needed, **more):
    """Return the record of a trial on 30 of 32 groups; rings or repeats at best, as expected, at
    worst.
    """
    written = metrics(groups=32, groups_left_out=2, reliability_interval=interval) | shape | more
    written["reliability"] |= {"count": 30, "mean": mean}
    names = ("at_best", "expected", "at_worst")
    setting = "repeats" if shape is LISTS else "ring_k"
    rings = {"setting": setting, **dict(zip(names, needed, strict=True))}
    return from_json(RunRecord, written | {"rings_needed": rings})


@pytest.fixture
def advised(genrm, call, judge_server, capsys):
    """Return what is recommended after a trial, for a run on a file of some groups."""

    def run(record, groups=2, size=5, **settings):
        genrm.rollouts(groups, size)
        judge = {"base_url": (judge_server.base_url,), "model": "m", "probe": False}
        return recommend(record, "in.jsonl", settings_from(**judge, **settings), (), {})

    return run


def test_the_trial_is_of_30_groups_or_of_fewer_that_the_user_named():
    """A limit below 30 holds for the trial too, and verdicts on a group always repeat."""
    limits = [trial_settings(settings_from(limit=each)).limits.limit for each in (5, 90, None)]
    assert limits == [5, 30, 30]
    assert trial_settings(settings_from(judge="lexical", ring_k=3.5)).pairing.ring_k == 3.5
    lists = trial_settings(settings_from(judging="listwise", repeats=1)).pairing
    assert (lists.repeats, lists.ring_k) == (2, settings_from().pairing.ring_k)


@pytest.mark.parametrize(
    ("needed", "rings", "expected"),
    [
        ((1.5, 2.5, 4.0), "--ring-k 2.5 as expected, 4 to be sure", "0.73 (0.54 to 0.84)"),
        (
            (1.5, 2.5, None),
            "--ring-k 2.5 as expected, more than the most to be sure",
            "0.73 (0.54 to 0.84)",
        ),
        ((None, 1.5, 1.5), "--ring-k 1.5", "0.60 (0.40 to 0.74)"),
    ],
)
def test_rings_and_the_reliability_that_they_are_expected_to_have(advised, needed, rings, expected):
    """More rings than the trial's two are expected to be more reliable than its .70, fewer less."""
    record = trial_of(PAIRS, 0.7, [0.5, 0.81], needed)
    advice = advised(record, profile="nemotron", ring_k=1.0)
    assert advice["mode"] == "pairwise, as in the trial"
    assert advice["rings"] == rings
    assert advice["reliability"] == (
        f"{expected} expected; 0.70 (0.50 to 0.81) in 30 groups of the trial"
    )
    count = rings.split()[1]
    assert advice["next"] == f"next: genrm score in.jsonl --ring-k {count}"


@pytest.mark.parametrize(("expected", "kept"), [(1.5, 2.0), (3.5, 3.5)])
def test_verdicts_of_a_trial_of_all_groups_count(advised, expected, kept):
    """Two rings of all groups are paid: fewer are not recommended, and more may be."""
    record = trial_of(PAIRS, 0.7, [0.5, 0.81], (1.0, expected, 3.5), groups=2, groups_left_out=0)
    rings = advised(record, profile="nemotron", ring_k=1.0)["rings"]
    assert rings.startswith(f"--ring-k {kept:g}")


def test_repeats_of_lists_and_their_reliability(advised):
    """Six repeats for the two of a trial: by Spearman and Brown, 3r / (1 + 2r) of all three."""
    record = trial_of(LISTS, 0.6, [0.5, 0.75], (4, 6, 8))
    advice = advised(record, size=3, judging="listwise")
    assert advice["repeats"] == "--repeats 6 as expected, 8 to be sure"
    assert advice["reliability"] == (
        "0.82 (0.75 to 0.90) expected; repeatability 0.60 (0.50 to 0.75) in 30 groups of the trial"
    )


AGREE = "rewards of both modes correlate by 1.00 (1.00 to 1.00) beyond their noise"
UNSURE = "rewards of both modes correlate by 0.85 (0.54 to 1.00) beyond their noise"
LABELS = "genrm eval --compare-modes measures which is right more often"


@pytest.mark.parametrize(
    ("is_shaken", "prices", "mode"),
    [
        (
            False,
            {},
            f"--judging listwise: {AGREE}, and it takes 1,676 tokens more where pairwise takes "
            f"46,925; {LABELS}",
        ),
        (
            False,
            {"price_in": 10.0, "price_out": 70.0},
            f"--judging listwise: {AGREE}, and it takes 0.02 more where pairwise takes 0.67; "
            f"{LABELS}",
        ),
        (
            True,
            {},
            f"pairwise, as in the trial; {UNSURE}: too few groups to tell whether the modes agree",
        ),
    ],
)
def test_another_mode_is_taken_if_it_agrees_and_costs_less(
    genrm, call_judged, advised, is_shaken, prices, mode
):
    """Of 12 groups of five, 4 are paid: lists of the others take far fewer tokens than their rings.
    Where the trial cannot tell two of the five in two groups, the modes may agree, and are not
    shown to.
    """
    genrm.rollouts(12, 5)
    call_judged("score in.jsonl --limit 4 --ring-k 2 --no-probe").ended(0)
    if is_shaken:
        lines = genrm.lines()
        for first, last in ((0, 4), (5, 9)):
            lines[first]["genrm"]["base_score"] = lines[last]["genrm"]["base_score"] = 3.0
        genrm.write("in.scored.jsonl", lines)
    written = genrm.metrics()
    written["reliability"]["mean"] = 0.9
    written["reliability_interval"] = [0.8, 0.95]
    needed = {"setting": "ring_k", "at_best": 1.0, "expected": 1.5, "at_worst": 2.0}
    record = from_json(RunRecord, written | {"rings_needed": needed})
    assert advised(record, groups=12, **prices)["mode"] == mode
