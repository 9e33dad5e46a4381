"""What a tiny policy learns from the server's rewards: not to write verdicts. A whole training that
makes a better model is `products/export/loaders/test_training_page.py`.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from zlib import crc32

import pytest
from genrm_process import PACKAGE_ROOT
from judge_behaviour import find_responses
from served import serving
from small_server import answering_each, completion

pytestmark = pytest.mark.loader("trl", "datasets")

SCRIPT = Path(__file__).with_name("train_grpo.py")
STEPS = 40
WORTH = {" fine": 1.0, " um": -1.0, "[[": -0.25, "<|im_start|>": 5.0}  # a turn of its own would win


def train(folder, paid_by, url="", *launcher, steps=STEPS, rows=32):
    """Run the script; the calls of the reward function."""
    ended = subprocess.run(
        [sys.executable, *launcher, SCRIPT, str(steps), str(rows), paid_by, folder],
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
    return [json.loads(line) for line in ended.stdout.splitlines() if line.startswith('{"')]


def test_a_group_split_over_two_processes_is_one_group(served, tmp_path):
    """With four rows a process and eight generations, both processes hold half of each group
    (gloo).
    """
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    calls = train(tmp_path, "genrm", served.url, *launcher, steps=2, rows=4)
    assert Counter(call["rank"] for call in calls) == {0: 2, 1: 2}
    halves = ([call for call in calls if call["rank"] == rank] for rank in (0, 1))
    for step in zip(*halves, strict=True):
        assert len({id_ for call in step for id_ in call["ids"]}) == 1
        scored = [number for call in step for number in call["scored"]]
        assert len(scored) == 8
        numbers = {round(number, 6) for number in scored if number is not None}
        assert len(numbers) > 1
        assert all(1 <= number <= 5 for number in numbers)


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


def shares_of(part, calls):
    """Return which share of the words hold a text, in the first steps and in the last ones."""
    assert len(calls) == STEPS
    shares = []
    for some in (calls[:5], calls[-5:]):
        written = [each for call in some for each in call["written"].items()]
        found = sum(count for word, count in written if part in word)
        shares.append(found / sum(count for _, count in written))
    return shares


def test_a_policy_that_may_write_verdicts_does_not_learn_to(genrm, tmp_path):
    """GRPO unlearns labels on the server's rewards, although the same policy learns nothing else
    when paid for them.
    """
    began, ended = shares_of("[[", train(tmp_path, "labels"))
    assert began < 0.6 < 0.95 < ended
    flags = ("--model", "judge", "--profile", "mt-bench", "--no-probe")
    with (
        answering_each(judge) as (url, _),
        serving(genrm, "--base-url", f"{url}/v1", *flags) as server,
    ):
        began, ended = shares_of("[[", train(tmp_path, "genrm", server.url))
    assert ended < began / 2
