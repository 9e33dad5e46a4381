"""Find the best number of calls in flight at an endpoint.

A full server refuses calls (429, 503) or queues them, as vLLM does. If it refuses calls, the level
is set just below the number in flight that caused a burst of refusals; refusals that occur at any
level are ignored. If it queues calls, the level is the smallest that reached its throughput, found
by doubling the level until only latency grows, and then halving it until throughput falls. Source:
additive increase, multiplicative decrease (Chiu and Jain, Computer Networks 17 (1989) 1)."""

import math
from dataclasses import dataclass

from genrm_cli.judging.pacing.load import BurstDetector, BusyCalls

# Most servers handle it, and it doubles within one latency.
FIRST_LEVEL = 16

# With the constants below, the limit reaches the goals of `tests/judging/pacing`.

# Refusals. A burst ends just below the level that caused it, so that little capacity stays idle.
_REFUSAL_FACTOR = 0.95  # share kept of the number in flight that was refused
_SAME_LEVEL = 0.15  # two bursts of refusals within this distance have the same cause: load
_LEAST_KEPT = 0.5  # share kept of a level when all calls in flight are refused at once
# A token bucket also refuses below its throughput.
_BUSY_KEPT = 0.9  # share kept of the calls that the server works on
_REFUSED_BY_STEPS = 0.02  # maximum share of calls refused because the level is raised by one

# Timeouts say less about load than refusals, and cost much more.
_TIMEOUT_FACTOR = 0.7
_MOST_USUAL = 0.2  # share of calls that are refused, or time out, at any level; the rest is load

# The climb. Epochs are noisy, so a small gain may be chance, and a small rise in latency, too.
_GROWTH = 1.15  # times the best throughput of the climb; less shows no gain
_SLOWER = 1.3  # times the least latency of the climb: the server begins to queue
_MUCH_SLOWER = 1.8  # it queues for certain, so that one epoch suffices
_GOOD_ENOUGH = 0.92  # share of the best throughput that a lower level must reach to be preferred

# Steps from a level that holds: small ones, now and then, since a wrong one costs an epoch.
_PROBE_STEP = 1.2
_EPOCHS_BETWEEN_PROBES = 5
# Times the throughput so far: a higher level must gain more than noise, a lower one may lose it.
_PAYS_ABOVE = 1.04
_PAYS_BELOW = 0.98
_PAYS_HALVED = 0.8  # half the level is kept if it reaches this share; steps upwards regain the rest


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
        """Learn from an answer."""

    def on_refusal(self, now_s: float, in_flight: int) -> bool:
        """Learn from a 429 or 503; return whether load caused it."""
        del now_s, in_flight
        return False

    def on_timeout(self, now_s: float, latency_s: float, in_flight: int) -> None:
        """Learn from a timeout."""

    def answer_gap_s(self) -> float:
        """Return the mean time between two answers, 0 if it is unknown."""
        return 0.0


@dataclass(frozen=True, slots=True)
class _Epoch:
    """The measurements of one epoch at one level."""

    level: float
    answers_per_s: float
    latency_s: float


