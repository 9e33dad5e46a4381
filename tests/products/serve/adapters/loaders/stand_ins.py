"""Stand-ins for the few names that adapters take from trainers that cannot be installed on a CPU,
or not at all.

Each has the signatures of the source that its test names.
"""

import sys
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from trainers_page import block, run_python


@contextmanager
def modules(**contents):
    """Let modules be imported for a while; `a__b` stands for `a.b`."""
    made = {}
    for name, names in contents.items():
        parts = name.split("__")
        for depth in range(1, len(parts) + 1):
            module = made.setdefault(".".join(parts[:depth]), ModuleType(".".join(parts[:depth])))
            module.__path__ = []
        vars(module).update(names)
    sys.modules.update(made)
    try:
        yield
    finally:
        for name in made:
            del sys.modules[name]


def prime_rl_algorithm(url, advantages):
    """Return the algorithm of the page about trainers, on stand-ins for prime-rl; it puts the
    advantage of each trace under its id.

    Source: PrimeIntellect-ai/prime-rl 559b4477, `src/prime_rl/orchestrator/algo`.
    """

    def assign(trace, advantage):
        advantages[id(trace)] = advantage

    class GRPO:
        async def score_group(self, episodes):
            rewards = [episode.traces[0].rewards["genrm"].value for episode in episodes]
            for episode, reward in zip(episodes, rewards, strict=True):
                assign(episode.traces[0], reward - sum(rewards) / len(rewards))

    def trainable(episodes):
        pairs = ((episode, trace) for episode in episodes for trace in episode.traces)
        return ((episode, trace) for episode, trace in pairs if trace.ok)

    algorithms: dict[str, Any] = {"grpo": GRPO}
    with modules(
        prime_rl__orchestrator__algo={"ALGORITHM_CLASSES": algorithms},
        prime_rl__orchestrator__algo__base={"iter_trainable_traces": trainable},
        prime_rl__orchestrator__algo__grpo={"GRPOAlgorithm": GRPO},
        prime_rl__orchestrator__algo__routing={"assign_advantages": assign},
    ):
        run_python(block("prime-rl", "python", url))
    sys.modules.pop("genrm_cli.adapters.prime_rl")
    return algorithms["grpo"]()
