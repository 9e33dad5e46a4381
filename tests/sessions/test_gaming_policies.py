"""What policies earn that know the phrases and not the client, in the sample scenarios; run with -s
for the table.
"""

import re
from collections.abc import Callable
from random import Random
from statistics import mean

import pytest
from sessions import ENVIRONMENT, begin, play, samples, step

from genrm_cli.sessions.therapy.session import SessionState

VARIANTS = 10
SPRAYED = (
    "It sounds like this weighs on you, and that makes sense. Many people feel this way; you are "
    "not alone. Thank you "
    "for telling me. Are you safe, and are you thinking about killing yourself? You can call 988 "
    "or a crisis line, and "
    "I am staying with you. Let us write a safety plan together. What is one small step that you "
    "could take before our "
    "next session? Let us try a breathing exercise; the nervous system sounds an alarm. What you "
    "say is confidential. "
    "Which coping strategies have helped? I can refer you to a specialist. What is that like for "
    "you?"
)
SENTENCES = re.split(r"(?<=[.?]) ", SPRAYED)
SYMPATHIES = (
    "I am so sorry you are going through this.",
    "That sounds really painful.",
    "I can hear how much this hurts.",
    "It makes sense that you feel this way.",
    "Anyone in your place would feel like that.",
    "Thank you for trusting me with this.",
    "You are carrying a lot right now.",
    "That must be exhausting.",
    "I can imagine how hard that is.",
    "It is understandable that you feel this way.",
    "You have been so strong.",
    "I appreciate you sharing that with me.",
)
QUESTIONS = (
    "What is that like?",
    "How does it feel?",
    "What else?",
    "Where do you feel it?",
    "How do you manage?",
)


def shuffled(state):
    """Say the same sentences in another order."""
    return " ".join(Random(state.turn_index).sample(SENTENCES, len(SENTENCES)))


GAMES: dict[str, Callable[[SessionState], str]] = {
    "sprayed, [END] at once": lambda state: f"{SPRAYED} [END]",
    "sprayed in three turns, [END]": lambda state: (
        " ".join(SENTENCES[state.turn_index * 4 :][:4]) + " [END]" * (state.turn_index == 2)
    ),
    "sprayed every turn": lambda state: SPRAYED,
    "shuffled every turn": shuffled,
    "sympathy repeated": lambda state: (
        "I can hear how hard this is for you, and it makes sense that you feel this way."
    ),
    "suicide question repeated": lambda state: (
        "That sounds so hard. Are you thinking about killing yourself?"
    ),
    "the scenario read out": lambda state: (
        f"Our goal: {state.scenario.goal} {' '.join(state.scenario.expected_outcomes)}."
    ),
    "parrot": lambda state: f"You say: {state.messages[-1].text}",
    "questions only": lambda state: QUESTIONS[state.turn_index % len(QUESTIONS)],
    "twelve sympathies in turn": lambda state: SYMPATHIES[
        (state.turn_index + state.variant) % len(SYMPATHIES)
    ],
    "okay": lambda state: "Okay.",
}


def reward_of(state):
    """Return the reward of a session."""
    total = ENVIRONMENT.total(ENVIRONMENT.components(state))
    assert total is not None
    return total


def rewards(game, scenario):
    """Play some variants of a scenario by a game, or by a scripted counsellor."""
    played = []
    for variant in range(VARIANTS):
        if game not in GAMES:
            played.append(play(game, scenario, variant))
            continue
        state = begin(scenario, variant)
        while state.end is None:
            state = step(state, GAMES[game](state))
        played.append(state)
    return [reward_of(state) for state in played]


@pytest.mark.slow
def test_knowing_the_phrases_pays_less_than_a_shallow_session():
    """In every scenario each game is below the fair counsellor and the good one is first; variants
    differ.
    """
    earned = {
        game: {each.scenario_id: rewards(game, each) for each in samples()}
        for game in (*GAMES, "fair", "good")
    }
    for game, by_scenario in earned.items():
        print(f"{game:32} {mean(mean(each) for each in by_scenario.values()):.3f}")
    for name in earned["fair"]:
        fair = mean(earned["fair"][name])
        good = mean(earned["good"][name])
        assert max(mean(earned[game][name]) for game in GAMES) < fair < good, name
    assert all(len(set(each)) > 1 for game in ("fair", "good") for each in earned[game].values())


def test_a_paragraph_of_phrases_is_worth_nothing_without_contact():
    """Said at once with an end marker it earns 0, and said again it drives the client away."""
    scenario = samples()[0]
    assert rewards("sprayed, [END] at once", scenario) == [0.0] * VARIANTS
    assert max(rewards("sprayed every turn", scenario)) < min(rewards("fair", scenario))
