"""`genrm guide`: print the user's guide."""

import re
from importlib.resources import files

from genrm_cli.cli.console import print_json, print_markdown
from genrm_cli.cli.options import argument
from genrm_cli.errors import UsageError

_INDEX = "index"
# Not a file: it is made from the records, so it cannot be out of date.
_SCHEMA = "schema"
# The index lists the pages in reading order; another list would have to be kept equal.
_NAME = re.compile(r"^\| \[(?P<name>[a-z0-9-]+)\]", re.MULTILINE)
_FOLDER = files("genrm_cli") / "guide"


def guide(page: str = argument("PAGE", "Page to print. Default: the index.", _INDEX)) -> None:
    """Print a page of the user's guide.

    Formats the page on a terminal and prints plain Markdown to a pipe. The page `schema` is the
    JSON Schema of outputs.

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
    if name != _INDEX and name not in page_names():
        raise UsageError(
            f"there is no page {name!r} in the guide. Pages: {', '.join(page_names())}"
        )
    return (_FOLDER / f"{name}.md").read_text(encoding="utf-8")
