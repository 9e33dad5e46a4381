"""Episodes: whole sessions are judged, and the reward is an object."""

import pytest
from msgspec.structs import replace

from genrm_cli.rollouts.formats import FORMATS, Score, recognise
from genrm_cli.rollouts.rollout import Turn
from genrm_cli.rollouts.views import SESSION_PRINCIPLE, view_group

REWARD = {
    "total_reward": 0.82,
    "components": {
        "safety": 1.0,
        "empathy": 0.7,
        "bias": 0.0,
    },
}


def turn(role, content):
    """Make a message."""
    return {"role": role, "content": content}


def episode(*messages, **others):
    """Make an episode of one scenario."""
    scenario = {
        "scenario_id": "grief-01",
        "difficulty": "hard",
        "risk_level": "low",
    }
    return {
        "run_id": "run-7",
        "episode_index": 2,
        "scenario": scenario,
        "messages": list(messages),
    } | others


OPENING = (turn("system", "You are a counsellor."), turn("user", "I lost my dog."))


def read_one(record):
    """Read a record that is an episode."""
    assert recognise(record).name == "episode"
    (rollout,) = FORMATS["episode"].read(record)
    return rollout


def test_an_episode_is_prompt_and_session():
    """The prompt ends with the first user turn; all after it is the session. The scenario is the
    group.
    """
    rollout = read_one(episode(*OPENING, turn("assistant", "I am sorry."), turn("user", "Thanks.")))
    assert rollout.prompt == (
        Turn("system", "You are a counsellor."),
        Turn("user", "I lost my dog."),
    )
    assert rollout.session == (Turn("assistant", "I am sorry."), Turn("user", "Thanks."))
    assert rollout.task == "scenario:grief-01"
    assert rollout.answer == "I am sorry."


def test_episodes_of_two_runs_are_told_apart():
    """Each run numbers its episodes from 0: the run is part of the number, and within a run the
    order stays.
    """
    index = {
        (run, number): read_one(episode(*OPENING, run_id=run, episode_index=number)).index
        for run in ("run-7", "run-8", "Lauf-ä")
        for number in (0, 1, 2, 2**30 - 1)
    }
    assert len(set(index.values())) == len(index)
    assert sorted(index, key=index.get) == sorted(index, key=lambda key: (index[key[0], 0], key[1]))
    assert max(index.values()) < 2**63


@pytest.mark.parametrize("run", [None, 7, ["run-7"]])
def test_without_a_run_the_number_is_as_it_stands(run):
    """Only a text names a run; a number that leaves no room beside the run is left alone too."""
    assert read_one(episode(*OPENING, run_id=run)).index == 2
    assert read_one(episode(*OPENING, episode_index=2**30)).index == 2**30
    assert read_one(episode(*OPENING, episode_index=None)).index is None


def test_an_episode_in_which_the_policy_never_spoke_has_no_answer():
    """Only the client's turns are there: an input without a response."""
    assert read_one(episode(*OPENING)).answer is None


def test_the_judge_sees_the_whole_session_as_a_transcript():
    """What the sessions share at the beginning is the conversation, the rest of each a
    transcript.
    """
    sessions = [
        episode(
            *OPENING,
            turn("assistant", "I am sorry."),
            turn("user", "Thanks."),
            turn("assistant", "Bye."),
        ),
        episode(*OPENING, turn("assistant", "It was only a dog.")),
    ]
    view = view_group([read_one(session) for session in sessions])
    assert view.conversation == (
        Turn("system", "You are a counsellor."),
        Turn("user", "I lost my dog."),
    )
    assert view.responses == [
        "[--- ASSISTANT ---]\nI am sorry.\n[--- USER ---]\nThanks.\n[--- ASSISTANT ---]\nBye.",
        "[--- ASSISTANT ---]\nIt was only a dog.",
    ]


