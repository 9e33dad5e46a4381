"""The file of a grid: the ways to ask a judge that are compared.

    [axes]                          # every combination is a cell
    model = ["small", "large"]
    repeats = [1, 4]
    criteria = [false, true]        # without and with the [criteria] of the settings

    [[cell]]                        # or cells of their own
    name = "large, thinking"
    model = "large"
    request_field = ["reasoning_effort=high"]
    price_in = 2.0
    price_out = 8.0

A cell sets what changes a judge's verdicts on a pair, or their price. All cells use one journal:
cells share the requests that they have in common, such as the first of four repeats, and a run that
was interrupted goes on."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from typing import Any

from msgspec import Struct

from genrm_cli.errors import GenrmError, Message, UsageError
from genrm_cli.settings import Settings, changed
from genrm_cli.settings.table import all_settings
from genrm_cli.typed_json import from_json

_MOST_CELLS = 200  # each asks about every pair; more are a mistake in the axes
# What a cell may set beside the settings of the judge itself: what changes its verdicts on a pair,
# or their price.
_CELL_KEYS = (
    *("repeats", "retries", "concurrency", "call_timeout"),
    *("price_in", "price_out"),
)
# What `--compare-modes` compares.
MODES_GRID = {"axes": {"judging": ["pairwise", "listwise"]}}


class GridCell(Struct, frozen=True):
    """The settings of a cell: those that the file sets, and all."""

    name: str
    values: Mapping[str, Any]
    settings: Settings


class _GridFile(Struct, frozen=True):
    axes: Mapping[str, list[Any]] = {}
    cell: tuple[dict[str, Any], ...] = ()


def parse_grid(table: Mapping[str, Any], where: str, base: Settings) -> list[GridCell]:
    """Return the cells of a grid; see the top of this module."""
    unknown = table.keys() - {"axes", "cell"}
    if unknown:
        raise UsageError(f"{where}: unknown key {min(unknown)!r}; expected [axes] and [[cell]].")
    try:
        grid = from_json(_GridFile, table)
    except ValueError as error:
        raise UsageError(f"{where}: {error}.") from error
    count = len(grid.cell) + (math.prod(map(len, grid.axes.values())) if grid.axes else 0)
    if count > _MOST_CELLS:
        raise UsageError(f"{where}: {count:,} cells; at most {_MOST_CELLS}.")
    cells: dict[str, GridCell] = {}
    for given in (*_of_axes(grid.axes), *grid.cell):
        values = {key: value for key, value in given.items() if key != "name"}
        name = given.get("name", f"cell {len(cells) + 1}")
        if not isinstance(name, str) or not name:
            raise UsageError(f"{where}: the name {name!r} of a cell is not text; quote it.")
        if name in cells:
            raise UsageError(f"{where}: two cells are named {name!r}; rename one.")
        cells[name] = GridCell(name, values, _settings_of(values, base, f"{where}: {name}"))
    if not cells:
        raise UsageError(f"{where}: no cell; expected [axes] or [[cell]].")
    return list(cells.values())


def _of_axes(axes: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    if axes:
        for values in product(*axes.values()):
            cell = dict(zip(axes, values, strict=True))
            names = [f"{key} {_text_of(cell[key])}" for key in axes if len(axes[key]) > 1]
            yield {"name": ", ".join(names) or "the only cell", **cell}


def _settings_of(values: Mapping[str, Any], base: Settings, where: str) -> Settings:
    flat: dict[str, Any] = {}
    # Files name a setting by its key, and `Settings` by its name.
    allowed = {
        each.key: each
        for each in all_settings()
        if each.subject == "judge" or each.key in _CELL_KEYS
    }
    for key, value in values.items():
        if key == "criteria":
            if not isinstance(value, bool):
                raise UsageError(f"{where}: criteria must be true or false, not {value!r}.")
            if value and base.judge.criteria is None:
                raise UsageError(f"{where}: the settings have no [criteria] to use; add the table.")
            flat[key] = base.judge.criteria if value else None
        elif key in allowed:
            flat[allowed[key].name] = allowed[key].convert(value, f"{where}: {key}")
        else:
            names = ", ".join(sorted((*allowed, "criteria")))
            raise UsageError(f"{where}: a cell cannot set {key!r}; it sets {names}.")
    return changed(base, **flat)


def _text_of(value: object) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


@contextmanager
def naming_cell(cell: GridCell) -> Iterator[None]:
    """Let an error begin with the name of the cell that it is about, if it has one."""
    try:
        yield
    except GenrmError as error:
        if cell.name:
            error.message = Message.of(f"{cell.name}: ", error.message)
        raise
