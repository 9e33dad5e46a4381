"""Which pairs are made of a group, and which never are."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from genrm_cli.catalog import PAIR_SELECTIONS
from genrm_cli.products.export.balance import BUCKET_CHARS, balanced
from genrm_cli.products.export.candidates import Candidate, Drop
from genrm_cli.products.export.export_options import ExportOptions
from genrm_cli.products.export.preference_pairs import choose_pairs


def candidate(index, reward, *, chars=100, text=None, prompt=7, gated=False):
    """Make a candidate; each has a text of its own unless one is given."""
    return Candidate(None, index, reward, chars, index if text is None else text, prompt, gated)


def chosen(rewards, selection="best-worst", dropped=None, **options):
    """Return the indices of the pairs of a group with these rewards."""
    pairs = choose_pairs(
        [candidate(index, reward) for index, reward in enumerate(rewards)],
        ExportOptions(pairs=selection, **options),
        Counter() if dropped is None else dropped,
    )
    return [(pair[0].index, pair[1].index) for pair in pairs]


GROUPS = st.lists(
    st.fixed_dictionaries(
        {
            "reward": st.sampled_from([1.0, 1.5, 2.0, 3.25, 4.0, 5.0]),
            "chars": st.integers(0, 500),
            "text": st.integers(0, 5),
            "prompt": st.sampled_from([7, 7, 7, 8]),
            "is_gated": st.booleans(),
            "is_teacher": st.booleans(),
        }
    ),
    max_size=9,
).map(lambda rows: [Candidate(None, index, **row) for index, row in enumerate(rows)])
OPTIONS = st.builds(
    ExportOptions,
    pairs=st.sampled_from(sorted(PAIR_SELECTIONS)),
    top=st.integers(1, 4),
    min_gap=st.sampled_from([0.0, 0.5, 1.0]),
    max_length_ratio=st.sampled_from([None, 1.5]),
    seed=st.integers(0, 3),
)
VERDICTS = st.dictionaries(
    st.tuples(st.integers(0, 8), st.integers(0, 8)).filter(lambda pair: pair[0] < pair[1]),
    st.sampled_from([-1, 0, 1]),
)


def test_a_gap_is_not_too_small_by_rounding():
    """0.7 - 0.4 is less than 0.3 in binary numbers."""
    assert chosen([0.7, 0.4], min_gap=0.3) == [(0, 1)]


@given(GROUPS, OPTIONS, VERDICTS)
def test_no_pair_breaks_a_rule_and_every_drop_has_a_reason(group, options, verdicts):
    """Never a tie, equal texts, two prompts or a gated choice; filters hold; pairs and drops
    account for all.
    """
    dropped = Counter()
    preferences = verdicts if options.pairs == "compared" else None
    pairs = choose_pairs(group, options, dropped, preferences=preferences, key="g")
    for better, worse in pairs:
        assert better.reward > worse.reward
        assert better.text != worse.text
        assert better.prompt == worse.prompt
        assert not better.is_gated
        assert better.reward - worse.reward >= options.min_gap
        if options.max_length_ratio is not None:
            shorter, longer = sorted((better.chars, worse.chars))
            assert longer <= options.max_length_ratio * shorter
        if options.pairs == "compared":
            first, second = sorted((better.index, worse.index))
            assert verdicts[first, second] == (1 if better.index == first else -1)
    assert len({(pair[0].index, pair[1].index) for pair in pairs}) == len(pairs)
    considered = {
        "all": len(group) * (len(group) - 1) // 2,
        "top-bottom": min(options.top, len(group) // 2) ** 2,
        "teacher-student": sum(not each.is_teacher for each in group),
        "compared": sum(max(pair) < len(group) for pair in verdicts),
    }.get(options.pairs, 1)
    assert len(pairs) + dropped.total() == (considered if len(group) > 1 else 1)


@given(GROUPS, OPTIONS)
def test_the_same_group_gives_the_same_pairs(group, options):
    """Selection is deterministic, also of random opponents, and does not depend on the order of the
    rollouts.
    """
    first = choose_pairs(group, options, Counter(), key="g")
    again = choose_pairs(group, options, Counter(), key="g")
    assert first == again


def test_what_is_exactly_at_a_bound_is_kept():
    """A length ratio of exactly the most passes, and of equal rewards the first is the best."""
    pair = [candidate(0, 5.0, chars=200), candidate(1, 1.0, chars=100)]
    assert len(choose_pairs(pair, ExportOptions(max_length_ratio=2.0), Counter())) == 1
    assert choose_pairs(pair, ExportOptions(max_length_ratio=1.9), Counter()) == []
    assert chosen([5.0, 5.0, 1.0]) == [(0, 2)]


def test_selections_take_the_ends_of_a_group():
    """The best is chosen; the worst, or each of the worst two, is rejected."""
    cases = [
        ("best-worst", [(1, 3)]),
        ("best-typical-worst", [(1, 3)]),
        ("top-bottom", [(1, 3), (1, 4), (2, 3), (2, 4)]),
    ]
    for selection, expected in cases:
        assert sorted(chosen([3.0, 5.0, 4.0, 1.0, 2.0], selection)) == expected


def test_a_response_that_broke_a_gate_is_rejected_only():
    """The best that passes the gates is chosen, although one that does not has a higher reward."""
    group = [candidate(0, 5.0, gated=True), candidate(1, 4.0), candidate(2, 1.0, gated=True)]
    (pair,) = choose_pairs(group, ExportOptions(), Counter())
    assert pair[0].index == 1
    assert pair[1].index == 2


@given(st.lists(st.integers(-300, 300), max_size=60), st.integers(0, 5))
def test_balanced_pairs_have_as_many_longer_as_shorter_choices_in_each_bucket(differences, seed):
    """Only the larger side of a bucket loses pairs, and no more than needed; equal lengths stay."""
    kept = balanced(differences, seed)
    for bucket in {abs(difference) // BUCKET_CHARS for difference in differences}:
        here = [
            (d, k)
            for d, k in zip(differences, kept, strict=True)
            if d and abs(d) // BUCKET_CHARS == bucket
        ]
        longer, shorter = (sum(k for d, k in here if (d > 0) == side) for side in (True, False))
        assert longer == shorter == min(sum(d > 0 for d, _ in here), sum(d < 0 for d, _ in here))
    assert all(k for d, k in zip(differences, kept, strict=True) if d == 0)


def test_the_random_opponent_depends_on_the_seed():
    """Another seed rejects another response somewhere among many groups."""
    rewards = [5.0, 1.0, 2.0, 3.0]
    seen = {chosen(rewards, "best-random", seed=seed)[0] for seed in range(20)}
    assert seen == {(0, other) for other in (1, 2, 3)}


def test_a_teacher_is_chosen_over_the_policy_only():
    """The best rollout of a teacher meets each of the policy's with the same history; better ones
    stay away, and equal ones are a tie.
    """
    group = [
        replace(candidate(0, 4.0), is_teacher=True),
        replace(candidate(1, 3.0), is_teacher=True),
        candidate(2, 1.0),
        candidate(3, 4.5),
        candidate(4, 2.0, prompt=8),
        candidate(5, 2.0),
        candidate(6, 4.0),
    ]
    dropped = Counter()
    pairs = choose_pairs(group, ExportOptions(pairs="teacher-student"), dropped)
    assert [(pair[0].index, pair[1].index) for pair in pairs] == [(0, 2), (0, 5)]
    assert dropped == {Drop.TEACHER_WORSE: 1, Drop.NO_TEACHER: 1, Drop.TIE: 1}
