"""A judge and a client with endless work, in virtual time: hours of pacing in a second, the same every time."""

import heapq
import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from genrm_cli.judging.pacing.limit import AdaptiveLimit

REFUSAL_S = 0.002


@dataclass(slots=True)
class SimulatedJudge:
    """How a judge answers; fields may be changed while the simulation stands still.

    Attributes:
        capacity: calls that are worked on at once.
        refuses: whether it refuses what is beyond its capacity; else it queues without a word.
        mean_s: mean working time of a call, log-normally distributed.
        sigma: spread of the working time.
        hanging_share: share of calls that it never answers.
    """

    capacity: int
    refuses: bool = False
    mean_s: float = 0.5
    sigma: float = 0.6
    hanging_share: float = 0.0


@dataclass(slots=True)
class Call:
    """A call that has begun."""

    begun_s: float
    working: bool = False
    over: bool = False


@dataclass(slots=True)
class Simulation:
    """Keeps as many calls in flight as the limit allows, and lets it learn from how they end."""

    limit: AdaptiveLimit
    judge: SimulatedJudge
    seed: int
    timeout_s: float = math.inf
    now_s: float = 0.0
    answered_at_s: list[float] = field(default_factory=list)
    calls: int = 0
    refused: int = 0
    timed_out: int = 0
    in_flight: int = 0
    levels: list[tuple[float, int]] = field(default_factory=list)
    _working: int = 0
    _queue: deque[Call] = field(default_factory=deque)
    _agenda: list[tuple[float, int, Callable[[Call], None], Call]] = field(default_factory=list)
    _numbers: "count[int]" = field(default_factory=count)
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def run(self, duration_s: float) -> None:
        """Let time pass."""
        end_s = self.now_s + duration_s
        while True:
            while self.in_flight < self.limit.limit:
                self._begin()
            if not self._agenda or self._agenda[0][0] > end_s:
                break
            self.now_s, _, happen, call = heapq.heappop(self._agenda)
            happen(call)
            self.levels.append((self.now_s, self.limit.limit))
        self.now_s = end_s

    def answers_per_s(self, since_s: float) -> float:
        """Return the throughput from a moment until now."""
        return sum(at_s > since_s for at_s in self.answered_at_s) / (self.now_s - since_s)

    def levels_since(self, since_s: float) -> list[int]:
        """Return the limits after each event from a moment until now."""
        return [level for at_s, level in self.levels if at_s > since_s]

    def _at(self, in_s: float, happen: Callable[[Call], None], call: Call) -> None:
        heapq.heappush(self._agenda, (self.now_s + in_s, next(self._numbers), happen, call))

    def _begin(self) -> None:
        call = Call(self.now_s)
        self.calls += 1
        self.in_flight += 1
        if self.judge.refuses and self._working >= self.judge.capacity:
            self._at(REFUSAL_S, self._refuse, call)
            return
        if self.timeout_s < math.inf:
            self._at(self.timeout_s, self._time_out, call)
        if self._random.random() < self.judge.hanging_share:
            return
        self._queue.append(call)
        self._work_on()

    def _work_on(self) -> None:
        while self._queue and self._working < self.judge.capacity:
            call = self._queue.popleft()
            if call.over:
                continue
            call.working = True
            self._working += 1
            mu = math.log(self.judge.mean_s) - self.judge.sigma**2 / 2
            self._at(self._random.lognormvariate(mu, self.judge.sigma), self._answer, call)

    def _answer(self, call: Call) -> None:
        self._working -= 1  # a judge works on, whether or not somebody still waits
        if not call.over:
            call.over = True
            self.limit.on_answer(self.now_s, self.now_s - call.begun_s, self.in_flight)
            self.in_flight -= 1
            self.answered_at_s.append(self.now_s)
        self._work_on()

    def _refuse(self, call: Call) -> None:
        self.refused += 1
        self.limit.on_refusal(self.now_s, self.in_flight)
        self.in_flight -= 1

    def _time_out(self, call: Call) -> None:
        if not call.over:
            call.over = True
            self.timed_out += 1
            self.limit.on_timeout(self.now_s, self.now_s - call.begun_s, self.in_flight)
            self.in_flight -= 1
