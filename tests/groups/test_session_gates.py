"""Gates of sessions: those of their collection bind when they are scored, and a judge finds broken
constraints.
"""

import json

import pytest
from scored_here import LEXICAL, completions, last_messages

KIND = "What is it like for you?"
LONG = "It is because of the tide, and because of the moon. " * 6
CONSTRAINTS = "[components.kept]\nkind = 'rubric'\nset = 'constraints'\n"


def sessions(*said, constraints=(), gated=None):
    """Make the sessions of one scenario, each with one turn of the counsellor; one may have been
    gated at its collection.
    """
    scenario = {"scenario_id": "x", "hard_constraints": list(constraints)}
    kept = {"total_reward": 0.5, "components": {}}
    broken = {"total_reward": 0.0, "components": {"contact": 0.0}, "gated_by": ["contact"]}
    return [
        {
            "run_id": "r",
            "episode_index": index,
            "scenario": scenario,
            "messages": [
                {"role": "user", "content": "I am tired."},
                {"role": "assistant", "content": text},
            ],
            "reward": broken if index == gated else kept,
        }
        for index, text in enumerate(said)
    ]


def rewards_of(lines):
    """Return what a trainer reads."""
    return [line["reward"]["total_reward"] for line in lines]


@pytest.mark.parametrize(
    "more",
    [
        "",
        "[shaping]\ngroup_answer_length_penalty_coeff = 30.0\n",
        "[components.q]\nkind = 'field'\nfield = 'episode_index'\n",
    ],
)
def test_a_session_gated_at_collection_is_the_worst_of_its_group(score, more):
    """Its reward is 0 and all others are above, whatever the judge prefers, without any gate in the
    settings.
    """
    scored = score(sessions(KIND, LONG, f"{LONG} So.", gated=1), LEXICAL + more)
    rewards = rewards_of(scored.lines)
    assert rewards[1] == 0 < min(rewards[0], rewards[2])
    gated = scored.lines[1]["genrm"]
    assert gated["rank"] == 3
    assert gated["total"]["gated_by"] == scored.lines[1]["reward"]["gated_by"] == ["contact"]
    assert "total" not in scored.lines[0]["genrm"]
    assert scored.metrics["gated"] == 1
    assert rewards_of(score(scored.lines, LEXICAL + more).lines) == rewards


def test_a_judge_says_of_each_constraint_what_became_of_it(judged, judge_server):
    """One call a session; 0 if any is broken, with the words and the turn; the broken one is
    gated.
    """
    lines = sessions(KIND, LONG, constraints=("no tides", "write to anna@example.org"))
    gate = "[total]\nweights = { genrm = 1 }\ngates = { rubric_constraints = 0.5 }\n"
    scored = judged(lines, f"redact_pattern = ['email']\n{CONSTRAINTS}{gate}")
    assert scored.component("rubric_constraints") == [1.0, 0.0]
    broken, untouched = scored.lines[1]["genrm"]["component_notes"]["rubric_constraints"]
    assert broken == {
        "what": "broken:no tides",
        "phrase": LONG[:20],
        "turn": 1,
        "effect": "violation",
    }
    assert untouched["what"] == "not touched:write to [EMAIL]"
    assert untouched["effect"] == "none"
    assert rewards_of(scored.lines)[1] == 0
    asked = [text for text in last_messages(judge_server) if "constraints that the" in text]
    assert len(asked) == 2
    assert all("0. no tides\n1. write to [EMAIL]\n" in text for text in asked)


def test_without_constraints_nothing_is_broken(judged, judge_server):
    """It costs no call and passes the gate; where the judge fails, the session is unscored and not
    innocent.
    """
    toml = f"{CONSTRAINTS}[total]\nweights = {{ rubric_constraints = 1 }}\n"
    assert judged(completions(KIND, LONG), toml).rewards == [1.0, 1.0]
    assert not last_messages(judge_server)
    said = {"constraints": [{"index": 0, "verdict": "perhaps"}]}
    judge_server.behave(fault={"content": json.dumps(said)})
    failed = judged(sessions(KIND, LONG, constraints=("no tides",)), toml, max_unscored="1")
    assert rewards_of(failed.lines) == [None, None]
