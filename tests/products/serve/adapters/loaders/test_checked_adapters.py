"""The adapters for trainers that no registry serves for a CPU: their contracts, against a live
server.

Each docstring names the source of the contract. The names that an adapter imports are stand-ins.
"""

import asyncio
import pkgutil
import sys
from collections import namedtuple
from types import SimpleNamespace

import pytest
import yaml
from served import texts
from stand_ins import modules, prime_rl_algorithm
from trainers_page import block, run_python


@pytest.fixture(autouse=True)
def forget_adapters():
    """Import the adapters anew, so that none keeps a stand-in."""
    yield
    for name in ("nemo_rl", "prime_rl", "skyrl", "trl"):
        sys.modules.pop(f"genrm_cli.adapters.{name}", None)


@pytest.mark.slow
@pytest.mark.loader("torch", "ray")
@pytest.mark.filterwarnings("default")
@pytest.mark.timeout(600)
def test_nemo_rl(served):
    """NeMo RL gives message logs and metadata, and takes a tensor of rewards; every episode ends.

    Source: NVIDIA-NeMo/RL 7ea279ab, `nemo_rl/environments/interfaces.py` and `calculate_rewards` of
    `nemo_rl/experience/rollouts.py`.
    """
    fields = "observations metadata next_stop_strings rewards terminateds answers"
    interface = {
        "EnvironmentInterface": object,
        "EnvironmentReturn": namedtuple("EnvironmentReturn", fields),
    }
    registered = {}
    registry = {}
    with modules(
        nemo_rl__environments__interfaces=interface,
        nemo_rl__environments__utils={"register_env": registered.__setitem__},
        nemo_rl__distributed__ray_actor_environment_registry={
            "ACTOR_ENVIRONMENT_REGISTRY": registry
        },
        nemo_rl__distributed__virtual_cluster={"PY_EXECUTABLES": SimpleNamespace(SYSTEM="python")},
    ):
        run_python(block("NeMo RL", "python", served.url))
        assert registry == {registered["genrm"]: "python"}
        actor = pkgutil.resolve_name(registered["genrm"])
    settings = yaml.safe_load(block("NeMo RL", "yaml", served.url))["env"]["genrm"]
    environment = actor.__ray_metadata__.modified_class(settings)
    short, long = texts(2, "nemo-rl")
    logs = [
        [
            {
                "role": "user",
                "content": question,
                "token_ids": None,
            },
            {"role": "assistant", "content": text},
        ]
        for question, text in (
            ("Why?", short),
            ("How?", long),
            ("Why?", long),
            ("How?", short),
            ("How?", ""),
        )
    ]
    returned = environment.step(logs, [{"principle": "Be long."}] * 5)
    rewards = returned.rewards.tolist()
    assert rewards[0] < rewards[2]
    assert rewards[3] < rewards[4] < rewards[1]
    assert rewards[4] == pytest.approx((rewards[1] + rewards[3]) / 2)
    assert returned.terminateds.tolist() == [1.0] * 5
    assert len(returned.observations) == len(returned.next_stop_strings) == 5
    with pytest.raises(ValueError, match="one sample"):
        environment.step(logs[:2], [{}, {}])


def test_a_typo_in_the_settings_of_an_adapter_is_an_error_at_construction():
    """Trainers construct adapters before they ask the policy for anything."""
    ranks = {"is_available": lambda: False}
    with modules(
        skyrl__train__generators__base={"GeneratorInterface": object}, torch__distributed=ranks
    ):
        from genrm_cli.adapters.skyrl import GenrmGenerator
        from genrm_cli.adapters.trl import GenrmReward
    with pytest.raises(ValueError, match="'meen'"):
        GenrmGenerator(None, None, on_failure="meen")
    with pytest.raises(ValueError, match="on_failure is a reward"):
        GenrmReward(returns="advantages", on_failure=0.0)


def test_prime_rl(served, monkeypatch):
    """prime-rl gives episodes of traces, reads recorded rewards, and takes an advantage for each
    trainable trace.

    Source: PrimeIntellect-ai/prime-rl 559b4477, `src/prime_rl/orchestrator/algo`; verifiers
    a60a606e, `Trace`."""
    algorithm = prime_rl_algorithm(served.url)
    monkeypatch.setenv("GENRM_SERVE_URL", served.url)
    short, long = texts(2, "prime")
    episodes = [episode_of(text) for text in (long, short, "", "broken")]
    episodes[3].traces[0].ok = False
    asyncio.run(algorithm.score_group(episodes))
    first, second, unscored, broken = (episode.traces[0] for episode in episodes)
    assert first.advantage == pytest.approx(-second.advantage)
    assert first.advantage > 0
    assert unscored.rewards == {"genrm": None}
    assert unscored.advantage == 0.0
    assert broken.rewards == {}
    with pytest.raises(ValueError, match="several"):
        asyncio.run(algorithm.score_group([SimpleNamespace(traces=episodes[0].traces * 2)]))


def episode_of(text):
    """Make an episode of one trace: a question and a sampled answer."""
    turns = [
        ("user", "Why?", False),
        ("assistant", text, True),
    ]
    nodes = [
        SimpleNamespace(sampled=sampled, message=Message(role, content))
        for role, content, sampled in turns
    ]
    trace = SimpleNamespace(ok=True, branches=[SimpleNamespace(nodes=nodes)], rewards={})
    trace.record_reward = trace.rewards.__setitem__
    return SimpleNamespace(traces=[trace])


class Message:
    """A message as verifiers keeps it."""

    def __init__(self, role, content):
        self._said = {"role": role, "content": content}

    def model_dump(self, *, exclude_none):
        """Return the message as a dictionary."""
        assert exclude_none
        return self._said
