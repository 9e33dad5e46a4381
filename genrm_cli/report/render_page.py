"""Render the page: figures and charts as HTML, data as inert blocks, and a policy that runs our own script only."""

import hashlib
from base64 import b64encode
from collections.abc import Iterator
from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from genrm_cli.json_types import JsonObject, Record
from genrm_cli.report.blocks import Blocks, packed
from genrm_cli.report.charts import draw_histogram, number_text
from genrm_cli.report.figures import reason_text
from genrm_cli.storage.encoding.records import render_record

_FOLDER = files("genrm_cli") / "report" / "page"
_MARK = "<!--blocks-->"  # page text cannot contain it: the template escapes everything


def iter_page(values: JsonObject, index: Record, blocks: Blocks) -> Iterator[bytes]:
    """Yield the page piece by piece.

    Args:
        values: of the template.
        index: data of all groups for the script.
        blocks: the groups.
    """
    before, after = _render(values).split(_MARK)
    yield before.encode()
    yield _inert("index", packed(render_record(index)))
    for number, block in enumerate(blocks):
        yield _inert(f"block-{number}", block)
    yield after.encode()


def _render(values: JsonObject) -> str:
    template, style, script = (
        (_FOLDER / name).read_text(encoding="utf-8") for name in ("report.html.jinja", "report.css", "report.js")
    )
    hashes = f"script-src '{_hash(script)}'; style-src '{_hash(style)}'"
    policy = f"default-src 'none'; {hashes}; base-uri 'none'; form-action 'none'"
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.globals |= {"draw": draw_histogram, "short": number_text, "reason_text": reason_text}
    texts = {"policy": policy, "style": Markup(style), "script": Markup(script)}  # noqa: S704
    return environment.from_string(template).render(**values, **texts)


def _hash(text: str) -> str:
    return "sha256-" + b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _inert(name: str, data: bytes) -> bytes:
    return b'<script type="text/plain" id="%s">%s</script>\n' % (name.encode(), data)
