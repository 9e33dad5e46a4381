"""Charts as SVG. Colours come from classes, as the page's policy forbids style attributes."""

import math
from collections.abc import Callable, Sequence

from markupsafe import Markup, escape
from msgspec import Struct

from genrm_cli.products.report.report_figures import Histogram

# Units of the view box, which the page scales. The foot and the top hold a line of text each.
_WIDTH = 360
_HEIGHT = 150
_FOOT = 18
_TOP = 12
_MARGIN = 24  # beside values over costs, so that their labels fit


def draw_histogram(histogram: Histogram, tag: str, what: str) -> Markup:
    """Return a histogram whose bars link to the groups behind them.

    Args:
        histogram: with at least one value.
        tag: prefix of the tags of its bins.
        what: name of the counted items, for the titles.
    """
    counts = histogram.counts
    edges = histogram.edges
    top = max(counts)
    width = _WIDTH / len(counts)
    bars = []
    for number, count in enumerate(counts):
        if count:
            # One group of thousands must still be seen and clicked.
            height = max(1.5, (_HEIGHT - _FOOT - _TOP) * count / top)
            title = (
                f"{what} from {number_text(edges[number])} to "
                f"{number_text(edges[number + 1])}: {count:,}"
            )
            bars.append(
                f'<a href="#list={escape(tag)}-{number}"><title>{escape(title)}</title>'
                f'<rect class="bar" x="{number * width + 0.5:.1f}" '
                f'y="{_HEIGHT - _FOOT - height:.1f}" '
                f'width="{width - 1:.1f}" height="{height:.1f}"/></a>'
            )
    label = (
        f"histogram of {what}: {sum(counts):,} from {number_text(edges[0])} to "
        f"{number_text(edges[-1])}"
    )
    low = edges[0]
    high = edges[-1]
    line_y = _HEIGHT - _FOOT
    axis = f'<line class="axis" x1="0" x2="{_WIDTH}" y1="{line_y}" y2="{line_y}"/>'
    places = ((0, "start", low), (_WIDTH / 2, "middle", (low + high) / 2), (_WIDTH, "end", high))
    texts = [_text(x, _HEIGHT - 4, anchor, number_text(value)) for x, anchor, value in places]
    return _svg(label, [*bars, axis, *texts, _text(0, _TOP - 3, "start", f"{top:,}")])


def number_text(value: float) -> str:
    """Return a number with three digits, and a large one without a fraction."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


class Point(Struct, frozen=True):
    """A value with its interval, None where it is not measurable; `place` is written beside it."""

    value: float | None
    low: float | None
    high: float | None
    title: str
    place: str = ""


class PricedPoint(Point, frozen=True):
    """A value that has a cost; `is_best` if nothing cheaper has a higher one."""

    cost: float = 0.0
    is_best: bool = False


def draw_costs(points: Sequence[PricedPoint], what: str) -> Markup:
    """Return values over their costs, on a logarithmic scale where all cost something, with a line
    through those that nothing cheaper beats.
    """
    axis = _Axis.of(points)
    if axis is None:
        return Markup()
    costs = [point.cost for point in points]
    scale: Callable[[float], float] = math.log if min(costs) > 0 else float
    low = scale(min(costs))
    span = scale(max(costs)) - low or 1.0
    right = _WIDTH - 2 * _MARGIN

    def x(point: PricedPoint) -> float:
        return _MARGIN + right * (scale(point.cost) - low) / span

    best = sorted((each for each in points if each.is_best), key=lambda each: each.cost)
    line = " ".join(
        f"{x(each):.1f},{axis.y(each.value):.1f}" for each in best if each.value is not None
    )
    parts = [f'<polyline class="line" points="{line}"/>']
    labels: dict[tuple[float, float], list[str]] = {}
    for point in points:
        parts += axis.marks(x(point), point)
        if point.value is not None:
            # Options of one cost are often equally accurate.
            place = (round(x(point) + 6), round(axis.y(point.value) - 5))
            labels.setdefault(place, []).append(point.place)
    parts += [_text(left, top, "start", ", ".join(of)) for (left, top), of in labels.items()]
    for left, anchor, cost in ((_MARGIN, "start", min(costs)), (_WIDTH, "end", max(costs))):
        parts.append(_text(left, _HEIGHT - 4, anchor, number_text(cost)))
    return _svg(what, [*parts, *axis.ends()])


class _Axis(Struct, frozen=True):
    """The vertical axis of values and the ends of their intervals."""

    low: float
    high: float

    @classmethod
    def of(cls, points: Sequence[Point]) -> "_Axis | None":
        """Return the axis of some points; None if none of them has a value."""
        numbers = [number for point in points for number in (point.value, point.low, point.high)]
        measured = [number for number in numbers if number is not None]
        return cls(min(measured), max(measured)) if measured else None

    def y(self, value: float) -> float:
        """Return where a value is."""
        share = (value - self.low) / (self.high - self.low or 1.0)
        return _TOP + (_HEIGHT - _FOOT - 2 * _TOP) * (1 - share)

    def marks(self, x: float, point: Point) -> list[str]:
        """Return a dot with its interval; nothing without a value."""
        if point.value is None:
            return []
        dot = (
            f'<circle class="dot" cx="{x:.1f}" cy="{self.y(point.value):.1f}" r="4">'
            f"<title>{escape(point.title)}</title></circle>"
        )
        if point.low is None or point.high is None:
            return [dot]
        ends = f'y1="{self.y(point.low):.1f}" y2="{self.y(point.high):.1f}"'
        return [f'<line class="whisker" x1="{x:.1f}" x2="{x:.1f}" {ends}/>', dot]

    def ends(self) -> list[str]:
        """Return the numbers at both ends."""
        return [
            _text(0, _TOP - 3, "start", number_text(self.high)),
            _text(0, _HEIGHT - _FOOT - 2, "start", number_text(self.low)),
        ]


def _svg(label: str, parts: Sequence[str]) -> Markup:
    opened = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(label)}">'
    return Markup(f"{opened}{''.join(parts)}</svg>")  # noqa: S704  (its texts are escaped)


def _text(x: float, y: float, anchor: str, text: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'
