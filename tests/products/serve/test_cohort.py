"""The state machine of cohorts: it knows no clock, no file and no HTTP."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.products.serve.cohorts.cohort import (
    Cohort,
    DisagreementError,
    JoinResult,
    Member,
    in_order,
)
from genrm_cli.rollouts.rollout import Rollout, Text, Turn


def member(id_, text="text", prompt="Why?", principle=None, reference=None):
    """Make a member with this text."""
    rollout = Rollout((Turn("user", prompt),), (Text(text),), principle, reference=reference)
    line = {"text": text}
    return Member.of(str(id_), line, line, rollout)


def test_integers_come_before_other_ids():
    """Numbers by value, then all others by text; 007 is a text."""
    assert in_order(["b", "10", "9", "007", "a"]) == ["9", "10", "007", "a", "b"]


def test_a_member_that_comes_after_the_end_is_late():
    """As long as the cohort closed without all of its members; a late member can be repeated,
    too.
    """
    cohort = Cohort("g", 4)
    for id_ in "ab":
        cohort.join(member(id_), 4)
    cohort.is_closed = True
    assert [cohort.join(member(id_), 4) for id_ in "cdc"] == [
        JoinResult.LATE,
        JoinResult.LATE,
        JoinResult.REPEATED,
    ]
    assert [each.id for each in cohort.in_order()] == ["a", "b"]
    assert [each.id for each in cohort.in_order("c")] == ["a", "b", "c"]
    with pytest.raises(DisagreementError, match="4 members have come, 'e' is one more"):
        cohort.join(member("e"), 4)


def test_a_member_that_comes_after_all_is_awaited_no_less():
    """A trainer resumes what it gave up: it counts once, and the others are awaited."""
    cohort = Cohort("g", 2)
    assert cohort.leave_out("a", 2)
    assert cohort.join(member("a"), 2) is JoinResult.NEW
    assert not cohort.is_settled
    assert cohort.leave_out("b", 2)
    assert cohort.is_settled


def test_a_contradiction_is_named_and_changes_nothing():
    """Size, content, prompt and principle: the message names what was said, and the cohort goes on
    without it.
    """
    cases = [
        (member("b"), 3, "member 'b' says size 3, the first member said 2"),
        (member("a", "other"), 2, "'a' came before with another content"),
        (
            member("b", prompt="When?"),
            2,
            "messages, principle or reference of member 'b' are not those of 'a'",
        ),
        (member("b", principle="Be kind."), 2, "messages, principle or reference of member 'b'"),
        (member("b", reference="42"), 2, "messages, principle or reference of member 'b'"),
    ]
    for request_, size, said in cases:
        cohort = Cohort("g", 2)
        cohort.join(member("a"), 2)
        with pytest.raises(DisagreementError, match=said):
            cohort.join(request_, size)
        assert list(cohort.members) == ["a"]
        assert cohort.join(member("b"), 2) is JoinResult.NEW


@given(st.permutations(range(6)))
def test_the_index_of_a_member_is_known_early(arrival):
    """Whatever the order of arrival, for numbers from 0: it is the index in the end."""
    cohort = Cohort("g", 6)
    early = {}
    for id_ in map(str, arrival):
        cohort.join(member(id_), 6)
        early[id_] = cohort.index_of(id_)
    assert [(each.id, early[each.id]) for each in cohort.in_order()] == [
        (str(index), index) for index in range(6)
    ]


def test_other_ids_have_no_index_before_all_have_come():
    """One such id is enough: those after it could stand anywhere."""
    for other in ["a", "6", "-1", "007", ""]:
        cohort = Cohort("g", 6)
        cohort.join(member(other), 6)
        cohort.join(member("0"), 6)
        assert cohort.index_of(other) is None
        assert cohort.index_of("0") is None
