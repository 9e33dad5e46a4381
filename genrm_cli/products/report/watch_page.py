"""The figures of judges over time as one HTML page without scripts."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from genrm_cli.products.report.charts import Point, draw_series
from genrm_cli.products.report.render_page import render_page
from genrm_cli.scored.run_record import WatchedRun
from genrm_cli.storage.outputs import Outputs
from genrm_cli.storage.store import Store

# States in the colours of the answers of a report.
_CLASSES = {"fine": "fine", "look": "care", "blind": "care", "stop": "no"}


class WatchedJudge(NamedTuple):
    """A judge over time.

    Attributes:
        dump: the last one; `found` is its state.
        look_at: groups of the last dump to look at.
        charts: values with the names of their dumps, by title.
    """

    name: str
    dump: str
    found: WatchedRun
    look_at: Sequence[str]
    charts: Mapping[str, Sequence[tuple[str, float | None]]]


def write_page(
    uri: str,
    state: str,
    judges: Sequence[WatchedJudge],
    dumps: Sequence[tuple[str, WatchedRun]],
    store: Store,
    *,
    overwrite: bool,
) -> None:
    """Write the page of a history of one dump or more, in order; `state` is that of all judges.

    Raises:
        GenrmError: it exists and `overwrite` is off, or it cannot be written.
    """
    page = render_page(
        "watch.html.jinja",
        state=state,
        judges=judges,
        dumps=dumps,
        draw=_draw,
        classes=_CLASSES,
    )
    with Outputs(store, overwrite=overwrite) as outputs:
        outputs.open(uri).write(page.encode())
        outputs.commit()


def _draw(values: Sequence[tuple[str, float | None]], title: str) -> Markup:
    points = [Point(value, None, None, f"{dump}: {value}") for dump, value in values]
    return draw_series(points, title)
