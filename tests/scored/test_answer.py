"""What the totals of a run say of its judge, before anybody decides whether to trust it."""

from collections import Counter

from msgspec.structs import replace
from scored_lines import totals_of

from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.scored.trust import facts_of_totals

RESUMED = replace(
    totals_of(RunMetrics()),
    comparisons_planned=46,
    verdicts=10,
    journal_hits=30,
    tie_rate=0.25,
    first_place_win_rate=0.6,
    failures_by_kind=Counter(timeout=2, not_asked=4),
    group_sizes={"1": 3, "4": 9},
    groups_left_out=2,
    groups_without_spread=1,
)


def test_shares_are_of_all_that_could_have_the_property():
    """Verdicts of an earlier run count, ties have no first place, what was not asked cannot fail,
    and a group that is alone or left out is not flat.
    """
    facts = facts_of_totals(RESUMED, {})
    shares = facts.first_place, facts.failed, facts.flat
    assert [(share.count, share.of) for share in shares] == [(18, 30), (2, 42), (1, 7)]
    assert facts.not_asked == 4
