"""Charts as SVG. Colours come from classes, as the page's policy forbids style attributes."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from genrm_cli.report.report_figures import Histogram

# Units of the view box, which the page scales. The foot and the top hold a line of text each.
_WIDTH = 360
_HEIGHT = 150
_FOOT = 18
_TOP = 12
_PLACES = 10  # written below a chart


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


@dataclass(frozen=True, slots=True)
class Point:
    """A value with its interval, None where it is not measurable; `place` is written below it."""

    value: float | None
    low: float | None
    high: float | None
    title: str
    place: str = ""


def draw_series(points: Sequence[Point], what: str) -> Markup:
    """Return values in order with their intervals; a gap where there is no value."""
    numbers = [number for point in points for number in (point.value, point.low, point.high)]
    measured = [number for number in numbers if number is not None]
    if not measured:
        return Markup()
    low = min(measured)
    high = max(measured)
    span = high - low or 1.0
    step = _WIDTH / len(points)

    def y(value: float) -> float:
        return _TOP + (_HEIGHT - _FOOT - 2 * _TOP) * (1 - (value - low) / span)

    marks = []
    for number, point in enumerate(points):
        x = (number + 0.5) * step
        if point.value is None:
            continue
        if point.low is not None and point.high is not None:
            ends = f'x1="{x:.1f}" x2="{x:.1f}" y1="{y(point.low):.1f}" y2="{y(point.high):.1f}"'
            marks.append(f'<line class="whisker" {ends}/>')
        marks.append(
            f'<circle class="dot" cx="{x:.1f}" cy="{y(point.value):.1f}" r="4">'
            f"<title>{escape(point.title)}</title></circle>"
        )
    every = -(-len(points) // _PLACES)
    below = [
        _text((number + 0.5) * step, _HEIGHT - 4, "middle", points[number].place)
        for number in range(0, len(points), every)
        if points[number].place
    ]
    edges = [
        _text(0, _TOP - 3, "start", number_text(high)),
        _text(0, _HEIGHT - _FOOT - 2, "start", number_text(low)),
    ]
    return _svg(what, [*marks, *below, *edges])


def _svg(label: str, parts: Sequence[str]) -> Markup:
    opened = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(label)}">'
    return Markup(f"{opened}{''.join(parts)}</svg>")  # noqa: S704  (its texts are escaped)


def _text(x: float, y: float, anchor: str, text: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'
