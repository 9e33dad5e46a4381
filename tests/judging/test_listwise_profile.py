"""The profile `listwise`: labels that no text knows, and what is read of a reply."""

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from reply_readers import LABELS, LISTED

from genrm_cli.judging.lookup import PROFILES
from genrm_cli.judging.profiles.families.listwise import list_labels
from genrm_cli.judging.requests import ListwisePrompt, Reply
from genrm_cli.verdicts import Failure, FailureKind

PROFILE = PROFILES["listwise"]
A, B, C = LABELS


def read(scores, order=None, prompt=LISTED):
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
    turned = ListwisePrompt(LISTED.conversation, LISTED.responses[::-1])
    assert not set(LABELS) & set(list_labels(turned))


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
