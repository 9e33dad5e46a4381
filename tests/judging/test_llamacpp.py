"""Runs on a judge behind llama.cpp's server, by the habits that vLLM does not have."""

from functools import partial

import pytest
from scored_here import completions

MODEL = "/models/SmolLM2-135M-Instruct.Q4_1.gguf"
LONG = "because of the tide " * 400
TEXTS = ["The moon pulls at the sea.", "No idea.", "The moon, and the sun a little."]


@pytest.fixture
def judged(judged):
    """Score with a model that has a path for its name."""
    return partial(judged, model=MODEL)


HABITS = {
    "a path as the model, and further fields in each reply": ({}, {}, {}),
    "a slow first call": ({"script": [{"latency_s": 0.3}]}, {}, {}),
    "no answer while it loads": ({"loading": 3}, {"retries": 3}, {"retries": 2, "calls": 5}),
    "replies cut at their limit": (
        {},
        {"max_reply_tokens": 60},  # of a reply of 76 tokens
        {"retries": 3, "calls": 6},
    ),
    "the context in the list of models": (
        {"max_model_len": 3_000},
        {"max_reply_tokens": 512},
        {"shortened_rollouts": 1},
    ),
    "the context in a refusal only": (
        {"max_model_len": 2_000, "hides_context": True},
        {"max_reply_tokens": 512},
        {"shortened_rollouts": 1},
    ),
}


@pytest.mark.parametrize("habit", HABITS)
def test_a_run_gets_all_its_verdicts(judged, judge_server, habit):
    """Its habits cost calls at most."""
    behaviour, settings, expected = HABITS[habit]
    judge_server.behave(is_llamacpp=True, models=[MODEL], **behaviour)
    texts = [LONG, *TEXTS[1:]] if "shortened_rollouts" in expected else TEXTS
    scored = judged(completions(*texts), **settings)
    metrics = scored.metrics
    usual = {"failures": 0, "scored": 3, "verdicts": 3, "calls": 3, "estimated_replies": 0}
    usual |= {"retries": 0, "shortened_rollouts": 0}
    assert {name: metrics[name] for name in usual} == usual | expected
    assert metrics["calls"] <= 2 * metrics["comparisons_planned"]
    assert None not in scored.rewards


def test_the_context_of_training_is_not_the_context(judged, judge_server):
    """`n_ctx_train` is larger than what the server has loaded: the refusal's `n_ctx` counts. Once a
    shorter prompt has passed, the others are shortened before they are sent.
    """
    judge_server.behave(is_llamacpp=True, models=[MODEL], max_model_len=2_000, hides_context=True)
    lines = completions(*[f"{LONG} {number}" for number in range(4)])
    scored = judged(lines, max_reply_tokens=512, concurrency="1")
    assert scored.metrics["failures"] == 0
    assert scored.metrics["shortened_rollouts"] == 4
    statuses = judge_server.stats()["by_status"]
    assert statuses["200"] == scored.metrics["calls"] == 4
    assert 1 <= statuses["400"] <= 2
