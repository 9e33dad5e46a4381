"""Metrics of each step for trackers, and the win rate against reference answers."""

import asyncio

import httpx
import pytest

from genrm_cli.errors import InputError
from genrm_cli.metrics.event import ignore_event
from genrm_cli.products.serve.reference_answers import ReferenceAnswers
from genrm_cli.products.serve.serve_app import build_app
from genrm_cli.products.serve.served_scorer import ServedScorer
from genrm_cli.products.serve.service import RewardService
from genrm_cli.products.serve.steps import StepMetrics
from genrm_cli.products.tracking.log_run import RunLog, tracked_run
from genrm_cli.settings import settings_from

QUESTION = "Why is the sky blue?"
REFERENCE = "Rayleigh scattering" + " of light" * 8
SHORT = "It is."
LONG = REFERENCE + " by the molecules of the air" * 6


def group(id_, *responses, messages=QUESTION):
    """Return a request; a response is a text."""
    return {
        "id": id_,
        "messages": messages,
        "responses": [{"text": text} for text in responses],
    }


@pytest.fixture
def answers(genrm):
    """Give a test a file with one reference answer."""
    return genrm.write("answers.jsonl", [{"prompt": QUESTION, "completion": REFERENCE}])


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
                lambda number, totals, more: log.log(
                    tracked_run("serve", totals, settings, number, more)
                ),
            )
            service = RewardService(scorer, settings.serve, steps=steps)
            app = httpx.ASGITransport(build_app(service, settings.serve))
            async with httpx.AsyncClient(
                transport=app, base_url="http://localhost", timeout=60
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


def test_each_response_is_compared_once_with_the_reference_answer(serve, answers, judge_server):
    """The judge prefers longer texts: one of two wins, a blank one loses unasked, other prompts
    cost nothing more.
    """
    groups = [
        group("a", SHORT, LONG, ""),
        group("b", SHORT, LONG, messages="Why?"),
        group("c", f"{LONG}."),
    ]
    replies, metrics, _ = serve(*groups, reference=str(answers), groups_per_step=3)
    first, other, single = (reply["metrics"]["reference"] for reply in replies)
    assert first["win_percent"] == pytest.approx(100 / 3)
    assert first["comparisons"] == 3
    assert first["failed"] == 0
    assert 0 < first["low_percent"] < 100 / 3 < first["high_percent"] < 100
    assert other is None
    assert single["win_percent"] == 100.0
    assert single["comparisons"] == 1
    assert judge_server.stats()["requests"] == 2 * 2 + 2 + 1
    assert f'genrm_reference_win_percent{{value="win"}} {(100 / 3 + 100) / 2}' in metrics


def test_the_reference_answer_is_shown_first_as_often_as_second(serve, answers, judge_server):
    """A judge that always prefers the first response gives a win rate of one half."""
    judge_server.behave(
        verdict={
            "score_1": 4,
            "score_2": 2,
            "ranking": 2,
        }
    )
    texts = [f"Answer {number}." for number in range(8)]
    (reply,), _, _ = serve(group("a", *texts), reference=str(answers))
    assert reply["metrics"]["reference"]["win_percent"] == 50.0
    assert reply["metrics"]["reference"]["comparisons"] == 8


def test_no_reward_depends_on_reference_answers(serve, answers):
    """Replies are equal but for the win rate: rewards, comparisons, calls, calibration."""
    groups = [
        group(f"g{number}", f"{SHORT} {number}", LONG, SHORT, f"{LONG} {number}")
        for number in range(4)
    ]
    with_answers, _, _ = serve(*groups, reference=str(answers))
    without, _, _ = serve(*groups)
    assert [reply["metrics"].pop("reference") is None for reply in with_answers + without] == [
        False
    ] * 4 + [True] * 4
    timeless = [
        [
            {**each, "comparisons": [{**one, "latency_s": 0} for one in each["comparisons"]]}
            for each in replies
        ]
        for replies in (with_answers, without)
    ]
    assert timeless[0] == timeless[1]


def test_failures_are_neither_won_nor_lost(serve, answers, judge_server):
    """Where the judge refuses the reference answer, rewards are as usual, and there is no win
    rate.
    """
    judge_server.behave(refuses=REFERENCE)
    (reply,), metrics, (step,) = serve(
        group("a", SHORT, "It scatters light."), reference=str(answers)
    )
    assert reply["status"] == "scored"
    assert reply["metrics"]["failed"] == 0
    assert reply["metrics"]["reference"] is None
    assert "genrm_reference_win_percent" not in metrics
    assert step.scalars["failures_by_kind/refused"] == 2
    assert step.scalars["failure_share/refused"] == 0.5


def test_a_step_counts_failures_by_kind(serve, judge_server):
    """Their number, and their share of all comparisons."""
    judge_server.behave(refuses=LONG)
    _, _, (step,) = serve(group("a", SHORT, LONG))
    assert step.scalars["failures_by_kind/refused"] == 4
    assert step.scalars["failure_share/refused"] == 1.0


def test_a_step_is_so_many_groups(serve, answers):
    """Steps are numbered from 1; the last, incomplete one is logged at the end; its cost is that of
    all calls.
    """
    groups = [group(f"g{number}", SHORT, LONG, f"{SHORT} {number}") for number in range(5)]
    _, _, steps = serve(*groups, reference=str(answers), groups_per_step=2, price_in=1_000_000.0)
    assert [(step.name, step.step, step.scalars["groups"]) for step in steps] == [
        ("serve", 1, 2),
        ("serve", 2, 2),
        ("serve", 3, 1),
    ]
    assert [step.scalars["comparisons_planned"] for step in steps] == [12, 12, 6]
    assert steps[0].scalars["calls"] + steps[0].scalars["journal_hits"] == 12
    for step in steps:
        assert step.scalars["cost"] == pytest.approx(step.scalars["prompt_tokens"])
        assert step.scalars["reference/win_percent"] == pytest.approx(100 / 3)
        assert {
            "latency/mean_s",
            "first_place_win_rate",
            "reward/std",
            "reference/low_percent",
        } <= step.scalars.keys()


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([{"prompt": "Q?", "completion": ""}], "line 1: no answer to compare with: blank response"),
        (
            [
                {"prompt": "Q?", "completion": "a"},
                {"prompt": "Q?", "completion": "b"},
            ],
            "line 2: a second answer",
        ),
        (
            [
                {
                    "prompt": "Q?",
                    "responses": ["a", "b"],
                }
            ],
            "line 1: 2 answers, expected one",
        ),
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


def test_responses_that_equal_others_or_the_reference_answer_count(serve, answers, judge_server):
    """A response equal to the reference answer ties with it; copies win and lose like the one that
    is compared.
    """
    (reply,), _, _ = serve(group("a", LONG, LONG, LONG, REFERENCE), reference=str(answers))
    reference = reply["metrics"]["reference"]
    assert reference["win_percent"] == 87.5
    assert reference["comparisons"] == 4
    assert reference["failed"] == 0
    assert judge_server.stats()["requests"] == 1 + 1


def test_a_step_has_two_latencies_and_no_histogram(serve):
    """A chart for each bucket would bury the others."""
    _, _, [step] = serve(*(group(f"timed-{number}", SHORT, LONG) for number in range(3)))
    assert {name for name in step.scalars if name.startswith("latency/")} == {
        "latency/mean_s",
        "latency/p99_s",
    }
