"""Metrics of each step for trackers."""

import asyncio

import httpx
import pytest

from genrm_cli.metrics.event import ignore_event
from genrm_cli.serve.app import build_app
from genrm_cli.serve.served_scorer import ServedScorer
from genrm_cli.serve.service import RewardService
from genrm_cli.serve.steps import StepMetrics
from genrm_cli.settings import settings_from
from genrm_cli.tracking.log_run import RunLog, tracked_run

QUESTION = "Why is the sky blue?"
SHORT = "It is."
LONG = "Rayleigh scattering of light by the molecules of the air. " * 6


def group(id_, *responses, messages=QUESTION):
    """Return a request; a response is a text."""
    return {
        "id": id_,
        "messages": messages,
        "responses": [{"text": text} for text in responses],
    }


@pytest.fixture
def serve(judge_server):
    """Send groups to a server, one after another; its replies, its page of metrics, and the steps
    that it logged.
    """

    async def send(settings, groups):
        steps_logged = []
        log = RunLog({"list": lambda run: (steps_logged.append, lambda: None)}, ignore_event)
        async with ServedScorer(settings, {}) as scorer:
            steps = StepMetrics(
                settings,
                scorer,
                lambda number, totals, more, samples: log.log(
                    tracked_run("serve", totals, settings, number, more, samples)
                ),
            )
            service = RewardService(scorer, settings.serve, steps=steps)
            app = httpx.ASGITransport(build_app(service, scorer, settings.serve))
            async with httpx.AsyncClient(
                transport=app, base_url="http://served", timeout=60
            ) as client:
                replies = [(await client.post("/v1/groups", json=each)).json() for each in groups]
                metrics = (await client.get("/metrics")).text
            steps.end()
        log.close()
        return replies, metrics, steps_logged

    def serve(*groups, **settings):
        given = {
            "base_url": (judge_server.base_url,),
            "model": "m",
            "profile": "nemotron",
            "probe": False,
        }
        return asyncio.run(
            send(settings_from(**given, use_journal=False, retries=0, **settings), groups)
        )

    return serve


def test_a_step_counts_failures_by_kind(serve, judge_server):
    """Their number, and their share of all comparisons."""
    judge_server.behave(refuses=LONG)
    _, _, (step,) = serve(group("a", SHORT, LONG))
    assert step.scalars["failures_by_kind/refused"] == 2
    assert step.scalars["failure_share/refused"] == 1.0


def test_a_step_is_so_many_groups(serve):
    """Steps are numbered from 1; the last, incomplete one is logged at the end; its cost is that of
    all calls.
    """
    groups = [group(f"g{number}", SHORT, LONG, f"{SHORT} {number}") for number in range(5)]
    _, _, steps = serve(*groups, groups_per_step=2, price_in=1_000_000.0)
    assert [(step.name, step.step, step.scalars["groups"]) for step in steps] == [
        ("serve", 1, 2),
        ("serve", 2, 2),
        ("serve", 3, 1),
    ]
    assert [step.scalars["comparisons_planned"] for step in steps] == [6, 6, 3]
    assert steps[0].scalars["calls"] + steps[0].scalars["journal_hits"] == 6
    for step in steps:
        assert step.scalars["cost"] == pytest.approx(step.scalars["prompt_tokens"])
        assert {"latency/mean_s", "first_place_win_rate", "reward/std"} <= step.scalars.keys()


def test_a_step_has_samples_of_its_verdicts(serve):
    """One a group, as many as were asked for, with all that a reader needs; next to two latencies
    and no histogram.
    """
    _, _, steps = serve(
        *(group(f"sampled-{number}", SHORT, LONG) for number in range(3)), verdict_samples=2
    )
    [step] = steps
    assert len(step.samples) == 2
    for sample in step.samples:
        assert {"prompt", "response_1", "response_2", "ranking", "reward_1"} <= set(sample)
        assert sample["prompt"]
        assert sample["response_1"] != sample["response_2"]
    assert {name for name in step.scalars if name.startswith("latency/")} == {
        "latency/mean_s",
        "latency/p99_s",
    }
