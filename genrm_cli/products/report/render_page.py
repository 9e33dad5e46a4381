"""Pages as single HTML files, whose policy allows their own style and script and no request."""

import hashlib
from base64 import b64encode
from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

_FOLDER = files("genrm_cli") / "products" / "report" / "page"


def render_page(template: str, script_name: str | None = None, /, **values: object) -> str:
    """Return the page of a template of `page/`, with the style of all pages and a script."""
    style = _read("report.css")
    script = "" if script_name is None else _read(script_name)
    hashes = f"script-src '{_hash(script)}'; style-src '{_hash(style)}'"
    policy = f"default-src 'none'; {hashes}; base-uri 'none'; form-action 'none'"
    return (
        _environment()
        .get_template(template)
        .render(
            policy=policy,
            style=Markup(style),  # noqa: S704  (our own file)
            script=Markup(script),  # noqa: S704
            **values,
        )
    )


@cache
def _environment() -> Environment:
    return Environment(
        autoescape=True,
        # A misspelt member must not become an empty text.
        undefined=StrictUndefined,
        trim_blocks=True,
        loader=FunctionLoader(_read),
    )


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + b64encode(hashlib.sha256(text.encode()).digest()).decode()
