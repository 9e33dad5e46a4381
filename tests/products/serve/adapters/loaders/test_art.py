"""ART's own gathering of trajectory groups, with the hook of the page about trainers."""

import pytest
from served import texts
from trainers_page import block, run_python

pytestmark = pytest.mark.loader("art")


def test_each_gathered_group_is_compared(served, judge_server, monkeypatch):
    """`after_each` gives each trajectory the reward among those of its group, also where it used a
    tool; a group of one is dropped, as there is nothing to compare.
    """
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # off the network
    import art

    short, long = texts(2, "art")
    function = {"name": "look_up", "arguments": '{"word": "sky"}'}
    call = {"id": "c1", "type": "function", "function": function}
    asked = {"role": "user", "content": "Why is the sky blue?"}

    async def group(*answers):
        return art.TrajectoryGroup(
            [art.Trajectory(messages_and_choices=[asked, *turns]) for turns in answers]
        )

    answers = [[{"role": "assistant", "content": text}] for text in (long, short, "")]
    answers[0] = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "It is blue."},
        *answers[0],
    ]
    groups = [group(*answers), group(answers[1])]
    pasted = run_python(block("ART", "python", served.url), groups=groups)
    [compared] = pasted["groups"]
    better, worse, blank = [trajectory.reward for trajectory in compared]
    assert worse < blank < better
    assert blank == pytest.approx((better + worse) / 2)
    assert "look_up" in str(judge_server.stats()["recent"])
