"""The figures of judges over time as one HTML page without scripts."""

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from genrm_cli.report.charts import Point, draw_series
from genrm_cli.storage.location import S3Options
from genrm_cli.storage.outputs import Outputs
from genrm_cli.watching.history import Followed, judge_identity
from genrm_cli.watching.signals import SIGNALS
from genrm_cli.watching.timeline import Judgement

_FOLDER = Path(__file__).parent / "page"
_CLASSES = {"fine": "fine", "look": "care", "blind": "care", "stop": "no"}


def write_page(uri: str, followed: Followed, s3: S3Options, *, overwrite: bool) -> None:
    """Write the page of a history of one dump or more.

    Raises:
        GenrmError: it exists and `overwrite` is off, or it cannot be written.
    """
    template, style = (
        (_FOLDER / name).read_text(encoding="utf-8") for name in ("watch.html.jinja", "report.css")
    )
    by_judge: dict[str, list[Judgement]] = {}
    for record, judgement in followed.judged:
        by_judge.setdefault(judge_identity(record.judge), []).append(judgement)
    values = {
        "state": followed.state,
        "judged": [judgement for _, judgement in followed.judged],
        "latest": followed.latest,
        "charts": {judge: _charts(judged) for judge, judged in by_judge.items()},
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
