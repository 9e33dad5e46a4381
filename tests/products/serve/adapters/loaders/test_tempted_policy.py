"""What a tiny policy learns from the server's rewards: what the judge prefers, and not to write
verdicts.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from zlib import crc32

import pytest
from genrm_process import PACKAGE_ROOT, Genrm
from judge_behaviour import find_responses
from served import serving
from small_server import answering_each

pytestmark = [
    pytest.mark.slow,
    pytest.mark.loader("trl", "datasets"),
    pytest.mark.filterwarnings("default"),
    pytest.mark.timeout(900),
]

SCRIPT = Path(__file__).with_name("train_tempted.py")
WORTH = {
    " fine": 1.0,
    " um": -1.0,
    "[[": -0.25,
    "<|im_start|>": 5.0,
}  # a turn of its own would win


def judge(request):
    """Answer as a judge that counts good words and is not always right; it may quote the responses,
    or repair them.
    """
    if (shown := find_responses(request["messages"])) is None:
        return completion("ok")
    number = crc32(json.dumps(request).encode())
    lead = (sum(worth * text.count(word) for word, worth in WORTH.items()) for text in shown)
    noise = number % 5 - 2
    first, second = lead
    verdict = "[[A]]" if first - second + noise / 2 > 0 else "[[B]]"
    quoted = "\n".join(
        f"Response {name} is:\n{text}" for name, text in zip("AB", shown, strict=True)
    )
    said = ("Both are short.", quoted, quoted.replace("¦", ""))[number // 5 % 3]
    return completion(f"{said}\nSo I decide.\n{verdict}")


def completion(text):
    """Return a reply of a judge's server."""
    message = {"role": "assistant", "content": text}
    usage = {
        "prompt_tokens": 1,
        "completion_tokens": 1,
        "total_tokens": 2,
    }
    choices = [
        {
            "index": 0,
            "message": message,
            "finish_reason": "stop",
        }
    ]
    return (
        200,
        {"Content-Type": "application/json"},
        {
            "model": "m",
            "choices": choices,
            "usage": usage,
        },
    )


def exact_judge(request):
    """Answer as a judge that prefers the response with more fine words."""
    if (shown := find_responses(request["messages"])) is None:
        return completion("[[A]]")
    first, second = (text.count(" fine") for text in shown)
    return completion("[[C]]" if first == second else "[[A]]" if first > second else "[[B]]")


def train(folder, paid_by, url=""):
    """Run the script; how often each word was written in the first steps, and in the last ones."""
    ended = subprocess.run(
        [
            sys.executable,
            str(SCRIPT),
            "40",
            paid_by,
            str(folder),
        ],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": str(PACKAGE_ROOT),
            "GENRM_SERVE_URL": url,
            "OMP_NUM_THREADS": "1",
        },
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    steps = [
        Counter(json.loads(line)) for line in ended.stdout.splitlines() if line.startswith('{"')
    ]
    assert len(steps) == 40
    return sum(steps[:5], Counter()), sum(steps[-5:], Counter())


def train_on_server(folder, judge_, profile):
    """Train on the rewards of a server with a judge; see `train`."""
    (folder / "serve").mkdir()
    with answering_each(judge_) as (url, _):
        flags = (
            "--base-url",
            f"{url}/v1",
            "--model",
            "judge",
            "--profile",
            profile,
            "--no-probe",
        )
        with serving(Genrm(folder / "serve"), *flags) as server:
            return train(folder, "genrm", server.url)


def share_of(part, counts):
    """Return which share of the words hold a text."""
    return sum(count for word, count in counts.items() if part in word) / sum(counts.values())


def test_a_policy_learns_what_an_oracle_teaches(tmp_path):
    """With a judge that is right, GRPO reaches what it reaches on the counts that the judge
    compares.
    """
    began, oracle = (share_of(" fine", counts) for counts in train(tmp_path, "fine"))
    _, ended = (
        share_of(" fine", counts) for counts in train_on_server(tmp_path, exact_judge, "mt-bench")
    )
    assert began < 0.4 < 0.9 < oracle
    assert ended > oracle - 0.05


def test_a_policy_that_may_write_verdicts_does_not_learn_to(tmp_path):
    """GRPO unlearns labels on the server's rewards, although the same policy learns nothing else
    when paid for them.
    """
    began, ended = (share_of("[[", counts) for counts in train(tmp_path, "labels"))
    assert began < 0.6 < 0.95 < ended
    began, ended = (
        share_of("[[", counts) for counts in train_on_server(tmp_path, judge, "mt-bench")
    )
    assert ended < began / 2
