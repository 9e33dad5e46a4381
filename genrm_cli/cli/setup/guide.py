"""`genrm guide`: print the user's guide."""

import re
from importlib.resources import files
from typing import Annotated

from genrm_cli.cli.console import help_text, print_json, print_markdown
from genrm_cli.cli.options import argument, exits
from genrm_cli.errors import UsageError
from genrm_cli.settings.declare import Setting
from genrm_cli.settings.table import all_settings

_INDEX, _SCHEMA = "index", "schema"
_NAME = re.compile(r"^\| \[(?P<name>[a-z0-9-]+)\]", re.MULTILINE)
_FOLDER = files("genrm_cli") / "guide"
_INTRODUCTION = """\
# Settings

Every setting is a flag (`--call-timeout`), an environment variable (`GENRM_CALL_TIMEOUT`) and a key in a settings file
(`call_timeout = 600`). The settings file is the one named by `--config` or `GENRM_CONFIG`, otherwise `genrm.toml` in
the current folder. A file found there may not name endpoints, keys, files or code unless you trust it: see `genrm guide
security`.

Flags override the environment, which overrides the file, which overrides presets and defaults. `genrm config` prints
the effective settings and their sources. Durations are in seconds, or written as `90s`, `15m` or `2h`. Where a flag may
be repeated, the file takes a list, and the environment values with commas between them.
"""


@exits
def guide(page: Annotated[str, argument("PAGE", "Page to print. Default: the index.")] = _INDEX) -> None:
    """Print a page of the user's guide.

    Formats the page on a terminal and prints plain Markdown to a pipe. The page `schema` is the JSON Schema of outputs.

    Example: genrm guide judges
    """
    if page == _SCHEMA:
        from genrm_cli.scored.run_record import output_schema

        print_json(output_schema())
    else:
        print_markdown(read_page(page))


def page_names() -> list[str]:
    """Return the names of all pages, in reading order."""
    return _NAME.findall((_FOLDER / f"{_INDEX}.md").read_text(encoding="utf-8"))


def read_page(name: str) -> str:
    """Return a page as Markdown."""
    if name == "settings":  # generated, so that it always describes this version
        return render_settings_page()
    if name != _INDEX and name not in page_names():
        raise UsageError(f"there is no page {name!r} in the guide. Pages: {', '.join(page_names())}")
    return (_FOLDER / f"{name}.md").read_text(encoding="utf-8")


def render_settings_page() -> str:
    """Return the page as Markdown: a table for each section of the help."""
    panels = dict.fromkeys(setting.panel for setting in all_settings())
    tables = [
        f"## {panel}\n\n| flag | default | meaning |\n|---|---|---|\n"
        + "".join(f"{_row(setting)}\n" for setting in all_settings() if setting.panel == panel)
        for panel in panels
    ]
    return "\n".join([_INTRODUCTION, *tables])


def _row(setting: Setting) -> str:
    off = setting.negative if setting.switch_off else None
    flags = ", ".join(f"`{name}`" for name in (setting.flag, setting.short_flag, off) if name)
    default = "" if setting.default in (None, ()) else f"`{setting.default}`"
    if isinstance(setting.default, bool):
        default = "on" if setting.default else "off"
    return f"| {flags} | {default} | {help_text(setting.help)} |"
