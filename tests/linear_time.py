"""Measure how time grows with a text, without a bound in seconds that a slow or busy machine would
break.
"""

import time
from collections.abc import Callable

_CHARS = 60_000
_GROWTH = 8
LINEAR = 3 * _GROWTH  # quadratic time takes 64 times as long
_NOISE_S = 0.02
_TRIES = 6  # a busy machine slows single ones down


def growth(work: Callable[[str], object], unit: str, before: str = "", after: str = "") -> float:
    """Return how many times as much CPU time of this thread eight times the text takes; at most
    `LINEAR` if linear.

    The text repeats a unit, between `before` and `after`.
    """
    times = _CHARS // len(unit)
    short = before + unit * (times // _GROWTH) + after
    long = before + unit * times + after
    short_s = max(1e-9, min(_cpu_s(work, short) for _ in range(3)))
    factor = float("inf")
    tries = 0
    while factor > LINEAR and tries < _TRIES:
        factor = min(factor, (_cpu_s(work, long) - _NOISE_S) / short_s)
        tries = tries + 1
    return factor


def _cpu_s(work: Callable[[str], object], text: str) -> float:
    began_s = time.thread_time()
    work(text)
    return time.thread_time() - began_s
