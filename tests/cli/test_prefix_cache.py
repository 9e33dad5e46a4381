"""Several real judge processes that cache the blocks of their prompts."""

import json
import random
from collections.abc import Callable

import pytest
from genrm_process import Genrm
from judge_server_fixture import JudgeServer


@pytest.mark.slow
def test_two_servers_cache_nearly_as_much_as_one(
    genrm: Genrm, judge_server: JudgeServer, start_judge: Callable[[], JudgeServer]
) -> None:
    """The share of prompt tokens from caches is that of one server with as many slots, within 5 points."""
    rng, other = random.Random(0), start_judge()
    lines = []
    for group in range(16):
        prompt = f"Question {group}. {rng.randbytes(400).hex()}"
        lines += [{"prompt": prompt, "completion": f"Answer {n}. {rng.randbytes(300).hex()}"} for n in range(6)]
    genrm.write("in.jsonl", lines)

    def cached_share(*urls: str, slots: int) -> float:
        for server in (judge_server, other):
            server.behave(prefix_cache=4_000, prefix_block_chars=64, latency_s=0.05, slots=slots)
        endpoints = [word for url in urls for word in ("--base-url", url)]
        options = ("--model", "m", "--no-probe", "--no-journal", "--strategy", "all_pairs", "--force", "-q")
        ended = genrm.run("score", "in.jsonl", *endpoints, *options, "--concurrency", slots)
        assert ended.code == 0, ended.err
        metrics = json.loads((genrm.folder / "in.metrics.json").read_bytes())
        assert metrics["calls"] == 16 * 15
        return float(metrics["cached_prompt_tokens"] / metrics["prompt_tokens"])

    one = cached_share(judge_server.base_url, slots=16)
    assert one > 0.3
    assert cached_share(judge_server.base_url, other.base_url, slots=8) >= one - 0.05
