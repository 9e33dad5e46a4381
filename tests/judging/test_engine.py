"""How comparisons go to a judge and outcomes come back, whatever the judge is."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from judge_server_fixture import JudgeServer

from genrm_cli.errors import StorageError
from genrm_cli.judging.client import JudgeAddress, JudgeClient
from genrm_cli.judging.engine import Asking, EmbeddedJudge, Judge, judge_all
from genrm_cli.judging.pacing.budget import Budget
from genrm_cli.judging.pacing.endpoint import Endpoint, FixedLimit
from genrm_cli.judging.pacing.pool import EndpointPool, Slot
from genrm_cli.judging.pacing.retry import RetryPolicy
from genrm_cli.judging.profiles import PROFILES
from genrm_cli.judging.remote import CallPolicy, RemoteJudge
from genrm_cli.judging.requests import JudgeRequest, Outcome, PairwisePrompt
from genrm_cli.verdicts import Failure, FailureKind, Verdict

MIDDLING = Outcome(Verdict(3, 3, 3.5))
NOWHERE = JudgeAddress("http://127.0.0.1:9/v1", None, 1, 1)


def exhibit(number: int = 0) -> PairwisePrompt:
    """Build a comparison of two answers."""
    return PairwisePrompt([("user", f"Question {number}?")], "Yes.", "No.")


async def askings(count: int, judge: Judge) -> AsyncIterator[Asking[int]]:
    """Number so many different comparisons."""
    for number in range(count):
        yield Asking(number, judge, exhibit(number), 0)


class SlowJudge:
    """A judge that admits so many questions in all and at a time, knows some answers, and takes its time."""

    def __init__(self, at_once: int, *, admits: int = 10**6, knows: tuple[int, ...] = ()) -> None:
        self.stopped_by: str | None = None
        self.asked: list[str] = []
        self.at_once = self.most_at_once = 0
        self._slots = asyncio.Semaphore(at_once)
        self._slot = Slot(Endpoint("nowhere", JudgeClient(NOWHERE), FixedLimit(1)), 0.0, on_trial=False)
        self._admits = admits
        self._known = {exhibit(number).conversation[0][1] for number in knows}

    def prepare(self, exhibit: PairwisePrompt, judge_idx: int) -> JudgeRequest:
        """Keep the exhibit."""
        del judge_idx
        return JudgeRequest(exhibit)

    def recall(self, question: JudgeRequest) -> Outcome | None:
        """Know what it was told that it knows."""
        return MIDDLING if question.shown.conversation[0][1] in self._known else None

    async def admit(self) -> Slot | None:
        """Admit when there is room, until it has admitted enough."""
        await self._slots.acquire()
        if len(self.asked) + self.at_once >= self._admits:
            self.stopped_by = "max_calls"
            self._slots.release()
            return None
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        return self._slot

    async def ask(self, question: JudgeRequest, slot: Slot) -> Outcome:
        """Take a few turns of the event loop."""
        assert slot is self._slot
        for _ in range(5):
            await asyncio.sleep(0)
        self.asked.append(question.shown.conversation[0][1])
        self.at_once -= 1
        self._slots.release()
        return MIDDLING


def judged(judge: Judge, count: int) -> dict[int, Outcome]:
    """Put so many comparisons before a judge; every ticket must come back once."""
    outcomes: dict[int, Outcome] = {}

    def on_outcome(ticket: int, outcome: Outcome) -> None:
        assert ticket not in outcomes
        outcomes[ticket] = outcome

    asyncio.run(judge_all(askings(count, judge), on_outcome))
    return outcomes


def test_comparisons_are_made_only_when_they_are_asked() -> None:
    """At most one comparison more is taken from the iterator than is in flight: memory does not grow with them."""
    judge, taken, done = SlowJudge(7), 0, 0
    furthest_ahead = 0

    async def iter_askings() -> AsyncIterator[Asking[int]]:
        nonlocal taken, furthest_ahead
        async for asking in askings(200, judge):
            taken += 1
            furthest_ahead = max(furthest_ahead, taken - done)
            yield asking

    def on_outcome(ticket: int, outcome: Outcome) -> None:
        nonlocal done
        done += 1

    asyncio.run(judge_all(iter_askings(), on_outcome))
    assert (taken, done) == (200, 200)
    assert judge.most_at_once == 7
    assert furthest_ahead == 8  # one waits for its slot


@pytest.mark.parametrize("count", [0, 1, 3, 50, 300])
@pytest.mark.parametrize("make_judge", [EmbeddedJudge, lambda: SlowJudge(16)], ids=["embedded", "slow"])
def test_every_asking_gets_one_outcome(make_judge: type[EmbeddedJudge], count: int) -> None:
    """Fewer comparisons than may be in flight, or none, are no special case."""
    outcomes = judged(make_judge(), count)
    assert set(outcomes) == set(range(count))
    assert all(isinstance(outcome.result, Verdict) for outcome in outcomes.values())


def test_what_is_known_is_not_asked() -> None:
    """A comparison that the judge recalls needs no slot; all others are asked once."""
    known = tuple(range(0, 20, 2))
    judge = SlowJudge(4, knows=known)
    assert len(judged(judge, 20)) == 20
    assert sorted(judge.asked) == sorted(f"Question {number}?" for number in range(1, 20, 2))


def test_after_a_stop_the_rest_is_recalled_or_fails_as_not_asked() -> None:
    """When the judge admits no more, what it knows still counts, and the others say what stopped the run."""
    judge = SlowJudge(2, admits=5, knows=(18, 19))
    outcomes = judged(judge, 20)
    assert len(judge.asked) == 5
    judged_ones = {number for number, outcome in outcomes.items() if outcome.result == MIDDLING.result}
    assert judged_ones == {*range(5), 18, 19}
    rest = [outcomes[number].result for number in range(5, 18)]
    assert rest == [Failure(FailureKind.NOT_ASKED, "stopped by max_calls")] * 13


def test_many_known_answers_do_not_starve_the_calls_in_flight() -> None:
    """A long row of recalled comparisons gives way to a call that is under way."""
    judge = SlowJudge(1, knows=tuple(range(1, 3_000)))
    order: list[int] = []
    asyncio.run(judge_all(askings(3_000, judge), lambda ticket, outcome: order.append(ticket)))
    assert len(order) == 3_000
    assert order.index(0) < 1_000


def test_an_error_of_ours_stops_all_calls(judge_server: JudgeServer) -> None:
    """When an outcome cannot be kept, that error comes out alone, and no call is left open."""
    judge_server.behave(latency_s=0.02)

    def on_outcome(ticket: int, outcome: Outcome) -> None:
        raise StorageError("the disk is full")

    async def run() -> None:
        async with JudgeClient(JudgeAddress(judge_server.base_url, None, 2, 4)) as client:
            pool = EndpointPool([Endpoint("judge", client, FixedLimit(4))], 10, lambda event, fields: None)
            patience = CallPolicy(10, 60, RetryPolicy(0), reask=0)
            judge = RemoteJudge(pool, PROFILES["nemotron"], patience, Budget(), model="m", sampling={})
            await judge_all(askings(100, judge), on_outcome)

    with pytest.raises(StorageError, match="the disk is full"):
        asyncio.run(run())
    stats = judge_server.wait_until(lambda stats: stats["in_flight"] == 0)
    assert stats["requests"] <= 8
