"""Render the page: figures and charts as HTML, data as inert blocks, and a policy that runs our own script only."""

import hashlib
from base64 import b64encode
from collections.abc import Iterator, Sequence
from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from genrm_cli.json_types import JsonObject, Record
from genrm_cli.report.blocks import Blocks, packed
from genrm_cli.report.charts import Point, draw_histogram, draw_series, number_text
from genrm_cli.report.figures import Histogram, reason_text
from genrm_cli.storage.encoding.records import render_record

_FOLDER = files("genrm_cli") / "report" / "page"
_MARK = "<!--blocks-->"  # text in the page cannot hold it: the template escapes all


def iter_page(values: JsonObject, index: Record, blocks: Blocks, scripts_at: str | None) -> Iterator[bytes]:
    """Yield the page piece by piece.

    Args:
        values: of the template.
        index: what the script knows of all groups.
        blocks: the groups.
        scripts_at: beginning of the paths of scripts that hold the blocks; None to hold them in the page.
    """
    before, after = _render(values, in_folder=scripts_at is not None).split(_MARK)
    yield before.encode()
    yield _inert("index", packed(render_record({**index, "scripts_at": scripts_at})))
    if scripts_at is None:
        for number, block in enumerate(blocks):
            yield _inert(f"block-{number}", block)
    yield after.encode()


def draw_points(points: Sequence[Point], what: str) -> Markup:
    """Return a chart of values in time."""
    return Markup(draw_series(points, what))  # noqa: S704  (it escapes its texts)


def _render(values: JsonObject, *, in_folder: bool) -> str:
    style, script = (_read(f"report.{kind}") for kind in ("css", "js"))
    scripts = f"'{_hash(script)}'" + (" 'strict-dynamic'" if in_folder else "")
    policy = (
        f"default-src 'none'; script-src {scripts}; style-src '{_hash(style)}'; base-uri 'none'; form-action 'none'"
    )
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.globals |= {"draw": _draw, "short": number_text, "reason_text": reason_text}
    template = environment.from_string(_read("report.html.jinja"))
    return template.render(**values, policy=policy, style=Markup(style), script=Markup(script))  # noqa: S704


def _draw(histogram: Histogram, tag: str, what: str) -> Markup:
    return Markup(draw_histogram(histogram, tag, what))  # noqa: S704  (it escapes its texts)


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _inert(name: str, data: bytes) -> bytes:
    return b'<script type="text/plain" id="%s">%s</script>\n' % (name.encode(), data)
