"""Measure how time grows with a text, without a bound in seconds that a slow or busy machine would break."""

import time
from collections.abc import Callable

_GROWTH = 8
_ALLOWED = 3 * _GROWTH  # quadratic time takes 64 times as long
_NOISE_S = 0.02
_TRIES = 6  # a busy machine slows single ones down


def assert_linear(work: Callable[[str], object], make_text: Callable[[int], str], chars: int = 60_000) -> None:
    """Check that eight times the text takes at most 24 times the CPU time of this thread."""
    short, long = make_text(chars // _GROWTH), make_text(chars)
    short_s = min(_cpu_s(work, short) for _ in range(3))
    allowed_s = _ALLOWED * short_s + _NOISE_S
    measured_s: list[float] = []
    while not measured_s or (min(measured_s) > allowed_s and len(measured_s) < _TRIES):
        measured_s.append(_cpu_s(work, long))
    assert min(measured_s) <= allowed_s, (long[:60], short_s, measured_s)


def _cpu_s(work: Callable[[str], object], text: str) -> float:
    began_s = time.thread_time()
    work(text)
    return time.thread_time() - began_s
