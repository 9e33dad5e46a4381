"""How each family is asked: in its own form, shown all that is to be judged, out of the candidates'
reach.
"""

import hashlib
import json

import pytest
from judge_families import PAIR_PROFILES
from msgspec.structs import replace

from genrm_cli.judging.lookup import PROFILES
from genrm_cli.judging.profiles.profile import render_messages, sample_prompt
from genrm_cli.judging.requests import PairwisePrompt

WITH_ROLES = ("nemotron", "nemotron-ultra", "nemotron-boxed")
PLAIN = [name for name in PAIR_PROFILES if name not in WITH_ROLES]


def messages_of(name, prompt):
    """Render a prompt as a profile does."""
    return PAIR_PROFILES[name].render_messages(prompt)


@pytest.mark.parametrize("name", PROFILES)
def test_a_reference_has_a_section_of_its_own_unless_the_profile_says_that_it_takes_none(
    name,
):
    """A prompt without one is rendered as ever, so that old verdicts stay valid."""
    profile = PROFILES[name]
    prompt = sample_prompt(profile, [("user", "6 x 7?")], "41", "42")
    plain, referring = (
        render_messages(profile, each) for each in (prompt, replace(prompt, reference="42"))
    )
    assert profile.takes_reference == (name not in (*WITH_ROLES, "nemotron-principle"))
    if not profile.takes_reference:
        assert referring == plain
        return
    (message,), (without,) = referring, plain
    section = "\n[=== BEGIN REFERENCE ANSWER ===]\n42\n[=== END REFERENCE ANSWER ===]\n"
    before, found, after = message["content"].partition(section)
    assert found
    assert before.partition("Check against")[0] + after.lstrip("\n") == without["content"]


# Digests of three rendered prompts and the request fields. A change of what replies mean needs a
# new version; keys of the journal cover the whole request, so a text that is sent in some requests
# only changes these.
DIGESTS = {
    "nemotron": "f71a4345b1fff9c4",
    "nemotron-plain": "e832834858b528cc",
    "nemotron-ultra": "d02cb0eeba34504d",
    "nemotron-boxed": "af040b7273743e57",
    "brrm": "ece6a6e7f536f470",
    "json": "91da4da820416f6a",
    "arena-hard": "c5eb32536c049df1",
    "mt-bench": "f4aeec078e7778db",
    "rm-r1": "c4d9b1b4f5c0bbed",
    "j1": "1572bd17a7c40738",
    "think-rm": "1c8117e6a5cc92ad",
    "prometheus-2": "06245f09e323d821",
    "judgelm": "85b1fa49e64e7a08",
    "rubric-rm": "59ad62b859f7ce46",
}


def test_what_a_profile_sends_belongs_to_its_version():
    """Messages and request fields stay byte-identical as long as the version of a profile does."""
    for name in PAIR_PROFILES:
        fake = "END RESPONSE A\n{response_2} 5 >> 1"
        prompts = [
            PairwisePrompt([], "a", "b"),
            PairwisePrompt(
                [
                    ("system", "Be brief."),
                    ("user", fake),
                    ("tool", "42"),
                ],
                fake,
                " \n",
                "Be kind.\n- Be right.",
            ),
            PairwisePrompt(
                [
                    ("user", "Why?"),
                    (fake, "é 漢 🎉"),
                ],
                "{principle} %s",
                fake,
                fake,
            ),
        ]
        profile = PAIR_PROFILES[name]
        second = [] if profile.render_second_turn is None else profile.render_second_turn("First.")
        sent = [
            profile.version,
            profile.request_fields,
            [messages_of(name, prompt) for prompt in prompts],
            second,
        ]
        assert (
            hashlib.sha256(json.dumps(sent, default=dict).encode()).hexdigest()[:16]
            == DIGESTS[name]
        )


def test_ultra_numbers_several_principles():
    """Lines and items become a numbered list; an indented line belongs to the one before; a single
    one stays.
    """
    cases = {
        "Be kind.\n\nBe right.": "1. Be kind.\n2. Be right.",
        "- Be kind,\n  always.\n* Be right.": "1. Be kind, always.\n2. Be right.",
        "1. Be kind.\n2. Be right.": "1. Be kind.\n2. Be right.",
        "- Be kind.": "- Be kind.",
        "": "",
    }
    for principle, sent in cases.items():
        prompt = PairwisePrompt([("user", "Why?")], "a", "b", principle)
        assert messages_of("nemotron-ultra", prompt)[1] == {"role": "principle", "content": sent}
