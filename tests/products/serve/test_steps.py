"""Metrics of each step for trackers, and the win rate against reference answers."""

import asyncio

import httpx
import pytest

from genrm_cli.errors import InputError
from genrm_cli.products.serve.reference_answers import ReferenceAnswers
from genrm_cli.products.serve.serve_app import build_app
from genrm_cli.products.serve.served_scorer import ServedScorer
from genrm_cli.products.serve.service import RewardService
from genrm_cli.products.serve.steps import StepMetrics
from genrm_cli.products.tracking.log_run import tracked_run
from genrm_cli.settings import settings_from

QUESTION = "Why is the sky blue?"
REFERENCE = "Rayleigh scattering" + " of light" * 8
SHORT = "It is."
LONG = REFERENCE + " by the molecules of the air" * 6


def group(id_, *responses, messages=QUESTION):
    """Return a request; a response is a text."""
    return {"id": id_, "messages": messages, "responses": responses}


@pytest.fixture
def serve(genrm, judge_server):
    """Send groups to a server, one after another, by default with a reference answer; its replies,
    its page of metrics, and the steps that it logged.
    """
    answers = genrm.write("answers.jsonl", [{"prompt": QUESTION, "completion": REFERENCE}])

    async def send(settings, groups):
        logged = []

        def log_step(number, totals, more):
            logged.append(tracked_run("serve", totals, settings, number, more))

        async with ServedScorer(settings, {}) as scorer:
            steps = StepMetrics(settings, scorer, log_step)
            service = RewardService(scorer, settings.serve, steps=steps)
            app = httpx.ASGITransport(build_app(service, settings.serve))
            async with httpx.AsyncClient(transport=app, base_url="http://localhost") as client:
                replies = [(await client.post("/v1/groups", json=each)).json() for each in groups]
                metrics = (await client.get("/metrics")).text
            steps.end()
        return replies, metrics, logged

    def serve(*groups, **settings):
        judge = {"base_url": (judge_server.base_url,), "model": "m", "profile": "nemotron"}
        usual = {"probe": False, "use_journal": False, "retries": 0, "reference": str(answers)}
        return asyncio.run(send(settings_from(**judge, **usual | settings), groups))

    return serve


def test_each_response_is_compared_once_with_the_reference_answer(serve, judge_server):
    """The judge prefers longer texts: one of two wins, a blank one loses unasked, other prompts
    cost nothing more.
    """
    groups = [
        group("a", SHORT, LONG, ""),
        group("b", SHORT, LONG, messages="Why?"),
        group("c", f"{LONG}."),
    ]
    replies, metrics, _ = serve(*groups, groups_per_step=3)
    first, other, single = (reply["metrics"]["reference"] for reply in replies)
    assert first["win_percent"] == pytest.approx(100 / 3)
    assert (first["comparisons"], first["failed"]) == (3, 0)
    assert 0 < first["low_percent"] < 100 / 3 < first["high_percent"] < 100
    assert other is None
    assert (single["win_percent"], single["comparisons"]) == (100.0, 1)
    assert judge_server.stats()["requests"] == 2 * 2 + 2 + 1
    assert f'genrm_reference_win_percent{{value="win"}} {(100 / 3 + 100) / 2}' in metrics


def test_the_reference_answer_is_shown_first_as_often_as_second(serve, judge_server):
    """A judge that always prefers the first response gives a win rate of one half."""
    judge_server.behave(verdict={"score_1": 4, "score_2": 2, "ranking": 2})
    texts = [f"Answer {number}." for number in range(8)]
    (reply,), _, _ = serve(group("a", *texts))
    reference = reply["metrics"]["reference"]
    assert (reference["win_percent"], reference["comparisons"]) == (50.0, 8)


def test_no_reward_depends_on_reference_answers(serve):
    """Replies are equal but for the win rate: rewards, comparisons, calls, calibration."""
    groups = [
        group(f"g{number}", f"{SHORT} {number}", LONG, SHORT, f"{LONG} {number}")
        for number in range(4)
    ]
    with_answers, _, _ = serve(*groups)
    without, _, _ = serve(*groups, reference=None)
    for with_answer, other in zip(with_answers, without, strict=True):
        assert with_answer["metrics"].pop("reference") is not None
        assert other["metrics"].pop("reference") is None
        for each in with_answer["comparisons"] + other["comparisons"]:
            del each["latency_s"]
    assert with_answers == without


def test_failures_are_neither_won_nor_lost(serve, judge_server):
    """Where the judge refuses the reference answer, rewards are as usual, and there is no win rate;
    a step counts failures by kind.
    """
    judge_server.behave(refuses=REFERENCE)
    (reply,), metrics, (step,) = serve(group("a", SHORT, "It scatters light."))
    assert reply["status"] == "scored"
    assert reply["metrics"]["failed"] == 0
    assert reply["metrics"]["reference"] is None
    assert "genrm_reference_win_percent" not in metrics
    assert step.scalars["failures_by_kind/refused"] == 2
    assert step.scalars["failure_share/refused"] == 0.5


def test_a_step_is_so_many_groups(serve):
    """Steps are numbered from 1; the last, incomplete one is logged at the end; its cost is that of
    all calls. Latency has no histogram, whose charts would bury the others.
    """
    groups = [group(f"g{number}", SHORT, LONG, f"{SHORT} {number}") for number in range(5)]
    _, _, steps = serve(*groups, groups_per_step=2, price_in=1_000_000.0)
    counted = [
        (step.name, step.step, step.scalars["groups"], step.scalars["comparisons_planned"])
        for step in steps
    ]
    assert counted == [("serve", 1, 2, 12), ("serve", 2, 2, 12), ("serve", 3, 1, 6)]
    assert steps[0].scalars["calls"] + steps[0].scalars["journal_hits"] == 12
    for step in steps:
        assert step.scalars["cost"] == pytest.approx(step.scalars["prompt_tokens"])
        assert step.scalars["reference/win_percent"] == pytest.approx(100 / 3)
        named = {"first_place_win_rate", "reward/std", "reference/low_percent"}
        assert named <= step.scalars.keys()
        latencies = {name for name in step.scalars if name.startswith("latency/")}
        assert latencies == {"latency/mean_s", "latency/p99_s"}


QUESTIONS = [{"prompt": "Q?", "completion": text} for text in ("a", "b", "")]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (QUESTIONS[2:], "line 1: no answer to compare with: blank response"),
        (QUESTIONS[:2], "line 2: a second answer"),
        ([{"prompt": "Q?", "responses": ["a", "b"]}], "line 1: 2 answers, expected one"),
        ([{"question": "Q?"}], "line 1: "),
    ],
)
def test_a_file_without_one_answer_for_each_prompt_is_refused(genrm, lines, said):
    """The message names file and line."""
    path = genrm.write("answers.jsonl", lines)
    settings = settings_from(judge="lexical", reference=str(path))
    with pytest.raises(InputError) as refused:
        ReferenceAnswers(settings, ServedScorer(settings, {}))
    assert f"{path}: {said}" in str(refused.value)


def test_responses_that_equal_others_or_the_reference_answer_count(serve, judge_server):
    """A response equal to the reference answer ties with it; copies win and lose like the one that
    is compared.
    """
    (reply,), _, _ = serve(group("a", LONG, LONG, LONG, REFERENCE))
    reference = reply["metrics"]["reference"]
    counts = (reference["win_percent"], reference["comparisons"], reference["failed"])
    assert counts == (87.5, 4, 0)
    assert judge_server.stats()["requests"] == 1 + 1
