"""verifiers' own loader, episodes and traces with our environment, against a live server."""

import asyncio
import sys

import pytest
from served import texts
from stand_ins import prime_rl_algorithm
from trainers_page import block

from genrm_cli.adapters.reward_client import MissingRewardError

pytestmark = pytest.mark.loader("verifiers")

_TASKSET = """\
import verifiers.v1 as vf

class Questions(vf.Taskset[vf.Task, vf.TasksetConfig]):
    def load(self):
        yield vf.Task(vf.TaskData(prompt="Why?"))

__all__ = ["Questions"]
"""


@pytest.fixture
def environment(served, tmp_path, monkeypatch):
    """Load the environment by its name, as `vf-eval` and prime-rl do."""
    (tmp_path / "genrm_env.py").write_text(block("verifiers", "python", served.url))
    (tmp_path / "some_questions.py").write_text(_TASKSET)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    from verifiers.v1.configs.env import EnvConfig
    from verifiers.v1.env import Env
    from verifiers.v1.utils.generic import concrete_type
    from verifiers.v1.utils.loaders import environment_class, load_environment

    form = environment_class("some-questions", "genrm-env")
    assert form.__name__ == "GenrmEnv"
    settings = concrete_type(form, EnvConfig, origin=Env)

    def load(**more):
        given = {"id": "genrm-env", "taskset": {"id": "some-questions"}, "n": 3, **more}
        return load_environment(settings.model_validate(given))

    return load


def episode_of(loaded, *given):
    """Return a task, and an episode of attempts at it; one without a text failed before its first
    answer.
    """
    import verifiers.v1 as vf
    from verifiers.v1.graph import MessageNode
    from verifiers.v1.trace import AgentInfo, TraceTask
    from verifiers.v1.types import AssistantMessage, UserMessage

    [task] = loaded.taskset
    about = TraceTask(type="Task", data=task.data)
    traces = []
    for text in given:
        nodes = [MessageNode(message=UserMessage(content=task.data.prompt))]
        if text is not None:
            answer = AssistantMessage(content=text)
            nodes.append(MessageNode(parent=0, message=answer, sampled=True))
        agent = AgentInfo(config=loaded.config.agent)
        traces.append(vf.Trace(task=about, agent=agent, nodes=nodes, ok=text is not None))
    return task, vf.Episode(task=about, traces=traces)


def test_attempts_of_an_episode_are_compared(environment):
    """Each gets its reward, and one that failed the replacement that the user sets."""
    loaded = environment(on_failure="mean")
    task, episode = episode_of(loaded, *texts(3, "verifiers"), None)
    asyncio.run(loaded.finalize(task, episode))
    scores = [trace.rewards["genrm"].value for trace in episode.traces]
    assert scores[0] < scores[1] < scores[2]
    assert scores[3] == pytest.approx(sum(scores[:3]) / 3)
    best = [trace.metrics["best"] for trace in episode.traces]
    assert best == [1.0] * 4  # of the task's own rewards


def test_an_attempt_without_a_reward_fails_the_episode(environment):
    """Without a replacement, since verifiers would count it as 0; no reward is recorded. Nothing is
    asked about an episode in which all attempts failed.
    """
    loaded = environment()
    task, episode = episode_of(loaded, *texts(3, "verifiers"), None)
    with pytest.raises(MissingRewardError, match="no reward"):
        asyncio.run(loaded.finalize(task, episode))
    task, failed = episode_of(loaded, None, None)
    asyncio.run(loaded.finalize(task, failed))
    assert all("genrm" not in trace.rewards for trace in episode.traces + failed.traces)


def test_prime_rl_rewards_traces_of_verifiers(environment, served):
    """Episodes of one attempt each are compared; one without an answer has no reward, and one that
    failed takes no part. The classes of prime-rl, which no registry serves, are stand-ins.
    """
    loaded = environment()
    advantages = {}
    algorithm = prime_rl_algorithm(served.url, advantages)
    given = [*texts(2, "prime-verifiers"), "", None]
    episodes = [episode_of(loaded, text)[1] for text in given]
    asyncio.run(algorithm.score_group(episodes))
    low, high, blank, failed = (episode.traces[0] for episode in episodes)
    assert advantages[id(low)] == pytest.approx(-advantages[id(high)])
    assert advantages[id(low)] < advantages[id(blank)] == 0
    assert blank.rewards == {"genrm": None}
    assert failed.rewards == {}
    with pytest.raises(ValueError, match="several"):
        asyncio.run(algorithm.score_group([episode_of(loaded, "one", "another")[1]]))
