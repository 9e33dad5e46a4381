"""Find the best number of calls in flight at an endpoint.

    after a burst of refusals     level = max(0.5 epoch, 0.9 busy, 0.95 (in flight - 1))
    after a burst of timeouts     level = 0.7 level
    after an epoch of answers     level = factor × level, kept if throughput grew by `pays`

A full server refuses calls (429, 503) or queues them, as vLLM does. If it refuses calls, the level
is set just below the number in flight that caused a burst of refusals, and rises slowly; refusals
that occur at any level are ignored. If it queues calls, only the throughput tells: epochs at
another level (`_STEPS`) are compared with the best one so far. A step is repeated while it pays;
otherwise the level returns, and the next step is tried. Source: additive increase, multiplicative
decrease (Chiu and Jain, Computer Networks 17 (1989) 1)."""

import math
from typing import NamedTuple

from msgspec import Struct

from genrm_cli.judging.pacing.load import BurstDetector, BusyCalls

# Most servers handle it, and it doubles within one latency.
FIRST_LEVEL = 16

# With the constants below, the limit reaches the goals of `tests/judging/pacing`.

# Refusals. A burst ends just below the level that caused it, so that little capacity stays idle.
_REFUSAL_FACTOR = 0.95  # share kept of the number in flight that was refused
_SAME_LEVEL = 0.15  # two bursts of refusals within this distance have the same cause: load
_LEAST_KEPT = 0.5  # share kept of a level when all calls in flight are refused at once
# The level stays above this share of the calls that the server works on: a token bucket refuses
# bursts below its throughput, too.
_BUSY_KEPT = 0.9
_REFUSED_BY_STEPS = 0.02  # maximum share of calls refused because the level is raised by one
# Timeouts say less about load than refusals, and cost much more.
_TIMEOUT_FACTOR = 0.7
_MOST_USUAL = 0.2  # share of calls that are refused, or time out, at any level; the rest is load
_LEAST_EPOCH = 16  # answers of an epoch: with fewer, its throughput is mostly noise
_EPOCHS_HELD = 5  # between two tries of a level that holds, since a wrong one costs an epoch


class _Step(NamedTuple):
    """A change of the level, and the throughput, as a share of that before, at which it pays.

    A higher level must gain more than noise; a lower one may lose it."""

    factor: float
    pays: float
    epoch: float  # answers of an epoch for each call of the level


_DOUBLE = _Step(2.0, 1.15, 1.0)
_HALVE = _Step(0.5, 0.85, 2.0)
_UP = _Step(1.2, 1.04, 4.0)
_DOWN = _Step(1 / 1.2, 0.98, 4.0)
_NEXT = {_DOUBLE: _HALVE, _HALVE: _UP, _UP: _DOWN, _DOWN: _UP}


class Limit:
    """A limit of calls in flight. This one is set by the user; others learn from the calls."""

    adapts: bool = False
    """Whether it decreases when the endpoint refuses calls, so that refused calls need no growing
    waits.
    """

    def __init__(self, ceiling: int) -> None:
        self.ceiling = ceiling

    @property
    def limit(self) -> int:
        """Calls that may be in flight now."""
        return self.ceiling

    def on_answer(self, now_s: float, latency_s: float, in_flight: int) -> None:
        """Learn from a call that was answered; `in_flight` includes it."""

    def on_refusal(self, now_s: float, in_flight: int) -> bool:
        """Learn from a 429 or 503; return whether load caused it."""
        del now_s, in_flight
        return False

    def on_timeout(self, now_s: float) -> None:
        """Learn from a timeout."""

    def answer_gap_s(self) -> float:
        """Return the mean time between two answers, 0 if it is unknown."""
        return 0.0


class _Epoch(Struct, frozen=True):
    """The throughput of one epoch at one level."""

    level: float
    answers_per_s: float


