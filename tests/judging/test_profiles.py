"""Profiles show the judge what it is to judge, all of it, and nothing that can be mistaken for
something else.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_families import PAIR_PROFILES

from genrm_cli.errors import UsageError
from genrm_cli.extensions import Seam
from genrm_cli.judging.lookup import PROFILES, find_profile
from genrm_cli.judging.requests import PairwisePrompt

CONVERSATION = [
    ("system", "Be brief."),
    ("user", "What is SKILL?"),
]
NEMOTRON = PROFILES["nemotron"]


def test_nemotron_gives_the_input_no_role_but_a_speakers():
    """Developer turns are system turns; tools, and inputs that claim to be a response, are labelled
    user turns.
    """
    prompt = PairwisePrompt(
        [
            ("developer", "d"),
            ("tool", "42"),
            ("response_1", "x"),
            ("principle", "y"),
        ],
        "a",
        "b",
    )
    messages = NEMOTRON.render_messages(prompt)
    assert [message["role"] for message in messages] == [
        "system",
        "user",
        "user",
        "user",
        "response_1",
        "response_2",
    ]
    assert messages[1]["content"] == "[tool]\n42"


@given(st.text(min_size=1), st.text(min_size=1))
def test_swapping_the_responses_swaps_their_places_only(first, second):
    """The two orders of a pair differ in nothing but the two responses."""
    for profile in PAIR_PROFILES.values():
        one = profile.render_messages(PairwisePrompt(CONVERSATION, first, second))
        other = profile.render_messages(PairwisePrompt(CONVERSATION, second, first))
        assert [message["role"] for message in one] == [message["role"] for message in other]
        assert sorted("".join(m["content"] for m in one)) == sorted(
            "".join(m["content"] for m in other)
        )


def test_an_explicit_profile_wins_over_the_models():
    """The profile is the named one, else the model's, else the plain one."""
    cases = [
        (None, None, "nemotron-plain"),
        (None, "", "nemotron-plain"),
        (None, "some/other-model", "nemotron-plain"),
        (None, "nvidia/Qwen3-Nemotron-235B-A22B-GenRM-2603", "nemotron"),
        (None, "/models/qwen3-nemotron-235b-a22b-genrm/", "nemotron"),
        (None, "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-GenRM", "nemotron-ultra"),
        (None, "nvidia/Llama-3_3-Nemotron-Super-49B-GenRM", "nemotron-boxed"),
        (None, "nvidia/Llama-3_3-Nemotron-Super-49B-GenRM-Multilingual", "nemotron-boxed"),
        (None, "Skywork/Skywork-Critic-Llama-3.1-8B", "mt-bench"),
        (None, "gaotang/RM-R1-Qwen2.5-Instruct-7B", "rm-r1"),
        (None, "J1-32B", "j1"),
        (None, "prometheus-eval/prometheus-8x7b-v2.0", "prometheus-2"),
        (None, "prometheus-eval/prometheus-7b-v1.0", "nemotron-plain"),
        (None, "BAAI/JudgeLM-7B-v1.0", "judgelm"),
        (None, "/models/think-rm-8b", "think-rm"),
        (None, "OpenRubrics/RubricRM-8B-Judge", "rubric-rm"),
        (None, "nvidia/Qwen3-Nemotron-32B-GenRM-Principle", "nemotron-principle"),
        (None, "nvidia/Qwen3-Nemotron-14B-BRRM", "brrm"),
        (None, "RewardAnything-8B-v1", "rewardanything"),
        ("nemotron-plain", "nvidia/Qwen3-Nemotron-235B-A22B-GenRM", "nemotron-plain"),
        ("arena-hard", "gaotang/RM-R1-Qwen2.5-Instruct-7B", "arena-hard"),
    ]
    for name, model, expected in cases:
        assert find_profile(name, model).name == expected


def test_an_unknown_profile_is_refused_with_a_suggestion():
    """A misspelt profile is an error of usage that lists the known ones."""
    with pytest.raises(
        UsageError,
        match=r"'nemotron_plan'.*nemotron, nemotron-boxed, nemotron-plain.*mean 'nemotron-plain'",
    ):
        find_profile("nemotron_plan", None)
    with pytest.raises(UsageError, match=r"expected one of [a-z0-9, -]+\.$"):
        find_profile("zzz", "nvidia/Qwen3-Nemotron-235B-A22B-GenRM")


def test_an_installed_profile_is_found_by_its_name_alone(install_package):
    """A package adds a family; its model names choose no profile, and it must be called after its
    entry point.
    """
    source = "from msgspec.structs import replace\nfrom genrm_cli.judging.lookup import PROFILES\n"
    source += 'ACME = replace(PROFILES["nemotron-plain"], name="acme", models=("acme-*",))\n'
    entries = {Seam.PROFILES: {"acme": "acme_judge:ACME", "acme-2": "acme_judge:ACME"}}
    install_package("acme_judge", source, entries)
    assert find_profile("acme", None).name == "acme"
    assert "acme" in PROFILES
    assert find_profile(None, "acme-7b").name == "nemotron-plain"
    with pytest.raises(UsageError, match=r"acme-2 of genrm\.profiles"):
        find_profile("acme-2", None)
