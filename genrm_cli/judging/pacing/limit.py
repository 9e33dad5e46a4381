"""How many calls an endpoint should have in flight: found by trying, without a clock of its own.

A server that is full says so in one of two ways. It refuses (429, 503): then the level is just below the number in
flight at which it refused. Or it queues in silence, as vLLM does: then throughput stops growing while latency goes
on growing, and the level is the smallest one that reached the throughput. Source of the first half: additive
increase, multiplicative decrease (Chiu and Jain, Computer Networks 17 (1989) 1).
"""

import math
from dataclasses import dataclass

_REFUSAL_FACTOR = 0.95  # kept of the number in flight that was refused
_ANSWERS_A_STEP = 50  # at least, between two tries of one call more than was refused
_TIMEOUT_FACTOR = 0.7
_HANGING_SHARE = 0.05  # of an epoch's calls: as few that time out hang by themselves, whatever the level
_LEAST_KEPT = 0.5  # of a level, when all that is in flight is refused at once
_SLOWER = 1.8  # times the least latency of the climb
_GROWTH = 1.15  # an epoch of the first climb whose throughput grew by less shows no gain
_PROBE_STEP = 1.2
_PAYS_ABOVE, _PAYS_BELOW = 1.04, 0.98  # times the throughput so far: then a higher, or lower, level is kept
_EPOCHS_BETWEEN_PROBES = 5
_GOOD_ENOUGH = 0.92  # share of the best throughput that a lower level must reach to be preferred


@dataclass(frozen=True, slots=True)
class _Epoch:
    """What one epoch measured: at which level, how many answers a second, how long each took."""

    level: float
    answers_per_s: float
    latency_s: float

    def mixed_with(self, later: "_Epoch") -> "_Epoch":
        """Return the mean of this epoch and a later one at the same level."""
        answers_per_s = (self.answers_per_s + later.answers_per_s) / 2
        return _Epoch(self.level, answers_per_s, (self.latency_s + later.latency_s) / 2)


