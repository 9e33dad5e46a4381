"""The number of calls that a server works on, and the time between two answers, from its answers alone."""

_FADING = 1 - 1 / 64  # weight of an answer at the time of the next one


class BusyCalls:
    """The mean number of calls that a server works on: answers a second times their latency (Little's law)."""

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
        passed_s = self._passed_s + (0.0 if self._last_answer_s is None else now_s - self._last_answer_s)
        return self._worked_s / passed_s if passed_s > 0 else 0.0

    def gap_s(self) -> float:
        """Return the mean time between two answers, 0 before the first one."""
        return self._passed_s / self._answers if self._answers else 0.0
