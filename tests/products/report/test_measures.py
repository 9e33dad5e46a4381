"""What a report measures of groups and runs, and what it must not claim to know."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from scored_lines import metrics, scored, verdict

from genrm_cli.groups.line_records import ComparisonRecord
from genrm_cli.metrics.running_stats import share_of
from genrm_cli.products.report.content import tags_of
from genrm_cli.products.report.measure_group import measure_group
from genrm_cli.products.report.report_figures import facts_of, figures_of, histogram_of, mean_of
from genrm_cli.rollouts.formats import Score
from genrm_cli.rollouts.rollout import Rollout, Text, Turn
from genrm_cli.scored.lines import ScoredGroup, ScoredRollout, parse_scored_line
from genrm_cli.scored.run_record import RunRecord
from genrm_cli.scored.trust import judge_trust
from genrm_cli.typed_json import from_json


def group_of(
    answers,
    rewards,
    asked=(),
    **detail,
):
    """Make a group with verdicts (first, second, score of each)."""
    members = [
        member_of(answer, reward, len(answers), index=index, **detail)
        for index, (answer, reward) in enumerate(zip(answers, rewards, strict=True))
    ]
    return ScoredGroup(
        "task:1",
        tuple(members),
        tuple(from_json(ComparisonRecord, verdict(*each)) for each in asked),
    )


def member_of(answer, reward, size, **detail):
    """Make a scored rollout; further arguments go into its `genrm` object."""
    line = parse_scored_line(Score(reward, scored(answer, reward, size=size, **detail)["genrm"]))
    return ScoredRollout(Rollout((Turn("user", "Why?"),), (Text(answer),)), line)


def figures(*groups, time="2026-01-01"):
    """Return the figures of groups."""
    measured = [measure_group(group, "") for group in groups]
    return figures_of(
        f"{time}.scored.jsonl", measured, from_json(RunRecord, metrics(time=time)), "j", None
    )


def measured(answers, rewards, asked=()):
    """Measure a group."""
    return measure_group(group_of(answers, rewards, asked), "")


def test_flips_need_both_orders():
    """A pair judged in one order can not flip; one judged in both flips if each order prefers
    another response.
    """
    assert measured(["a", "b"], [1.0, 2.0], [(0, 1, 4, 2)]).measures.verdicts.both_orders.pairs == 0
    found = measured(["a", "b"], [1.0, 2.0], [(0, 1, 4, 2), (1, 0, 4, 2)])
    counts = found.measures.verdicts
    assert counts.both_orders.pairs == 1
    assert counts.flips == 1
    assert counts.first_wins == 2


def test_responses_that_differ_in_case_and_punctuation_only_repeat():
    """Near-duplicates are equal words; blank responses are not duplicates of each other."""
    assert measured(["Yes, I do!", "yes i do", "No."], [1.0, 1.0, 2.0]).duplicates == 1
    assert measured(["", "", ""], [None, None, None]).duplicates == 0


def test_a_component_leads_to_the_groups_that_it_tells_apart():
    """A component that is equal within a group adds nothing to its advantages."""
    lines = [
        {"safety": 1.0, "empathy": 0.2},
        {"safety": 1.0, "empathy": None},
        {"safety": 1.0, "empathy": 0.4},
    ]
    members = [
        member_of("a", 1.0, 3, index=index, components=each) for index, each in enumerate(lines)
    ]
    assert measure_group(ScoredGroup("task:1", tuple(members), ()), "").varying == ["empathy"]


def test_rewards_of_the_baseline_are_not_to_be_trained_on():
    """The answer is no, whatever the other figures look like."""
    run = figures(group_of(["a", "bb", "c"], [1.0, 3.0, 2.0], is_baseline=True, reliability=0.99))
    assert judge_trust(facts_of(run), has_comparisons=False).weight == "no"


def test_a_clean_run_has_nothing_against_it():
    """Reliable, complete and varied rewards give the best answer, which claims no more than was
    measured; one group says too little about the judge.
    """
    texts = ["aaa", "bb", "ccc", "dd"]
    orders = [
        [1.0, 4.0, 3.5, 2.0],
        [4.0, 1.0, 2.0, 3.5],
        [2.0, 3.5, 4.0, 1.0],
    ]
    clean = [group_of(texts, rewards, reliability=0.95) for rewards in orders]
    run = figures(*clean)
    known = replace(run.account, found="0.95 (0.90 to 0.98)", word="high", advice="")
    trust = judge_trust(facts_of(replace(run, account=known)), has_comparisons=False)
    assert trust.weight == "fine"
    assert "measured" in trust.answer
    assert judge_trust(facts_of(figures(clean[0])), has_comparisons=False).weight == "unknown"


@pytest.mark.parametrize(
    ("flips", "weight", "words"),
    [
        ((1, 5), "unknown", "1 of 5 pairs"),
        ((2, 3), "care", "2 of 3 pairs"),
        ((5, 15), "care", "5 of 15 pairs flip"),
        ((60, 300), "fine", "60 of 300 pairs (20.0 %, 15.8 to 24.9 %)"),
        ((60, 260), "unknown", "60 of 260 pairs (23.1 %"),
    ],
)
def test_the_words_of_a_share_follow_its_interval(flips, weight, words):
    """Fine is what is within the limit at the bad end, too; few pairs have no percentage."""
    run = replace(
        figures(group_of(["a", "bb"], [1.0, 2.0], [(0, 1, 4, 2)])), flips=share_of(*flips)
    )
    reasons = judge_trust(facts_of(run), has_comparisons=True).reasons
    (reason,) = [each for each in reasons if each.tag == "flips"]
    assert reason.weight == weight
    assert reason.text.startswith(words)


def test_every_bar_leads_to_the_groups_behind_it():
    """The tags of a histogram's bins cover each group that has a value, and no bin without one."""
    groups = [group_of(["a", "bb", "ccc"], [float(k), 2.0 * k, 3.0]) for k in range(1, 6)]
    run = figures(*groups)
    tags = tags_of(0, run, [measure_group(group, "") for group in groups])
    bins = {name for name in tags if name.startswith("reward-")}
    assert bins == {
        f"reward-{number}" for number, count in enumerate(run.reward_histogram.counts) if count
    }
    assert set().union(*(tags[name].groups for name in bins)) == set(range(5))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60))