class AdaptiveLimit:
    """A limit that climbs while climbing pays.

    Attributes:
        ceiling: never exceeded.
        limit: calls that may be in flight now, at least 1.
    """

    def __init__(self, ceiling: int, start: int = 16) -> None:
        self.ceiling = ceiling
        self._level = float(min(start, ceiling))
        self._climbing = True
        self._refused_at: float | None = None
        self._history: list[_Epoch] = []  # of the first climb
        self._flat_epochs = 0
        self._steady: _Epoch | None = None
        self._probing = False
        self._upward = True
        self._epochs_held = 0
        self._lowered_at_s = -math.inf
        self._begin_epoch(None)

    @property
    def limit(self) -> int:
        """Calls that may be in flight now."""
        return max(1, int(self._level))

    def on_answer(self, now_s: float, latency_s: float, in_flight: int) -> None:
        """Learn from a call that was answered.

        Args:
            now_s: any monotonic clock.
            latency_s: how long the call took.
            in_flight: calls in flight, this one included.
        """
        if self._epoch_start_s is None:
            self._begin_epoch(now_s - latency_s)
        self._answers += 1
        self._latencies_s += latency_s
        # A level that is not used teaches nothing about a higher one.
        if in_flight >= 0.8 * self.limit:
            self._used += 1
            if self._climbing:
                self._raise_to(self._level + 1)
            elif self._refused_at is not None:
                self._raise_to(self._level + 1 / max(_ANSWERS_A_STEP, self._level))
        if self._answers >= self._epoch_answers():
            self._end_epoch(now_s)

    def on_refusal(self, now_s: float, in_flight: int) -> None:
        """Learn from a 429 or 503: the level is just below what was in flight besides the refused call."""
        others = max(1, in_flight - 1)
        self._climbing = self._probing = False
        self._refused_at = float(others)
        floor = _LEAST_KEPT * self._epoch_level
        self._level = max(1.0, min(self._level, max(floor, math.ceil(_REFUSAL_FACTOR * others))))
        self._refusals += 1
        if self._refusals > self._epoch_level:
            self._begin_epoch(now_s)

    def on_timeout(self, now_s: float, latency_s: float, in_flight: int) -> None:
        """Learn from a call that was not answered in time; nothing from a few, nor from one begun at a higher level."""
        del in_flight
        if now_s - latency_s < self._lowered_at_s:
            return
        self._timeouts += 1
        if self._timeouts <= _HANGING_SHARE * self._epoch_answers():
            return
        self._climbing = self._probing = False
        self._steady = None
        self._lowered_at_s = now_s
        self._level = max(1.0, _TIMEOUT_FACTOR * self._level)
        self._begin_epoch(now_s)

    def _epoch_answers(self) -> float:
        if self._climbing:
            return max(32.0, self._epoch_level)
        return max(128.0, 4 * self._epoch_level)

    def _begin_epoch(self, now_s: float | None) -> None:
        self._epoch_start_s = now_s
        self._epoch_level = self._level
        self._answers = self._used = self._refusals = self._timeouts = 0
        self._latencies_s = 0.0

    def _end_epoch(self, now_s: float) -> None:
        elapsed_s = now_s - (self._epoch_start_s or 0.0)
        if elapsed_s > 0 and self._used >= self._answers / 2:
            epoch = _Epoch(self._epoch_level, self._answers / elapsed_s, self._latencies_s / self._answers)
            if self._climbing:
                self._judge_climb(epoch)
            elif self._refused_at is None:
                self._judge_level(epoch)
            elif self._level > self._refused_at + max(2.0, self._refused_at / 4):
                self._climbing, self._refused_at = True, None  # the server has grown
                self._history.clear()
        self._begin_epoch(now_s)

    def _judge_climb(self, epoch: _Epoch) -> None:
        """Stop climbing when it brings no gain any more; settle where the throughput was reached.

        One epoch without gain may be chance: it takes two of them, or one with latency that has grown.
        """
        best = max((past.answers_per_s for past in self._history), default=0.0)
        usual_s = min((past.latency_s for past in self._history), default=epoch.latency_s)
        self._flat_epochs = self._flat_epochs + 1 if epoch.answers_per_s < _GROWTH * best else 0
        self._history.append(epoch)
        at_knee = self._flat_epochs > 1 or (self._flat_epochs == 1 and epoch.latency_s > _SLOWER * usual_s)
        if not at_knee and self._level < self.ceiling:
            return
        if at_knee:
            best = max(past.answers_per_s for past in self._history)
            good = [past.level for past in self._history if past.answers_per_s >= _GOOD_ENOUGH * best]
            self._level = min(good)
        self._climbing = False
        self._steady = None
        self._history.clear()
        self._flat_epochs = 0

    def _judge_level(self, epoch: _Epoch) -> None:
        """Hold a level; now and then try a higher or a lower one, and go on that way while it pays."""
        steady = self._steady
        if steady is None:
            self._steady = epoch
        elif self._probing:
            pays = _PAYS_ABOVE if self._upward else _PAYS_BELOW
            if epoch.answers_per_s >= pays * steady.answers_per_s:
                self._steady = epoch
                self._probe()
            else:
                self._level, self._probing, self._upward = steady.level, False, not self._upward
        elif epoch.latency_s > 2 * steady.latency_s:
            self._level = max(1.0, 0.8 * self._level)
            self._steady = None
        else:
            self._steady = steady.mixed_with(epoch)
            self._epochs_held += 1
            if self._epochs_held % _EPOCHS_BETWEEN_PROBES == 0:
                self._probe()

    def _probe(self) -> None:
        step = max(1.0, (_PROBE_STEP - 1) * self._level)
        level = min(float(self.ceiling), max(1.0, self._level + (step if self._upward else -step)))
        self._probing = level != self._level
        if not self._probing:
            self._upward = not self._upward
        self._level = level

    def _raise_to(self, level: float) -> None:
        self._level = min(float(self.ceiling), level)
