"""Tell a burst of failing calls, which load causes, from failures that occur at any load."""

import math

_PRIOR_SHARE = 0.08  # hosted endpoints refuse a few per cent of calls whatever the load
_LEAST_SHARE = 1e-4  # with less known failures than this, a single one is a burst


class BurstDetector:
    """Learns the usual share of failing calls, and detects when it rises.

    Source: the cumulative sum test of Page, Biometrika 41 (1954) 100, with log-likelihood ratios.
    """

    def __init__(
        self, most_share: float, *, added_share: float, calls_to_false_alarm: float, remembered_calls: float
    ) -> None:
        """Begin with a guess of the usual share.

        Args:
            most_share: the usual share is never believed to be above it.
            added_share: what a burst adds to the usual share, of the calls that usually succeed.
            calls_to_false_alarm: mean number of calls, at least, until a false alarm.
            remembered_calls: how many of the last calls tell the usual share.
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
        """The share of calls that fail at any load, as far as is known."""
        return min(self._most_share, max(_LEAST_SHARE, self._failed / self._calls))

    def add(self, *, failed: bool) -> bool:
        """Count a call; say whether the last ones are a burst, which `settle` must follow."""
        usual = self.usual_share
        burst = usual + self._added_share * (1 - usual)
        self._suspect_calls += 1
        self._suspect_failed += failed
        change = math.log(burst / usual) if failed else math.log((1 - burst) / (1 - usual))
        self._score = max(0.0, self._score + change)
        if self._score == 0.0:
            self.settle(is_usual=True)
        return self._score >= self._alarm

    def learn_failure(self) -> None:
        """Count a failing call as usual, whatever came with it."""
        self._calls += 1
        self._failed += 1

    def settle(self, *, is_usual: bool) -> int:
        """End what looked like a burst; learn from it if it turned out to be usual.

        Returns:
            How many calls failed in it.
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