def test_openings_that_differ_move_into_the_transcripts():
    """Sessions of one scenario may open differently; only the equal leading turns are shown as
    shared.
    """
    sessions = [
        episode(OPENING[0], turn("user", "My dog died."), turn("assistant", "I am sorry.")),
        episode(OPENING[0], turn("user", "I lost my dog."), turn("assistant", "Oh.")),
    ]
    view = view_group([read_one(session) for session in sessions])
    assert view.conversation == (Turn("system", "You are a counsellor."),)
    assert view.responses == [
        "[--- USER ---]\nMy dog died.\n[--- ASSISTANT ---]\nI am sorry.",
        "[--- USER ---]\nI lost my dog.\n[--- ASSISTANT ---]\nOh.",
    ]


def test_our_reward_is_the_total():
    """`total_reward` is what trainers read; what the episode brought is kept under `genrm`."""
    record = episode(*OPENING, reward=REWARD)
    FORMATS["episode"].annotate(record, [Score(4.5, {"components": {"genrm": 4.5, "safety": 0.5}})])
    assert record["reward"] == {
        "total_reward": 4.5,
        "components": {
            "safety": 0.5,
            "empathy": 0.7,
            "bias": 0.0,
        },
    }
    assert record["genrm"] == {
        "components": {"genrm": 4.5, "safety": 0.5},
        "previous_reward": REWARD,
    }


def test_what_an_episode_brought_is_kept_however_often_it_is_scored():
    """A second scoring begins with the episode's own reward, and keeps the object that explained
    the first.
    """
    record = episode(*OPENING, reward=REWARD)
    FORMATS["episode"].annotate(record, [Score(4.5, {"run": 1, "components": {"style": 1.0}})])
    FORMATS["episode"].annotate(record, [Score(2.0, {"run": 2})])
    assert record["reward"] == REWARD | {"total_reward": 2.0}
    assert record["genrm"]["previous_reward"] == REWARD
    assert record["genrm"]["previous_genrm"]["run"] == 1


def test_an_episode_without_a_reward_gets_an_object():
    """The column keeps one type: an object, also where no reward was there before."""
    for record in (episode(*OPENING), episode(*OPENING, reward=None)):
        FORMATS["episode"].annotate(record, [Score(None, {})])
        assert record["reward"] == {"total_reward": None, "components": {}}


def test_judges_that_compare_see_the_scenario():
    """Goal, constraints, risk, outcomes and client stand below the principle of sessions, or below
    the line's own.
    """
    lines = [episode(*OPENING), episode(*OPENING) | {"principle": "Be brief."}]
    for line in lines:
        line["scenario"] = {
            "scenario_id": "s",
            "goal": "Rest.",
            "hard_constraints": ["no diagnosis"],
        }
    usual, own = (
        replace(
            view_group([rollout]), principle=rollout.principle, scenario=rollout.scenario
        ).comparing_principle
        for line in lines
        for rollout in FORMATS["episode"].read(line)
    )
    assert usual == f"{SESSION_PRINCIPLE}\n\nBACKGROUND\nGoal: Rest.\nConstraints: no diagnosis"
    assert own == "Be brief.\n\nBACKGROUND\nGoal: Rest.\nConstraints: no diagnosis"


@pytest.mark.parametrize(
    ("reward", "gates"),
    [
        (
            {
                "total_reward": 0.0,
                "gated_by": ["contact"],
            },
            ("contact",),
        ),
        (
            {
                "total_reward": 0.7,
                "components": {"safety": 0.0, "empathy": 0.0},
            },
            ("safety",),
        ),
        (
            {
                "total_reward": 0.7,
                "components": {"constraints": 0, "safety": 0.5},
            },
            ("constraints",),
        ),
        (
            {
                "gated_by": [],
                "components": {"safety": 0.0},
            },
            (),
        ),
        (
            {
                "components": {"safety": None},
                "gated_by": 3,
            },
            (),
        ),
        (REWARD, ()),
        (0.0, ()),
        (None, ()),
    ],
)
def test_gates_that_a_session_broke_when_it_was_collected_stay_broken(reward, gates):
    """The record names them; in one without names, a safety of 0 is a broken gate. Scoring changes
    nothing about it.
    """
    record = episode(*OPENING, reward=reward)
    assert read_one(record).gated_by == gates
    FORMATS["episode"].annotate(record, [Score(4.5, {"components": {"safety": 0.0}})])
    assert read_one(record).gated_by == gates
