"""Commands run in the loop of uvloop where it is installed, and do the same without it."""

import asyncio
import signal
import sys

import pytest
from genrm_process import PACKAGE_ROOT, make_rollouts, read_lines
from served import Served, judge_flags

from genrm_cli.cli.options import run_to_end


@pytest.fixture(params=["uvloop", "asyncio"])
def environment(request, tmp_path_factory):
    """The environment of commands that find uvloop, or not."""
    if request.param == "uvloop":
        return {}
    folder = tmp_path_factory.mktemp("hides")
    (folder / "uvloop.py").write_text("raise ImportError('hidden')\n")
    return {"PYTHONPATH": f"{folder}:{PACKAGE_ROOT}"}


async def name_of_loop():
    """Return the package of the running loop."""
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]


def test_the_loop_is_that_of_uvloop_if_it_is_installed(monkeypatch):
    """Without it, the loop is that of asyncio."""
    pytest.importorskip("uvloop")
    assert run_to_end(name_of_loop()) == "uvloop"
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert run_to_end(name_of_loop()) == "asyncio"


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), SystemExit(3)])
def test_errors_leave_the_loop_as_they_are(error):
    """Whatever a coroutine raises is raised, and a cancellation is an interruption."""

    async def fail():
        raise error

    async def cancel():
        asyncio.current_task().cancel()
        await asyncio.sleep(0)

    with pytest.raises(type(error)) as raised:
        run_to_end(fail())
    assert raised.value is error
    with pytest.raises(KeyboardInterrupt):
        run_to_end(cancel())


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_run_in_either_loop(genrm, judge_server, environment, sent):
    """With 130, one sentence, and the journal."""
    judge_server.behave(script=[{}] * 4, fault={"hang": True})
    genrm.write("in.jsonl", make_rollouts(groups=4, size=4))
    process = genrm.start("score in.jsonl --concurrency 4", *judge_server.flags, **environment)
    judge_server.wait_until(lambda stats: stats["hangs"] == 4)
    process.send_signal(sent)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, b"")
    *_, error, done = err.decode().splitlines()
    assert done.endswith("; exit 130")
    assert error.startswith("genrm: error: interrupted; incomplete outputs were not written.")
    assert genrm.names() == {"in.jsonl", "in.journal.sqlite"}
    judge_server.wait_until(lambda stats: stats["in_flight"] == 0)


@pytest.mark.slow
def test_rewards_are_those_of_the_judge_in_either_loop(genrm, judge_server, environment):
    """Also after refusals and broken connections, which the other loop reports in its own way."""
    judge_server.behave(
        script=[{}] * 4 + [{"status": 503}, {"reset": "before"}, {"reset": "mid_body"}]
    )
    genrm.write("in.jsonl", make_rollouts(groups=3, size=4))
    assert genrm.run("score in.jsonl", *judge_server.flags, **environment).code == 0
    lines = read_lines(genrm.folder / "in.scored.jsonl")
    assert all(isinstance(line["reward"], float) for line in lines)


@pytest.mark.slow
def test_a_server_answers_and_drains_in_either_loop(genrm, judge_server, environment):
    """SIGTERM lets it end what it has begun, and closes it with 0."""
    served = Served(genrm, *judge_flags(judge_server.base_url), **environment)
    reply = served.group(messages="Q?", responses=[{"text": "one"}, {"text": "two words"}])
    assert reply["status"] == "scored"
    assert served.terminate() == 0
