"""`genrm guide`: print the user's guide."""

import re
from importlib.resources import files
from typing import Annotated

import typer

from genrm_cli.cli.console import print_markdown, print_text
from genrm_cli.cli.options import exits
from genrm_cli.cli.setup.settings_page import render_settings_page
from genrm_cli.errors import UsageError

_INDEX = "index"
_NAME = re.compile(r"^\| \[(?P<name>[a-z0-9-]+)\]", re.MULTILINE)
_FOLDER = files("genrm_cli") / "guide"


@exits
def guide(
    page: Annotated[str, typer.Argument(metavar="PAGE", help="Page to print. Default: the index.")] = _INDEX,
    list_pages: Annotated[bool, typer.Option("--list", help="Print the names of all pages.")] = False,
) -> None:
    """Print a page of the user's guide.

    Formats the page on a terminal and prints plain Markdown to a pipe.
    """
    if list_pages:
        print_text("\n".join(page_names()))
    else:
        print_markdown(read_page(page))


def page_names() -> list[str]:
    """Return the names of all pages, in reading order."""
    return _NAME.findall((_FOLDER / f"{_INDEX}.md").read_text(encoding="utf-8"))


def read_page(name: str) -> str:
    """Return a page as Markdown.

    Raises:
        UsageError: there is no such page.
    """
    if name == "settings":  # generated, so that it always describes this version
        return render_settings_page()
    if name != _INDEX and name not in page_names():
        raise UsageError(f"there is no page {name!r} in the guide. Pages: {', '.join(page_names())}")
    return (_FOLDER / f"{name}.md").read_text(encoding="utf-8")
