"""verifiers' own loader, episodes and traces with our environment, against a live server."""

import asyncio
import sys

import pytest
from served import texts
from trainers_page import block

pytestmark = [
    pytest.mark.slow,
    pytest.mark.loader("verifiers"),
    pytest.mark.filterwarnings("default"),
]

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
    from verifiers.v1.utils.loaders import environment_class, load_environment

    form = environment_class("some-questions", "genrm-env")
    assert form.__name__ == "GenrmEnv"
    settings = form.__mro__[1].__orig_bases__[0].__args__[0]
    given = {"id": "genrm-env", "taskset": {"id": "some-questions"}, "n": 3}
    return load_environment(settings.model_validate(given))


def trace_of(task, config, text):
    """Return a finished attempt; one without a text failed before its first answer."""
    import verifiers.v1 as vf
    from verifiers.v1.graph import MessageNode
    from verifiers.v1.trace import AgentInfo, TraceTask
    from verifiers.v1.types import AssistantMessage, UserMessage

    asked = MessageNode(message=UserMessage(content=task.data.prompt))
    nodes = [asked]
    if text is not None:
        answer = AssistantMessage(content=text)
        nodes.append(MessageNode(parent=0, message=answer, sampled=True))
    about = TraceTask(type="Task", data=task.data)
    return vf.Trace(task=about, agent=AgentInfo(config=config.agent), nodes=nodes)


def test_attempts_of_an_episode_are_compared(served, environment):
    """Each gets its reward, and one that failed gets None."""
    import verifiers.v1 as vf
    from verifiers.v1.trace import TraceTask

    (task,) = environment.taskset
    given = [*texts(3, "verifiers"), None]
    traces = [trace_of(task, environment.config, text) for text in given]
    episode = vf.Episode(task=TraceTask(type="Task", data=task.data), traces=traces)
    asyncio.run(environment.finalize(task, episode))
    scores = [trace.rewards["genrm"] for trace in traces]
    assert scores[3] is None
    assert scores[0].value < scores[1].value < scores[2].value
    assert [trace.metrics["best"] for trace in traces] == [1.0] * 4  # of the task's own rewards


def test_attempts_without_any_answer_are_left_alone(environment):
    """Nothing is asked about an episode in which all attempts failed."""
    import verifiers.v1 as vf
    from verifiers.v1.trace import TraceTask

    (task,) = environment.taskset
    traces = [trace_of(task, environment.config, None) for _ in range(2)]
    episode = vf.Episode(task=TraceTask(type="Task", data=task.data), traces=traces)
    asyncio.run(environment.finalize(task, episode))
    assert all("genrm" not in trace.rewards for trace in traces)
