"""What the key of a question depends on, and what it does not."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from opened_judge import unopened_judge

from genrm_cli.judging.lookup import PROFILES
from genrm_cli.judging.requests import PairwisePrompt

EXHIBIT = PairwisePrompt([("user", "Why?")], "A word.", "A full answer.", "Be kind.")


def asked_of(prompt=EXHIBIT, judge_idx=0, **judge):
    """Return the key of a question to a judge with these settings."""
    return unopened_judge(**judge).prepare(prompt, judge_idx).key


def test_what_changes_the_answer_changes_the_key():
    """Texts, their order, principle, repeat, model, judge, profile and its version, and sampling
    are all in the key.
    """
    cases = [
        {"judge_idx": 1},
        {"model": "n"},
        {"judge_id": "the one in Oslo"},
        {"profile": PROFILES["nemotron-plain"]},
        {"profile": replace(PROFILES["nemotron"], version=99)},
        {"profile": replace(PROFILES["nemotron"], name="nemotron+nemo-gym")},
        {"given": {"temperature": 0.0}},
        {"given": {"top_p": 0.5}},
        {"given": {"max_tokens": 100}},
        {"prompt": replace(EXHIBIT, principle=None)},
        {"prompt": replace(EXHIBIT, principle="Be short.")},
        {"prompt": replace(EXHIBIT, response_1="A full answer.", response_2="A word.")},
        {"prompt": replace(EXHIBIT, response_2="A full answer. ")},
        {"prompt": replace(EXHIBIT, conversation=[("user", "Why not?")])},
        {"prompt": replace(EXHIBIT, conversation=[("system", "Why?")])},
        {"prompt": replace(EXHIBIT, conversation=[("user", "Why?"), ("assistant", "")])},
    ]
    for changes in cases:
        assert asked_of(**changes) != asked_of()


@given(
    st.lists(
        st.tuples(st.sampled_from(["user", "assistant"]), st.text('ab"\\\n,[]', max_size=4)),
        max_size=3,
    )
)
def test_no_two_conversations_share_a_key(conversation):
    """Texts cannot be arranged so that one question looks like another."""
    other = [*conversation, ("user", "")]
    assert asked_of(replace(EXHIBIT, conversation=conversation)) != asked_of(
        replace(EXHIBIT, conversation=other)
    )