def test_a_histogram_counts_every_value_in_the_bin_that_it_names(values):
    """Counts add up, and `bin_of` agrees with them."""
    histogram = histogram_of(values)
    counted = [0] * len(histogram.counts)
    for value in values:
        counted[histogram.bin_of(value)] += 1
    assert sum(histogram.counts) == len(values)
    assert all(
        (mine > 0) <= (theirs > 0) for mine, theirs in zip(counted, histogram.counts, strict=True)
    )


def test_means_and_shares_of_nothing_are_unknown():
    """No figure is 0 because nothing was measured."""
    assert mean_of([]).value is None
    assert mean_of([1.0]).low is None
    assert share_of(0, 0).value is None


def recorded(**more):
    """Return the figures of one group next to a metrics file with these members."""
    written = metrics()
    written["judge"]["panel"] = more.pop("judges", None)
    group = measure_group(group_of(["a", "bb"], [1.0, 2.0]), "")
    return figures_of("x", [group], from_json(RunRecord, written | more), "j", None)


def test_repeats_agree_in_a_share_of_their_pairs():
    """An agreement of .75 on eight pairs is six of eight."""
    run = recorded(repeat_agreement=0.75, pairs_of_repeats=8)
    assert (run.repeats.count, run.repeats.of, run.repeats.value) == (6, 8, 0.75)


@pytest.mark.parametrize(
    ("probes", "worst"),
    [
        (["passed", "skipped"], "skipped"),
        (["incomplete", "passed"], "incomplete"),
        (["skipped", None], "skipped"),
        (["passed"], "passed"),
    ],
)
def test_a_panel_is_as_sure_as_the_judge_that_was_probed_worst(probes, worst):
    """One judge that was not probed keeps the others from vouching for it."""
    judge = dict.fromkeys(("name", "model", "profile", "profile_version", "compat"))
    judge |= {"is_baseline": False, "base_urls": [], "profile_from": None}
    assert recorded(judges=[{**judge, "probe": probe} for probe in probes]).probe == worst


@pytest.mark.parametrize(("flat", "weight"), [(3, "no"), (2, "care")])
def test_many_flat_groups_refuse_trust(flat, weight):
    """More than half of the groups without a difference leave too little to learn."""
    groups = [group_of(["a", "bb"], [1.0, 1.0]) for _ in range(flat)]
    groups += [group_of(["a", "bb"], [1.0, 2.0]) for _ in range(4 - flat)]
    reasons = judge_trust(facts_of(figures(*groups)), has_comparisons=False).reasons
    assert [each.weight for each in reasons if each.tag == "no-spread"] == [weight]
    weights = [each.weight for each in reasons]
    assert weights == sorted(weights, key=["no", "care", "unknown", "fine"].index)
