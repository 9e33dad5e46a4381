"""What the key of a question depends on, and what it does not."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from genrm_cli.judging.lookup import PROFILES
from genrm_cli.judging.pacing.policy import Budget, CallPolicy
from genrm_cli.judging.pacing.pool import EndpointPool
from genrm_cli.judging.remote import RemoteJudge
from genrm_cli.judging.requests import PairwisePrompt
from genrm_cli.metrics.event import ignore_event

EXHIBIT = PairwisePrompt([("user", "Why?")], "A word.", "A full answer.", "Be kind.")


def asked_of(
    prompt=EXHIBIT,
    judge_idx=0,
    *,
    profile=PROFILES["nemotron"],
    model="m",
    judge_id=None,
    sampling=None,
    call_timeout_s=600.0,
    retries=5,
    max_calls=None,
):
    """Return the key of a question to a judge with these settings."""
    policy = CallPolicy(call_timeout_s, 2 * call_timeout_s, retries, retries)
    pool = EndpointPool([], 10, ignore_event)
    budget = Budget(max_calls)
    judge = RemoteJudge(
        pool, profile, policy, budget, model=model, given=sampling or {}, judge_id=judge_id
    )
    return judge.prepare(prompt, judge_idx).key


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
        {"sampling": {"temperature": 0.0}},
        {"sampling": {"top_p": 0.5}},
        {"sampling": {"max_tokens": 100}},
        {"prompt": replace(EXHIBIT, principle=None)},
        {"prompt": replace(EXHIBIT, principle="Be short.")},
        {"prompt": replace(EXHIBIT, response_1="A full answer.", response_2="A word.")},
        {"prompt": replace(EXHIBIT, response_2="A full answer. ")},
        {"prompt": replace(EXHIBIT, conversation=[("user", "Why not?")])},
        {"prompt": replace(EXHIBIT, conversation=[("system", "Why?")])},
        {
            "prompt": replace(
                EXHIBIT,
                conversation=[
                    ("user", "Why?"),
                    ("assistant", ""),
                ],
            )
        },
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
