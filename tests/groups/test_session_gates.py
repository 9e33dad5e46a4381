"""Gates of sessions: those of their collection bind when they are scored, and a judge finds broken
constraints.
"""

import json

from scored_components import LEXICAL, completions, judge, last_messages, score

KIND = "What is it like for you?"
LONG = "It is because of the tide, and because of the moon. " * 6
CONSTRAINTS = "[components.kept]\nkind = 'rubric'\nset = 'constraints'\n"
GATE = "[total]\nweights = { genrm = 1 }\ngates = { rubric_constraints = 0.5 }\n"


def sessions(*said, constraints=(), **rewards):
    """Make the sessions of one scenario, each with one turn of the counsellor; rewards by
    position.
    """
    scenario = {
        "scenario_id": "x",
        "hard_constraints": list(constraints),
    }
    return [
        {
            "run_id": "r",
            "episode_index": index,
            "scenario": scenario,
            "messages": [
                {"role": "user", "content": "I am tired."},
                {"role": "assistant", "content": text},
            ],
            "reward": rewards.get(
                f"r{index}",
                {
                    "total_reward": 0.5,
                    "components": {},
                },
            ),
        }
        for index, text in enumerate(said)
    ]


def rewards_of(lines):
    """Return what a trainer reads."""
    return [line["reward"]["total_reward"] for line in lines]


def test_a_session_gated_at_collection_is_the_worst_of_its_group(tmp_path):
    """Its reward is 0 and all others are above, whatever the judge prefers, without any gate in the
    settings.
    """
    cases = ["", "[shaping]\ngroup_answer_length_penalty_coeff = 30.0\n", "[components.guard]\n"]
    for more in cases:
        gated = {
            "total_reward": 0.0,
            "components": {"contact": 0.0},
            "gated_by": ["contact"],
        }
        scored = score(tmp_path, sessions(KIND, LONG, f"{LONG} So.", r1=gated), LEXICAL + more)
        rewards = rewards_of(scored.lines)
        assert rewards[1] == 0 < min(rewards[0], rewards[2])
        assert scored.lines[1]["genrm"]["rank"] == 3
        assert scored.lines[1]["genrm"]["total"]["gated_by"] == ["contact"]
        assert "total" not in scored.lines[0]["genrm"]
        assert scored.lines[1]["reward"]["gated_by"] == ["contact"]
        assert scored.metrics["gated"] == 1
        again = score(tmp_path, scored.lines, LEXICAL + more)
        assert rewards_of(again.lines) == rewards


def test_a_judge_says_of_each_constraint_what_became_of_it(tmp_path, judge_server):
    """One call a session; 0 if any is broken, with the words and the turn; the broken one is
    gated.
    """
    lines = sessions(KIND, LONG, constraints=("no tides", "write to anna@example.org"))
    toml = f"redact_pattern = ['email']\n{judge(judge_server)}{CONSTRAINTS}{GATE}"
    scored = score(tmp_path, lines, toml)
    assert scored.component("rubric_constraints") == [1.0, 0.0]
    assert scored.lines[1]["genrm"]["component_notes"]["rubric_constraints"] == [
        {
            "what": "broken:no tides",
            "phrase": LONG[:20],
            "turn": 1,
            "effect": "violation",
        },
        {
            "what": "not touched:write to [EMAIL]",
            "phrase": "",
            "turn": None,
            "effect": "none",
        },
    ]
    assert rewards_of(scored.lines)[1] == 0
    asked = [
        text for text in last_messages(judge_server) if "constraints that the assistant" in text
    ]
    assert len(asked) == 2
    assert all("0. no tides\n1. write to [EMAIL]\n" in text for text in asked)


def test_without_constraints_nothing_is_broken(tmp_path, judge_server):
    """It costs no call and passes the gate; where the judge fails, the session is unscored and not
    innocent.
    """
    toml = f"{judge(judge_server)}{CONSTRAINTS}[total]\nweights = {{ rubric_constraints = 1 }}\n"
    assert score(tmp_path, completions(KIND, LONG), toml).rewards == [1.0, 1.0]
    assert not last_messages(judge_server)
    judge_server.behave(
        fault={"content": json.dumps({"constraints": [{"index": 0, "verdict": "perhaps"}]})}
    )
    failed = score(
        tmp_path, sessions(KIND, LONG, constraints=("no tides",)), toml, max_unscored="1"
    )
    assert rewards_of(failed.lines) == [None, None]
