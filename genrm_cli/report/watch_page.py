"""The course of a judge as one HTML page without scripts."""

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from genrm_cli.report.charts import Point, draw_series
from genrm_cli.storage.location import S3Options
from genrm_cli.storage.outputs import Outputs
from genrm_cli.watching.course import Judgement
from genrm_cli.watching.signals import SIGNALS

_FOLDER = Path(__file__).parent / "page"
_CLASSES = {"fine": "fine", "look": "care", "blind": "care", "stop": "no"}


def write_page(
    uri: str, judged: Sequence[Judgement], look_at: Sequence[str], s3: S3Options, *, overwrite: bool
) -> None:
    """Write the page of one judgement or more, oldest first, with the groups of the last one to
    look at.

    Raises:
        GenrmError: it exists and `overwrite` is off, or it cannot be written.
    """
    template, style = (
        (_FOLDER / name).read_text(encoding="utf-8") for name in ("watch.html.jinja", "report.css")
    )
    values = {
        "judged": judged,
        "last": judged[-1],
        "look_at": look_at,
        "charts": _charts(judged),
        "classes": _CLASSES,
    }
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    page = environment.from_string(template).render(values, style=Markup(style))  # noqa: S704
    with Outputs(s3, overwrite=overwrite) as outputs:
        outputs.open(uri).write(page.encode())
        outputs.commit()


def _charts(judged: Sequence[Judgement]) -> list[tuple[str, Markup]]:
    charts = []
    for name in SIGNALS:
        values = [(each.dump, each.signals[name].value) for each in judged]
        points = [Point(value, None, None, f"{dump}: {value}") for dump, value in values]
        usual = next(
            (found for each in reversed(judged) if (found := each.signals[name].usual) is not None),
            None,
        )
        limit = "" if usual is None else f" (usual: {usual:.3g})"
        if any(value is not None for _, value in values):
            charts.append((f"{name.replace('_', ' ')}{limit}", draw_series(points, name)))
    return charts
