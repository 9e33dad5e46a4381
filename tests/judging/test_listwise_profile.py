"""The profile `listwise`: labels that no text knows, and what is read of a reply."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.judging.lookup import PROFILES
from genrm_cli.judging.profiles.families.listwise import list_labels
from genrm_cli.judging.requests import ListwisePrompt, Reply
from genrm_cli.verdicts import Failure, FailureKind

PROFILE = PROFILES["listwise"]
PROMPT = ListwisePrompt([("user", "Why?")], ("one", "two", "three"))
A, B, C = list_labels(PROMPT)


def read(scores, order=None, prompt=PROMPT):
    """Read a reply that consists of an object with these scores and ranking."""
    said = {"scores": scores} | ({} if order is None else {"best_to_worst": order})
    return PROFILE.parse_reply(
        Reply("Analysis.\n" + json.dumps(said), finish_reason="stop"), prompt
    )


@given(st.lists(st.text("BCDFGHK23456789 ", max_size=40), min_size=2, max_size=32), st.randoms())
def test_no_text_holds_a_label(responses, rng):
    """Labels differ, occur in no response, and are others in another order."""
    prompt = ListwisePrompt([("user", "Why?")], tuple(responses))
    labels = list_labels(prompt)
    assert len(set(labels)) == len(responses)
    assert not any(label in text for label in labels for text in responses)
    message = PROFILE.render_messages(prompt)[0]["content"]
    assert all(f'"{label}": <1 to 10>' in message for label in labels)


def test_each_order_has_its_own_labels():
    """A response cannot learn its label from another call."""
    turned = ListwisePrompt(PROMPT.conversation, PROMPT.responses[::-1])
    assert not set(list_labels(PROMPT)) & set(list_labels(turned))


@given(st.lists(st.integers(1, 10), min_size=2, max_size=12), st.randoms())
def test_every_ranking_comes_back(values, rng):
    """Grades are within 1 and 5, in the order of the ranking, and near in ties."""
    prompt = ListwisePrompt([], tuple(f"r{number}" for number in range(len(values))))
    labels = list_labels(prompt)
    places = sorted(range(len(values)), key=lambda place: (-values[place], rng.random()))
    entries = [*zip(labels, values, strict=True)]
    rng.shuffle(entries)
    grades = read(dict(entries), [labels[place] for place in places], prompt).values
    assert all(1 <= grade <= 5 for grade in grades)
    assert [grades[place] for place in places] == sorted(grades, reverse=True)
    for one, other in pairwise(places):
        steps = (grades[one] - grades[other]) * 9.5 / 4
        assert abs(steps - (values[one] - values[other])) < 0.5


def test_a_ranking_breaks_ties_and_its_absence_does_not_matter():
    """Equal scores differ by the ranking; without one they are equal."""
    ranked = read({A: 7, B: 7, C: 2}, [B, A, C]).values
    assert ranked[1] > ranked[0] > ranked[2]
    plain = read({A: 7, B: 7, C: 2}).values
    assert plain[0] == plain[1] > plain[2]


def test_a_label_left_out_leaves_the_others():
    """The reply fails, so that the judge is asked again; its grades are kept with the failure."""
    failure = read({A: 7, C: 2}, [A, C])
    assert isinstance(failure, Failure)
    assert failure.kind is FailureKind.NO_VERDICT
    assert failure.partial.places == (0, 2)
    assert failure.partial.values[0] > failure.partial.values[1]


TWICE = f'{{"scores": {{"{A}": 7, "{B}": 5, "{C}": 2, "{A}": 1}}}}'


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ("All are fine.", FailureKind.NO_VERDICT),
        (json.dumps({"scores": {A: 7, B: 5, C: 2, "ZZ9": 1}}), FailureKind.NO_VERDICT),
        (json.dumps({"scores": {A: 7}}), FailureKind.NO_VERDICT),
        (json.dumps({"scores": {A: 7, B: True, C: 2}}), FailureKind.NO_VERDICT),
        (json.dumps({"scores": {A: 7, B: 11, C: 2}}), FailureKind.OUT_OF_RANGE),
        (json.dumps({"scores": {A: 7, B: float("nan"), C: 2}}), FailureKind.OUT_OF_RANGE),
        (json.dumps({"scores": [7, 5, 2]}), FailureKind.NO_VERDICT),
        (
            json.dumps({"scores": {A: 7, B: 5, C: 2}, "best_to_worst": [A, B]}),
            FailureKind.NO_VERDICT,
        ),
        (
            json.dumps({"scores": {A: 7, B: 5, C: 2}, "best_to_worst": [C, B, A]}),
            FailureKind.AMBIGUOUS,
        ),
        (TWICE, FailureKind.AMBIGUOUS),
        (
            json.dumps({"scores": {A: 7, B: 5, C: 2}}) + json.dumps({"scores": {A: 1, B: 5, C: 2}}),
            FailureKind.AMBIGUOUS,
        ),
        (f"<think>{json.dumps({'scores': {A: 7, B: 5, C: 2}})}", FailureKind.NO_VERDICT),
    ],
)
def test_what_is_no_list_of_scores_counts_for_nothing(reply, kind):
    """Unknown, doubled and single labels, other values and contradictions are failures."""
    failure = PROFILE.parse_reply(Reply(reply, finish_reason="stop"), PROMPT)
    assert failure.kind is kind
    assert failure.partial is None
