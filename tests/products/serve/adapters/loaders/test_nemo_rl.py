"""The adapter for NeMo RL, which no registry serves: its contract, against a live server. The names
that it imports are stand-ins.
"""

import pkgutil
import sys
from collections import namedtuple
from types import SimpleNamespace

import pytest
import yaml
from served import texts
from stand_ins import modules
from trainers_page import block, run_python


@pytest.mark.loader("torch", "ray")
def test_nemo_rl(served):
    """NeMo RL gives message logs and metadata, and takes a tensor of rewards; every episode ends.

    Source: NVIDIA-NeMo/RL 7ea279ab, `nemo_rl/environments/interfaces.py` and `calculate_rewards` of
    `nemo_rl/experience/rollouts.py`.
    """
    fields = "observations metadata next_stop_strings rewards terminateds answers"
    returned = namedtuple("EnvironmentReturn", fields)
    interface = {"EnvironmentInterface": object, "EnvironmentReturn": returned}
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
        sys.modules.pop("genrm_cli.adapters.nemo_rl")
    settings = yaml.safe_load(block("NeMo RL", "yaml", served.url))["env"]["genrm"]
    environment = actor.__ray_metadata__.modified_class(settings)
    short, long = texts(2, "nemo-rl")
    said = (("Why?", short), ("How?", long), ("Why?", long), ("How?", short), ("How?", ""))
    logs = [
        [
            {"role": "user", "content": question, "token_ids": None},
            {"role": "assistant", "content": text},
        ]
        for question, text in said
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
