"""What stands for a missing reward where a trainer requires a number."""

import pytest
from served import judge_flags, serving

ALONE = "/openrlhf?size=1&on_failure=mean"


def sample(prompt, text):
    """Make a request of OpenRLHF's."""
    return {"query": [prompt + text], "prompts": [prompt], "labels": ["l"]}


@pytest.mark.slow
def test_the_mean_of_all_rewards_survives_a_kill(genrm, judge_server):
    """Before the first reward it is the middle of the judge's scale, and the server says so."""
    flags = (*judge_flags(judge_server.base_url), "--no-probe", "--drain", "0.1s")
    with serving(genrm, *flags) as served:
        assert served.post(ALONE, sample("Q?", "x")).json()["rewards"] == [3.0]
        assert any("middle of the judge's scale" in line for line in served.messages)
        reply = served.group(
            messages="Why?", responses=[{"text": "a"}, {"text": "b c d e"}, {"text": ""}]
        )
        known = [reward for reward in reply["rewards"] if reward is not None]
        served.kill()
    with serving(genrm, *flags) as served:
        (reward,) = served.post(ALONE, sample("R?", "x")).json()["rewards"]
        assert reward == pytest.approx(sum(known) / len(known))
        assert not any("middle" in line for line in served.messages)
