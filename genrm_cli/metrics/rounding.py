"""Round a number before it decides anything.

Matrix products, sums and exponentials differ in their last bits between processors and between
releases of numpy. An order, a rank, a maximum, a threshold or a plan that looked at those bits
would differ as well: equal rewards would get different ranks, and the same input different pairs.
Therefore estimates are rounded once, where they leave the linear algebra, and whatever decides
works on rounded numbers. All later steps are IEEE scalar arithmetic, which is equal everywhere.
"""

from collections.abc import Iterable

_DIGITS = 9
_FORMAT = f".{_DIGITS}g"


def rounded(value: float) -> float:
    """Return a number rounded to 9 significant digits; below 1, to 9 decimal places.

    Near 0, significant digits would keep what is left of numbers that cancel out.
    """
    return round(value, _DIGITS) if -1 < value < 1 else float(format(value, _FORMAT))


def rounded_all(values: Iterable[float]) -> list[float]:
    """Return the rounded numbers."""
    return [rounded(value) for value in values]
