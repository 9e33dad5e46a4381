"""Two rules for every number that a run computes.

**It is rounded before it decides anything.** Matrix products, sums and exponentials differ in their
last bits between processors and between releases of numpy. An order, a rank, a maximum, a threshold
or a plan that looked at those bits would differ as well: equal rewards would get different ranks,
and the same input different pairs. Therefore estimates are rounded once, where they leave the
linear algebra, and whatever decides works on rounded numbers. All later steps are IEEE scalar
arithmetic, which is equal everywhere.

**A figure that describes a run never prevents its outputs.** Figures are computed after every call
is paid. One that raises is null, its reason is kept, and the run ends with exit code 1 after all
outputs are written. Rewards are not figures: a rollout whose reward cannot be computed has none.
"""

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import fields, is_dataclass, replace
from traceback import extract_tb
from typing import Any, TypeVar, cast

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
    """Return figures with every number rounded that is no integer: in dataclasses, tables, tuples.

    Integrals, exponentials and sums in another order then give the same metrics file everywhere.
    """
    result: Any = figures
    if isinstance(figures, float):
        result = rounded(figures)
    elif is_dataclass(figures) and not isinstance(figures, type):
        names = [each.name for each in fields(figures)]
        result = replace(
            figures, **{name: rounded_figures(getattr(figures, name)) for name in names}
        )
    elif isinstance(figures, Mapping):
        result = {name: rounded_figures(value) for name, value in figures.items()}
    elif type(result) is tuple:
        result = tuple(rounded_figures(each) for each in result)
    return cast(_T, result)


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
