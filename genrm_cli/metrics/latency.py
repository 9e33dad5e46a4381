"""Latencies of calls, in constant memory."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

_STEP = 1.1  # each bucket is a tenth wider than the previous one: quantiles are accurate to 5 %
_LEAST_S = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencySummary:
    """Latencies in seconds; `histogram_s` counts them by upper bounds that double."""

    mean_s: float | None
    median_s: float | None
    p99_s: float | None
    histogram_s: Mapping[str, int]


class Latencies:
    """A histogram of latencies with buckets that grow by a tenth."""

    def __init__(self) -> None:
        self.count = 0
        self._sum_s = 0.0
        self._buckets: Counter[int] = Counter()

    def add(self, latency_s: float) -> None:
        """Add a latency."""
        self.count += 1
        self._sum_s += latency_s
        self._buckets[max(0, math.ceil(math.log(max(latency_s, _LEAST_S) / _LEAST_S, _STEP)))] += 1

    def merge(self, other: "Latencies") -> None:
        """Add the latencies of another part."""
        self.count += other.count
        self._sum_s += other._sum_s
        self._buckets.update(other._buckets)

    def quantile_s(self, share: float) -> float | None:
        """Return the latency that this share (0 to 1) of the calls did not exceed; None without calls."""
        if not self.count:
            return None
        needed = share * self.count
        seen = 0
        buckets = dict(self._buckets)  # a copy: another thread may be adding
        for bucket in sorted(buckets):
            seen += buckets[bucket]
            if seen >= needed:
                break
        return float(_LEAST_S * _STEP ** (bucket - 0.5))

    def doubling_buckets(self) -> list[tuple[float, int]]:
        """Return a histogram: upper bounds that double, in seconds, each with its own count."""
        histogram: Counter[float] = Counter()
        for bucket, count in self._buckets.items():
            latency_s = _LEAST_S * _STEP ** (bucket - 0.5)
            histogram[2.0 ** math.ceil(math.log2(latency_s))] += count
        return [(bound, histogram[bound]) for bound in sorted(histogram)]

    def summary(self) -> LatencySummary:
        """Return the statistics of the latencies so far."""
        return LatencySummary(
            mean_s=self._sum_s / self.count if self.count else None,
            median_s=self.quantile_s(0.5),
            p99_s=self.quantile_s(0.99),
            histogram_s={f"{bound:g}": count for bound, count in self.doubling_buckets()},
        )
