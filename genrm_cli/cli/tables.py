"""Tables on stdout. The kind of a column alone decides how it is aligned and what it does where
room is short.

In a pipe or a file, each row is one line of any length.
"""

from collections.abc import Iterator, Sequence
from enum import Enum, auto
from functools import partial
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from genrm_cli.cli.console import escaped, escaped_line, stdout_console, wrapped_lines

_LEAST_TEXT, _LONG_WORD = (
    12,
    20,
)  # a text is not worth reading in less; longer words of a text may be broken
_EDGES = Console(width=10_000)  # rich wraps a text for a console, whose width it does not use


class ColumnKind(Enum):
    """What a column holds: numbers and names are always shown whole; texts wrap, excerpts are cut
    to one line.
    """

    NUMBER = auto()
    NAME = auto()
    TEXT = auto()
    EXCERPT = auto()


class TableColumn(NamedTuple):
    """A column of a table."""

    head: str
    kind: ColumnKind


def _columns(kind: ColumnKind, *heads: str) -> list[TableColumn]:
    return [TableColumn(head, kind) for head in heads]


# Return columns of a kind, by their heads. Names at the beginning of a table name its rows.
numbers = partial(_columns, ColumnKind.NUMBER)
names = partial(_columns, ColumnKind.NAME)
texts = partial(_columns, ColumnKind.TEXT)
excerpts = partial(_columns, ColumnKind.EXCERPT)


class Table:
    """Rows of plain cells. Names in cells may look like Rich markup or hold control characters."""

    def __init__(self, columns: Sequence[TableColumn]) -> None:
        self._columns = columns
        self._heads = [escaped_line(column.head) for column in columns]
        self._rows: list[tuple[list[Text], str]] = []

    def add(self, *cells: str, style: str = "") -> None:
        """Add a row, with a cell for each column."""
        self._rows.append(([Text(escaped_line(cell)) for cell in cells], style))

    def iter_lines(self, width: int | None) -> Iterator[Text]:
        """Yield the lines of the table; with a width, columns that do not fit follow below, after
        the names.
        """
        every = range(len(self._columns))
        full = [
            max([cell_len(self._heads[i]), *(row[i].cell_len for row, _ in self._rows)])
            for i in every
        ]
        least = [self._least(i, full[i]) for i in every]
        kinds = [column.kind for column in self._columns]
        keys = next((i for i in every if kinds[i] is not ColumnKind.NAME), len(kinds)) or 1
        for number, panel in enumerate(_panels(least, keys, width)):
            if number:
                yield Text()
            gap, widths = _fitted([full[i] for i in panel], [least[i] for i in panel], width)
            heads = [Text(self._heads[i]) for i in panel]
            yield from self._lines(panel, heads, widths, gap, "bold")
            for cells, style in self._rows:
                yield from self._lines(panel, [cells[i] for i in panel], widths, gap, style)

    def _least(self, column: int, full: int) -> int:
        """Return the width that a column needs: for a text, that of its words unless they are
        long.
        """
        kind = self._columns[column].kind
        cells = [row[column] for row, _ in self._rows]
        needed = [0, *(cell_len(word) for word in self._heads[column].split())]
        if kind in (ColumnKind.NUMBER, ColumnKind.NAME):
            return max([*needed, *(cell.cell_len for cell in cells)])
        if kind is ColumnKind.TEXT:
            needed += (
                min(cell_len(word), _LONG_WORD) for cell in cells for word in cell.plain.split()
            )
        return min(full, max(_LEAST_TEXT, *needed))

    def _lines(
        self, panel: Sequence[int], cells: list[Text], widths: Sequence[int], gap: int, style: str
    ) -> Iterator[Text]:
        is_head = style == "bold"
        wrapped: list[list[Text]] = []
        for i, cell, width in zip(panel, cells, widths, strict=True):
            kind = self._columns[i].kind
            lines = (
                [cell]
                if kind is ColumnKind.EXCERPT and not is_head
                else list(cell.wrap(_EDGES, max(width, 1)))
            )
            lines = [line.copy() for line in lines]
            for line in lines:
                line.truncate(width, overflow="ellipsis")
                line.align("right" if kind is ColumnKind.NUMBER else "left", width)
            wrapped.append(lines or [Text(" " * width)])
        height = max(map(len, wrapped))
        for lines, width in zip(wrapped, widths, strict=True):
            blank = [Text(" " * width)] * (height - len(lines))
            lines[:] = [*blank, *lines] if is_head else [*lines, *blank]
        for row in zip(*wrapped, strict=True):
            line = Text(" " * gap).join(row)
            line.rstrip()
            line.stylize(style)
            yield line


def _panels(least: Sequence[int], keys: int, width: int | None) -> list[list[int]]:
    """Divide the columns into panels that fit a width with gaps of 1; each begins with the columns
    of `keys`.
    """
    first = list(range(keys))
    panels = [first.copy()]
    for i in range(keys, len(least)):
        if (
            width is not None
            and len(panels[-1]) > keys
            and sum(least[k] + 1 for k in (*panels[-1], i)) - 1 > width
        ):
            panels.append(first.copy())
        panels[-1].append(i)
    return panels


def _fitted(full: Sequence[int], least: Sequence[int], width: int | None) -> tuple[int, list[int]]:
    """Return the gap between columns and their widths, which grow in turn from their least to their
    full width.
    """
    if width is None:
        return 2, list(full)
    gap = 2 if sum(least) + 2 * (len(least) - 1) <= width else 1
    widths = list(least)
    room = width - sum(least) - gap * (len(least) - 1)
    while room > 0 and (growing := [i for i in range(len(widths)) if widths[i] < full[i]]):
        for i in growing[:room]:
            widths[i] += 1
        room -= len(growing)
    return gap, widths


def print_parts(*parts: str | Table) -> None:
    """Print texts, which wrap at words on a terminal, and tables to stdout."""
    console = stdout_console()
    width = console.width if console.is_terminal else None
    for part in parts:
        if isinstance(part, Table):
            lines = part.iter_lines(width)
        else:
            lines = (
                Text(line)
                for each in escaped(part).split("\n")
                for line in wrapped_lines(each, width)
            )
        for line in lines:
            console.print(line, soft_wrap=True)