class AdaptiveLimit(Limit):
    """A limit, at least 1 and at most `ceiling`, that adapts to the capacity of the endpoint."""

    adapts = True

    def __init__(self, ceiling: int) -> None:
        super().__init__(ceiling)
        self._level = float(min(FIRST_LEVEL, ceiling))
        self._goal = self._level  # to which the level rises, by one for each answer
        self._refused_at: float | None = None  # calls in flight at the last burst of refusals
        self._last_refused_at = -math.inf
        self._is_confirmed = False
        self._refusals_since_cut = 0
        self._answers_a_step = 1 / _REFUSED_BY_STEPS
        self._refusals = BurstDetector(
            _MOST_USUAL, added_share=0.3, calls_to_false_alarm=1e4, remembered_calls=600
        )
        self._timeouts = BurstDetector(
            _MOST_USUAL, added_share=0.6, calls_to_false_alarm=1e6, remembered_calls=9_000
        )
        self._step = _DOUBLE
        self._best: _Epoch | None = None
        self._held_epochs = 0
        self._busy = BusyCalls()
        self._begin_epoch(None)

    @property
    def limit(self) -> int:
        """Calls that may be in flight now."""
        return max(1, int(min(self._level, self.ceiling)))

    def on_answer(self, now_s: float, latency_s: float, in_flight: int) -> None:
        """Learn from a call that was answered; `in_flight` includes it."""
        if self._epoch_start_s is None:
            self._begin_epoch(now_s - latency_s)
        self._refusals.add(failed=False)
        self._timeouts.add(failed=False)
        self._busy.add(now_s, latency_s)
        if in_flight > self.limit + 1:
            self._begin_epoch(now_s)  # measurements at a higher level do not apply to this one
            return
        self._answers += 1
        # Only a fully used level justifies a higher one.
        is_used = in_flight >= 0.8 * self.limit
        self._used += is_used
        if is_used and self._refused_at is not None:
            self._level += 1 / max(self._answers_a_step, self._level)
            if self._level > self._refused_at + max(2.0, self._refused_at / 10):
                self._climb(now_s)  # calls that used to be refused are accepted again
        elif is_used and self._level < self._goal:
            self._level = min(self._goal, self._level + 1)
            self._begin_epoch(now_s)
        self._level = min(self._level, float(self.ceiling))
        if self._answers >= max(_LEAST_EPOCH, self._step.epoch * self._level):
            self._end_epoch(now_s)

    def on_refusal(self, now_s: float, in_flight: int) -> bool:
        """Learn from a 429 or 503; return whether load caused it, so that the level was lowered."""
        if not self._refusals.add(failed=True):
            self._refusals_since_cut += 1
            is_repeated = self._refusals_since_cut > 1 and not self._is_confirmed
            if is_repeated and self._refused_at is not None:
                # Calls at a lower level are refused as well: load was not the cause.
                self._climb(now_s)
            return False
        others = max(1, in_flight - 1)
        self._is_confirmed = abs(others - self._last_refused_at) <= max(2.0, _SAME_LEVEL * others)
        self._last_refused_at = float(others)
        self._refusals_since_cut = 0
        # Load causes refusals at the same level as before. Refusals far below it have another
        # cause, or capacity shrank.
        by_load = self._refused_at is None or others >= 0.9 * self._refused_at - 1
        usual = self._refusals.usual_share
        self._answers_a_step = self._refusals.settle(is_usual=not by_load) / max(
            _REFUSED_BY_STEPS, usual
        )
        self._refused_at = float(others)
        floor = max(_LEAST_KEPT * self._epoch_level, round(_BUSY_KEPT * self._busy.mean(now_s)))
        self._level = max(1.0, min(self._level, max(floor, math.ceil(_REFUSAL_FACTOR * others))))
        return True

    def on_timeout(self, now_s: float) -> None:
        """Learn from a call that timed out."""
        if self._timeouts.add(failed=True):
            self._timeouts.settle(is_usual=True)
            self._level = max(1.0, _TIMEOUT_FACTOR * self._level)
            self._climb(now_s)

    def answer_gap_s(self) -> float:
        """Return the mean time between two answers, 0 before the first one."""
        return self._busy.gap_s()

    def _climb(self, now_s: float) -> None:
        """Climb from the current level, and discard earlier measurements."""
        self._refused_at = None
        self._best = None
        self._step = _DOUBLE
        self._goal = self._level
        self._begin_epoch(now_s)

    def _begin_epoch(self, now_s: float | None) -> None:
        self._epoch_start_s = now_s
        self._epoch_level = self._level
        self._answers = self._used = 0

    def _end_epoch(self, now_s: float) -> None:
        elapsed_s = now_s - (self._epoch_start_s or 0.0)
        if elapsed_s > 0 and self._used >= self._answers / 2 and self._refused_at is None:
            self._judge(_Epoch(self._epoch_level, self._answers / elapsed_s))
        self._begin_epoch(now_s)

    def _judge(self, epoch: _Epoch) -> None:
        """Repeat the step while it pays; otherwise return to the best level, and choose another.

        The best throughput follows that of epochs at its level."""
        best = self._best
        if best is None:
            self._best = epoch
        elif epoch.level == best.level:
            self._held_epochs += 1
            self._best = _Epoch(best.level, (best.answers_per_s + epoch.answers_per_s) / 2)
            if self._held_epochs % _EPOCHS_HELD:
                return
        elif epoch.answers_per_s >= self._step.pays * best.answers_per_s:
            self._best = epoch
            if self._step is _UP and epoch.answers_per_s >= _DOUBLE.pays * best.answers_per_s:
                self._step = _DOUBLE  # the throughput rises with the level: the server has room
        else:
            self._goal = self._level = best.level
            is_fine = self._step in (_UP, _DOWN)
            self._step = _NEXT[self._step]
            if is_fine:
                return
        self._try_step()

    def _try_step(self) -> None:
        for _ in _NEXT:
            change = (self._step.factor - 1) * self._level
            change = math.copysign(max(1.0, abs(change)), change)
            goal = min(float(self.ceiling), max(1.0, self._level + change))
            if goal != self._level:
                break
            self._step = _NEXT[self._step]
        self._goal = goal
        self._level = min(self._level, goal)
