"""Tables on stdout. The kind of a column alone decides how it is aligned and what it does where
room is short.

In a pipe or a file, each row is one line of any length. Rich lays out the columns; on a terminal
that is too narrow it would cut names and numbers off, so columns that do not fit go to further
tables below, each beginning with the names of the rows.
"""

from collections.abc import Iterator, Sequence
from enum import Enum, auto
from functools import partial

from msgspec import Struct
from rich.cells import cell_len
from rich.table import Table as RichTable
from rich.text import Text

from genrm_cli.cli.console import (
    escaped,
    escaped_line,
    print_json,
    stdout_console,
    without_progress,
    wrapped_lines,
)
from genrm_cli.json_types import Record
from genrm_cli.settings import Settings

# One space would let numbers of neighbouring columns run together.
_GAP = 2
_LEAST_TEXT = 12  # a text is not worth reading in less
_LONG_WORD = 20  # longer words of a text may be broken
_ANY_WIDTH = 100_000  # of a pipe
_EXCERPT_CHARS = 50  # with the numbers before it, a row stays within 100 columns


class ColumnKind(Enum):
    """The content of a column: numbers and names are always shown whole, names on several lines
    where a terminal is too narrow for them; texts wrap, excerpts are cut to one line.
    """

    NUMBER = auto()
    NAME = auto()
    TEXT = auto()
    EXCERPT = auto()


Column = tuple[str, ColumnKind]
"""The head of a column, and its kind."""


def _columns(kind: ColumnKind, *heads: str) -> list[Column]:
    return [(escaped_line(head), kind) for head in heads]


# Return columns of a kind, by their heads. Names at the beginning of a table name its rows.
numbers = partial(_columns, ColumnKind.NUMBER)
names = partial(_columns, ColumnKind.NAME)
texts = partial(_columns, ColumnKind.TEXT)
excerpts = partial(_columns, ColumnKind.EXCERPT)


def beginning(text: str, chars: int = _EXCERPT_CHARS) -> str:
    """Return the beginning of a text in one line, for an excerpt."""
    return " ".join(text[: 4 * chars].split())[:chars]


class Table:
    """Rows of plain cells. Names in cells may look like Rich markup or hold control characters."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._rows: list[tuple[list[str], str]] = []

    def add(self, *cells: str, style: str = "") -> None:
        """Add a row, with a cell for each column."""
        self._rows.append(([escaped_line(cell) for cell in cells], style))

    def iter_lines(self, width: int | None) -> Iterator[Text]:
        """Yield the lines of the table, for a terminal of this width or, with None, a pipe."""
        console = stdout_console()
        for number, panel in enumerate(self._panels(width)):
            if number:
                yield Text()
            options = console.options.update(width=width or _ANY_WIDTH)
            for segments in console.render_lines(self._laid_out(panel, width), options, pad=False):
                line = Text.assemble(*((segment.text, segment.style or "") for segment in segments))
                line.rstrip()
                yield line

    def _panels(self, width: int | None) -> list[list[int]]:
        """Divide the columns into panels that fit a width; each begins with the names of rows."""
        kinds = [kind for _, kind in self._columns]
        keys = [i for i in range(len(kinds)) if set(kinds[: i + 1]) == {ColumnKind.NAME}]
        panels = [keys.copy()]
        for i in range(len(keys), len(kinds)):
            if not self._widest(i):
                continue
            if self._exceeds(width, [*panels[-1], i]) and len(panels[-1]) > len(keys):
                panels.append(keys.copy())
            panels[-1].append(i)
        return panels

    def _exceeds(self, width: int | None, panel: Sequence[int]) -> bool:
        """Return whether columns need more than a width."""
        needed = sum(self._least(column) + _GAP for column in panel) - _GAP
        return width is not None and needed > width

    def _least(self, column: int) -> int:
        """Return the width that a column needs: for a text, that of its words unless they are
        long.
        """
        head, kind = self._columns[column]
        cells = [row[column] for row, _ in self._rows]
        widest = self._widest(column)
        if kind in (ColumnKind.NUMBER, ColumnKind.NAME):
            return widest
        words = [_LEAST_TEXT, cell_len(head)]
        if kind is ColumnKind.TEXT:
            words += [min(cell_len(word), _LONG_WORD) for cell in cells for word in cell.split()]
        return min(widest, max(words))

    def _widest(self, column: int) -> int:
        """Return the width of the widest cell of a column, or of its head."""
        cells = [row[column] for row, _ in self._rows]
        return max(map(cell_len, [self._columns[column][0], *cells]))

    def _laid_out(self, panel: Sequence[int], width: int | None) -> RichTable:
        is_tight = self._exceeds(width, panel)
        table = RichTable(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
        for column in panel:
            head, kind = self._columns[column]
            is_folded = is_tight and kind is ColumnKind.NAME
            table.add_column(
                Text(head),
                justify="right" if kind is ColumnKind.NUMBER else "left",
                no_wrap=kind is not ColumnKind.TEXT and not is_folded,
                overflow="ellipsis" if kind is ColumnKind.EXCERPT else "fold",
                min_width=None if is_folded else self._least(column),
            )
        for cells, style in self._rows:
            table.add_row(*(Text(cells[column]) for column in panel), style=style)
        return table


def print_result(settings: Settings, result: Struct | Record, *parts: str | Table) -> None:
    """Print a result to stdout: with --json as one object, else as texts and tables."""
    if settings.output.json_output:
        print_json(result)
    else:
        print_parts(*parts)


def print_parts(*parts: str | Table) -> None:
    """Print texts, which wrap at words on a terminal, and tables to stdout."""
    console = stdout_console()
    width = console.width if console.is_terminal else None
    with without_progress():
        for part in parts:
            if isinstance(part, Table):
                lines = part.iter_lines(width)
            else:
                texts_ = escaped(part).split("\n")
                lines = (Text(line) for each in texts_ for line in wrapped_lines(each, width))
            for line in lines:
                console.print(line, soft_wrap=True)
