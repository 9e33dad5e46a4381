"""Tables, counts and numbers as people read them."""

from rich.table import Table
from rich.text import Text


def new_table(*heads: str, texts: int = 1) -> Table:
    """Return a table without borders: columns of text first, as many as `texts`, then columns of numbers."""
    table = Table(box=None, pad_edge=False)
    for index, head in enumerate(heads):
        is_text = index < texts
        table.add_column(Text(head), justify="left" if is_text else "right", no_wrap=not is_text, overflow="fold")
    return table


def add_row(table: Table, *cells: str, style: str | None = None) -> None:
    """Add a row of plain text: names may contain what Rich would read as markup."""
    table.add_row(*map(Text, cells), style=style)


def counted(count: int, noun: str) -> str:
    """Return a number and its noun, as in `1 group` and `2 groups`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def number_text(value: float | None, form: str = ".3f") -> str:
    """Return a formatted number, `-` for None; an integer is shown as it is."""
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else format(value, form)


def percent_text(share: float | None) -> str:
    """Return a share in percent, `-` for None."""
    return "-" if share is None else f"{100 * share:.1f} %"
