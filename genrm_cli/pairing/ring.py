"""Rings: every rollout meets as many others as any, and is as often first as second.

A ring of one offset o is all (t, t + o mod n). Rings are laid until all pairs have met, but for opposite rollouts of an
even n: those make two rings of half the length, one for each order. Then the rings are laid again in the other order.
"""

from math import floor, gcd

from genrm_cli.pairing.offsets import best_offsets, count_offsets, next_offset

_Pairs = list[tuple[int, int]]


def ring_sizes(n: int) -> list[int]:
    """Return how many comparisons each of the rings of n rollouts has; together n(n - 1), every ordered pair.

    Two rollouts have one ring, both orders.
    """
    opposites = [2] if n == 2 else [n // 2] * 2 if n > 0 and n % 2 == 0 else []
    rings = [n] * count_offsets(n)
    return rings + opposites + rings


def count_ring(n: int, k: float) -> int:
    """Count the comparisons of k rings; a fraction is that share of the next ring, rounded down."""
    sizes, whole = ring_sizes(n), int(k)
    return sum(sizes[:whole]) + sum(_part_of(size, k) for size in sizes[whole : whole + 1])


def plan_ring(n: int, k: float) -> _Pairs:
    """Plan k rings of the best offsets; no ordered pair twice, so at most n(n - 1) comparisons.

    After whole rings each rollout is first as often as second, after a half ring or a share of a ring but for one.
    """
    count = count_offsets(n)
    opposites = [(t + n // 2, t) if t % 2 else (t, t + n // 2) for t in range(n // 2)] if n % 2 == 0 else []
    opposites += [(j, i) for i, j in opposites]
    planned = _plan_offsets(n, min(k, count))
    planned += opposites[: max(0, count_ring(n, k) - n * count)]
    again = k - (len(ring_sizes(n)) - count)
    return planned + [(j, i) for i, j in _plan_offsets(n, max(0.0, min(again, count)))]


def _part_of(size: int, k: float) -> int:
    # 0.3 of a ring of 10 is 3, although 10 * (2.3 - 2) is a little less.
    return floor((k - int(k)) * size + 1e-9)


def _plan_offsets(n: int, k: float) -> _Pairs:
    """Plan k of the rings that have an offset."""
    offsets = best_offsets(n, int(k))
    planned = [pair for offset in offsets for pair in _ring_of(n, offset)]
    part = _part_of(n, k)
    return planned + (_ring_of(n, next_offset(n, offsets))[:part] if part else [])


def _ring_of(n: int, offset: int) -> _Pairs:
    """Return all (t, t + offset), those first that have no rollout in common.

    So a share of a ring, too, spreads its comparisons evenly.
    """
    cycles, length = gcd(n, offset), n // gcd(n, offset)
    apart = list(range(0, length - 1, 2))
    joining = sorted(set(range(length)) - set(apart), reverse=True)
    starts = [(start + step * offset) % n for steps in (apart, joining) for step in steps for start in range(cycles)]
    return [(t, (t + offset) % n) for t in starts]
