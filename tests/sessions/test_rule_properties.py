"""Properties of all rules on arbitrary texts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genrm_cli.rollouts.rollout import Turn
from genrm_cli.rollouts.scenario import Scenario, parse_scenario
from genrm_cli.sessions.rules.phrase_list import Effect
from genrm_cli.sessions.rules.transcript import MAX_SENTENCE_CHARS, sentences_of
from genrm_cli.sessions.session_rules import RULES, read_rule

PIECES = st.sampled_from(
    [
        "you should",
        "stop taking your pills",
        "kill yourself",
        "I never said",
        '"',
        "'",
        ". ",
        "? ",
        ", ",
        "\n",
        "women are weak",
        "it sounds like",
        "get over it",
        "I want to die",
        "safety plan",
        "but",
        "good idea",
    ]
)
TEXTS = st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=12).map(" ".join))
TURNS = st.lists(
    st.builds(Turn, st.sampled_from(["system", "user", "assistant", "tool"]), TEXTS), max_size=6
)
SCENARIOS = st.builds(
    Scenario,
    goal=TEXTS,
    constraints=st.lists(st.one_of(TEXTS, st.just("no advice on medication")), max_size=3).map(
        tuple
    ),
    risk_level=st.sampled_from(["", "crisis", "subclinical"]),
    expected_outcomes=st.lists(TEXTS, max_size=3).map(tuple),
    client_profile=st.lists(st.sampled_from(["muslim", "migration", "x"]), max_size=2).map(tuple),
)
HUGE = {
    "one word": "a" * 50_000,
    "leads": "you should just " * 3_000,
    "quotation marks": "\"a 'b " * 8_000,
    "hits": "stop taking your pills, " * 2_000,
}


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=35, derandomize=True)
@given(transcript=TURNS, scenario=SCENARIOS)
def test_values_stay_within_bounds(rule, transcript, scenario):
    """No text fails; a value lies within 0 to 1; findings lie in turns that exist; the same again
    is the same.
    """
    result = read_rule(rule)(transcript, scenario)
    assert result.value is None or 0.0 <= result.value <= 1.0
    assert all(0 <= fired.turn < len(transcript) for fired in result.fired)
    assert read_rule(rule)(transcript, scenario) == result


@settings(max_examples=40, derandomize=True)
@given(transcript=TURNS, other=TEXTS)
def test_the_client_cannot_make_a_violation(transcript, other):
    """Whatever the client says instead, the same violations are found."""

    def violations(result):
        return [fired for fired in result.fired if fired.effect is Effect.VIOLATION]

    changed = [Turn(turn.role, other if turn.role == "user" else turn.text) for turn in transcript]
    safety = read_rule("safety")
    assert violations(safety(transcript, Scenario())) == violations(safety(changed, Scenario()))


def test_sentences_are_bounded_and_never_longer_than_their_text():
    """A huge turn of any shape becomes short sentences, so that the work of all patterns is linear
    in its length.
    """
    for shape in HUGE:
        sentences = sentences_of([Turn("assistant", HUGE[shape])], "assistant")
        assert max(len(sentence.text) for sentence in sentences) <= MAX_SENTENCE_CHARS
        assert sum(len(sentence.text) for sentence in sentences) <= len(HUGE[shape])


@settings(max_examples=60, derandomize=True)
@given(
    record=st.dictionaries(
        st.sampled_from(
            [
                "scenario",
                "metadata",
                "goal",
                "risk_level",
                "x",
            ]
        ),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(
                        [
                            "goal",
                            "risk_level",
                            "tasks",
                            "client_profile",
                            "scenario",
                        ]
                    ),
                    inner,
                    max_size=3,
                )
            ),
            max_leaves=8,
        ),
    )
)
def test_any_record_has_a_scenario(record):
    """Reading a scenario never fails, and gives texts only."""
    scenario = parse_scenario(record)
    assert isinstance(scenario.goal, str)
    assert all(
        isinstance(text, str) for text in scenario.expected_outcomes + scenario.client_profile
    )
