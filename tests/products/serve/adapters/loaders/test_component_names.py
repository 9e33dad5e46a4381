"""Names of a user's components beside ours, where trainers read both."""

import asyncio
import sys

from served import serving
from stand_ins import modules

BEST_FIRST = ["a b c d e f", "a b c d", "a b", "a"]


def test_a_component_is_returned_by_its_own_name(genrm):
    """TRL's `returns="rank"` is the component `rank`, in which more is better, not the rank."""
    with (
        serving(genrm, "--offline", "--component", "rank") as served,
        modules(torch__distributed={"is_available": lambda: False}),
    ):
        from genrm_cli.adapters.trl import GenrmReward

        def ask(returns):
            reward = GenrmReward(served.url, returns=returns)
            return asyncio.run(reward(["Why?"] * 4, BEST_FIRST))

        ranks = ask("rank")
        rewards = ask("rewards")
        sys.modules.pop("genrm_cli.adapters.trl")
    assert ranks.index(max(ranks)) == rewards.index(max(rewards))
    assert ranks == [1.0, 2 / 3, 1 / 3, 0.0]