class AdaptiveLimit(Limit):
    """A limit, at least 1 and at most `ceiling`, that adapts to the capacity of the endpoint."""

    adapts = True

    def __init__(self, ceiling: int) -> None:
        super().__init__(ceiling)
        self._level = float(min(FIRST_LEVEL, ceiling))
        self._climbing = True
        self._refused_at: float | None = None
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
        self._busy = BusyCalls()
        self._history: list[_Epoch] = []  # of the climb
        self._grows = True
        self._flat_epochs = 0
        self._steady: _Epoch | None = None
        self._descending = False
        self._probing = False
        self._upward = True
        self._epochs_held = 0
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
        self._latencies_s += latency_s
        # Only a fully used level justifies a higher one.
        if in_flight >= 0.8 * self.limit:
            self._used += 1
            if self._climbing:
                if self._grows:
                    self._raise_to(self._level + 1)
            elif self._refused_at is not None:
                self._raise_to(self._level + 1 / max(self._answers_a_step, self._level))
                if self._level > self._refused_at + max(2.0, self._refused_at / 10):
                    self._climb(now_s)  # calls that used to be refused are accepted again
        if self._answers >= self._epoch_answers():
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
        self._climbing = self._descending = self._probing = False
        self._refused_at = float(others)
        floor = max(_LEAST_KEPT * self._epoch_level, round(_BUSY_KEPT * self._busy.mean(now_s)))
        self._level = max(1.0, min(self._level, max(floor, math.ceil(_REFUSAL_FACTOR * others))))
        return True

    def on_timeout(self, now_s: float, latency_s: float, in_flight: int) -> None:
        """Learn from a call that timed out."""
        del latency_s, in_flight
        if self._timeouts.add(failed=True):
            self._timeouts.settle(is_usual=True)
            self._level = max(1.0, _TIMEOUT_FACTOR * self._level)
            self._climb(now_s)

    def answer_gap_s(self) -> float:
        """Return the mean time between two answers, 0 before the first one."""
        return self._busy.gap_s()

    def _climb(self, now_s: float) -> None:
        """Climb from the current level, and discard earlier measurements."""
        self._climbing = True
        self._refused_at = None
        self._steady = None
        self._descending = False
        self._probing = False
        self._grows = True
        self._history.clear()
        self._flat_epochs = 0
        self._begin_epoch(now_s)

    def _epoch_answers(self) -> float:
        if self._climbing:
            return max(16.0, self._epoch_level)
        if self._descending:
            return max(16.0, 2 * self._epoch_level)
        return max(128.0, 4 * self._epoch_level)

    def _begin_epoch(self, now_s: float | None) -> None:
        self._epoch_start_s = now_s
        self._epoch_level = self._level
        self._answers = self._used = 0
        self._latencies_s = 0.0

    def _end_epoch(self, now_s: float) -> None:
        elapsed_s = now_s - (self._epoch_start_s or 0.0)
        if elapsed_s > 0 and self._used >= self._answers / 2:
            epoch = _Epoch(
                self._epoch_level, self._answers / elapsed_s, self._latencies_s / self._answers
            )
            if self._climbing:
                self._judge_climb(epoch)
            elif self._refused_at is None:
                self._judge_level(epoch)
        self._begin_epoch(now_s)

    def _judge_climb(self, epoch: _Epoch) -> None:
        """Stop the climb when it only adds latency; settle at the lowest level that reached the
        throughput.

        One such epoch may be chance: it takes two, or one with much more latency. If latency does
        not grow, the server does not queue, and hanging calls occupy the slots."""
        best = max((past.answers_per_s for past in self._history), default=0.0)
        usual_s = min((past.latency_s for past in self._history), default=epoch.latency_s)
        is_flat = epoch.answers_per_s < _GROWTH * best and epoch.latency_s > _SLOWER * usual_s
        self._grows = bool(self._history) and not is_flat
        self._flat_epochs = self._flat_epochs + 1 if is_flat else 0
        self._history.append(epoch)
        at_knee = self._flat_epochs > 1 or (is_flat and epoch.latency_s > _MUCH_SLOWER * usual_s)
        if not at_knee and self._level < self.ceiling:
            return
        if at_knee:
            best = max(past.answers_per_s for past in self._history)
            good = [
                past.level for past in self._history if past.answers_per_s >= _GOOD_ENOUGH * best
            ]
            self._level = min(good)
        self._climbing = False
        self._steady = None
        if at_knee:
            self._descend_from(next(past for past in self._history if past.level == self._level))
        self._history.clear()
        self._flat_epochs = 0

    def _judge_level(self, epoch: _Epoch) -> None:
        """Hold a level; now and then try a higher or a lower one, and continue in that direction
        while it pays off.
        """
        steady = self._steady
        if steady is None:
            self._steady = epoch
        elif self._descending:
            if epoch.answers_per_s >= _PAYS_HALVED * steady.answers_per_s:
                self._descend_from(epoch)
            else:
                self._level = steady.level
                self._descending = False
        elif self._probing:
            pays = _PAYS_ABOVE if self._upward else _PAYS_BELOW
            if epoch.answers_per_s >= pays * steady.answers_per_s:
                self._steady = epoch
                self._probe()
            else:
                self._level = steady.level
                self._probing = False
                self._upward = not self._upward
        elif epoch.latency_s > 2 * steady.latency_s:
            self._descend_from(epoch)
        else:
            answers_per_s = (steady.answers_per_s + epoch.answers_per_s) / 2
            self._steady = _Epoch(
                steady.level, answers_per_s, (steady.latency_s + epoch.latency_s) / 2
            )
            self._epochs_held += 1
            if self._epochs_held % _EPOCHS_BETWEEN_PROBES == 0:
                self._probe()

    def _descend_from(self, steady: _Epoch) -> None:
        """Halve the level while the throughput stays."""
        self._steady = steady
        self._descending = self._level > 1
        self._level = max(1.0, self._level / 2)

    def _probe(self) -> None:
        step = max(1.0, (_PROBE_STEP - 1) * self._level)
        level = min(float(self.ceiling), max(1.0, self._level + (step if self._upward else -step)))
        self._probing = level != self._level
        if not self._probing:
            self._upward = not self._upward
        self._level = level

    def _raise_to(self, level: float) -> None:
        self._level = min(float(self.ceiling), level)
