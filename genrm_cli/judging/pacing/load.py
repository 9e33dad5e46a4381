"""Estimate the load of an endpoint from the answers and failures of its calls."""

import math

_PRIOR_SHARE = 0.08  # hosted endpoints refuse a few per cent of calls at any load
_LEAST_SHARE = 1e-4  # if fewer failures are known, a single one is a burst
_FADING = 1 - 1 / 64  # weight of an answer at the time of the next one


class BurstDetector:
    """Learns the usual share of failing calls, and detects when it rises.

    Source: the cumulative sum test of Page, Biometrika 41 (1954) 100, with log-likelihood ratios.
    """

    def __init__(
        self,
        most_share: float,
        *,
        added_share: float,
        calls_to_false_alarm: float,
        remembered_calls: float,
    ) -> None:
        """Start with a guess of the usual share, which is estimated from `remembered_calls` and at
        most `most_share`.

        A burst makes `added_share` of the usually successful calls fail.
        """
        self._most_share = most_share
        self._added_share = added_share
        self._alarm = math.log(calls_to_false_alarm)
        self._remembered_calls = remembered_calls
        self._calls = remembered_calls / 15
        self._failed = _PRIOR_SHARE * self._calls
        self._score = 0.0
        self._suspect_calls = self._suspect_failed = 0

    @property
    def usual_share(self) -> float:
        """The estimated share of calls that fail at any load."""
        return min(self._most_share, max(_LEAST_SHARE, self._failed / self._calls))

    def add(self, *, failed: bool) -> bool:
        """Count a call; return whether the last ones are a burst, after which `settle` must be
        called.
        """
        usual = self.usual_share
        burst = usual + self._added_share * (1 - usual)
        self._suspect_calls += 1
        self._suspect_failed += failed
        change = math.log(burst / usual) if failed else math.log((1 - burst) / (1 - usual))
        self._score = max(0.0, self._score + change)
        if self._score == 0.0:
            self.settle(is_usual=True)
        return self._score >= self._alarm

    def settle(self, *, is_usual: bool) -> int:
        """End a suspected burst; learn from it if it turned out to be usual. Return how many of its
        calls failed.
        """
        failed = self._suspect_failed
        if is_usual:
            self._calls += self._suspect_calls
            self._failed += self._suspect_failed
            forget = min(1.0, self._remembered_calls / self._calls)
            self._calls *= forget
            self._failed *= forget
        self._score = 0.0
        self._suspect_calls = self._suspect_failed = 0
        return failed


class BusyCalls:
    """The mean number of calls that a server works on: answers a second times their latency
    (Little's law).
    """

    def __init__(self) -> None:
        self._worked_s = self._passed_s = self._answers = 0.0
        self._last_answer_s: float | None = None

    def add(self, now_s: float, latency_s: float) -> None:
        """Count an answer; old ones fade."""
        since_s = latency_s if self._last_answer_s is None else now_s - self._last_answer_s
        self._passed_s = _FADING * self._passed_s + since_s
        self._worked_s = _FADING * self._worked_s + latency_s
        self._answers = _FADING * self._answers + 1
        self._last_answer_s = now_s

    def mean(self, now_s: float) -> float:
        """Return the mean so far, 0 before the first answer."""
        passed_s = self._passed_s + (
            0.0 if self._last_answer_s is None else now_s - self._last_answer_s
        )
        return self._worked_s / passed_s if passed_s > 0 else 0.0

    def gap_s(self) -> float:
        """Return the mean time between two answers, 0 before the first one."""
        return self._passed_s / self._answers if self._answers else 0.0
