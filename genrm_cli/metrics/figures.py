"""Three rules for every number that a run computes.

**It is rounded before it decides anything.** Matrix products, sums and exponentials differ in their
last bits between processors and between releases of numpy. An order, a rank, a maximum, a threshold
or a plan that looked at those bits would differ as well: equal rewards would get different ranks,
and the same input different pairs. Therefore estimates are rounded once, where they leave the
linear algebra, and whatever decides works on rounded numbers. All later steps are IEEE scalar
arithmetic, which is equal everywhere.

**A figure that describes a run never prevents its outputs.** Figures are computed after every call
is paid. One that raises is null, its reason is kept, and the run ends with exit code 1 after all
outputs are written. Rewards are not figures: a rollout whose reward cannot be computed has none.

**It is printed as it decided.** An interval is rounded outward, and no number is rounded onto one
that decides: a reliability of .7996 that is not high is not shown as 0.80.
"""

import math
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from traceback import extract_tb
from typing import Any, TypeVar, cast

from msgspec import Struct
from msgspec.structs import asdict, replace

from genrm_cli.errors import FigureError, GenrmError, StoppedError

_T = TypeVar("_T")
# Far above the rounding of double arithmetic, far below what verdicts resolve.
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


def rounded_figures(figures: _T) -> _T:
    """Return figures with every number rounded that is no integer: in records, tables, tuples.

    Integrals, exponentials and sums in another order then give the same metrics file everywhere.
    """
    result: Any = figures
    if isinstance(figures, float):
        result = rounded(figures)
    elif isinstance(figures, Struct):
        result = replace(figures, **rounded_figures(asdict(figures)))
    elif isinstance(figures, Mapping):
        result = {name: rounded_figures(value) for name, value in figures.items()}
    elif type(result) is tuple:
        result = tuple(rounded_figures(each) for each in result)
    return cast(_T, result)


class FigureForm(Struct, frozen=True):
    """How a figure and its interval are printed; what is unknown is `-`.

    Attributes:
        digits: after the point; more, where fewer would show a number that decides.
        decisive: the numbers that decide, in the unit of the figure.
        sign: `+` to show that of numbers above 0, too.
        unit: what 1 is printed as, 100 for percent.
    """

    digits: int
    decisive: tuple[float, ...] = ()
    sign: str = ""
    unit: float = 1.0

    def number(self, value: float | None) -> str:
        """Return a number, as in `0.83`."""
        return "-" if value is None else self._shown(value, round)

    def ends(self, low: float | None, high: float | None) -> str:
        """Return an interval rounded outward, as in `0.78 to 0.87`."""
        if low is None or high is None:
            return "-"
        return f"{self._shown(low, math.floor)} to {self._shown(high, math.ceil)}"

    def text(self, value: float | None, low: float | None, high: float | None) -> str:
        """Return a number with its interval if it has one, as in `0.83 (0.78 to 0.87)`."""
        if value is None or low is None or high is None:
            return self.number(value)
        return f"{self.number(value)} ({self.ends(low, high)})"

    def _shown(self, value: float, whole: Callable[[float], int]) -> str:
        value = rounded(value)
        for digits in range(self.digits, _DIGITS):
            scale = self.unit * 10**digits
            shown = rounded(whole(rounded(value * scale)) / scale)
            if all(_side(value, each) == _side(shown, each) for each in self.decisive):
                return f"{self.unit * shown:{self.sign}.{digits}f}"
        return f"{self.unit * value:{self.sign}.{_DIGITS}f}"


PERCENT = FigureForm(1, unit=100)
WINS = FigureForm(1, (0.5,), unit=100)
"""Of a share that one half decides: wins, or pairs judged right."""
DIFFERENCE = FigureForm(3, (0.0,), "+")
POINTS = FigureForm(1, (0.0,), "+", 100)
STRENGTH = FigureForm(2, (0.0,), "+")


def _side(value: float, of: float) -> int:
    """Return 1 above, 0 at and -1 below a number."""
    return (value > of) - (value < of)


def attempt(
    failed: MutableMapping[str, str], figures: Iterable[str], compute: Callable[[], _T]
) -> _T | None:
    """Return what a function computes; None if it raises, with the reason for each of its figures
    in `failed`.
    """
    try:
        return compute()
    # Refusals are for the user, and a stop ends the run: neither is a bug.
    except (GenrmError, StoppedError):
        raise
    except Exception as error:  # noqa: BLE001  (a bug in a statistic, which is told in the end)
        reason = bug_text(error)
        for figure in figures:
            failed.setdefault(figure, reason)
        return None


def refuse_failed_figures(failed: Mapping[str, str] | None) -> None:
    """Raise `FigureError` for a finished run with figures that could not be computed."""
    if not failed:
        return
    figures: dict[str, list[str]] = {}
    for figure, reason in failed.items():
        figures.setdefault(reason, []).append(figure)
    text = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in figures.items())
    raise FigureError(
        f"a bug kept some figures from being computed; the outputs hold everything else. {text}. "
        "Please report it."
    )


def bug_text(error: Exception) -> str:
    """Return what was raised and where, for a report of the bug."""
    where = extract_tb(error.__traceback__)[-1]
    module = where.filename.replace("\\", "/").rpartition("/")[2]
    return f"{type(error).__name__}: {error} ({module}:{where.lineno}, {where.name})"
