"""Write the tables of the guide's pages of evidence and benchmarks from `results.json`."""

import json
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results.json")
_ROWS = Path(__file__).with_suffix(".toml")
_GUIDE = Path(__file__).parents[2] / "genrm_cli" / "guide"

Figures = dict[str, float]
Results = dict[str, dict[str, Any]]

# Rows of the card; those between hold as well, and stand in `results.json`.
_SHOWN_SIZES = ("4", "8", "16")
_SHOWN_RINGS = ("1", "2")
_HELD = ("30", "100", "300", "1000")


# The part `ranking`: groups of one size with the simulated judge, whose ranking is ever noisier.
RANKED_SIZE = 8
RANKED_RINGS = (1, 2, 3)
RANKED_BY = ("simple_tiebreaker", "adaptive")
RANKING_NOISES = (0.4, 1.0, 2.0, 4.0)


def read_results() -> Results:
    """Return the parts that were measured."""
    results: Results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return results


def write_table(name: str, lines: Iterable[str]) -> None:
    """Write what a run measured into its place of the page."""
    path = _page_of(name)
    page = path.read_text(encoding="utf-8")
    path.write_text(page.replace(table_of(name), "\n".join(lines)), encoding="utf-8")


def _page_of(name: str) -> Path:
    return _GUIDE / ("benchmarks.md" if name == "speed" else "evidence.md")


def table_of(name: str) -> str:
    """Return what stands between the two marks of a table in its page."""
    page = _page_of(name).read_text(encoding="utf-8")
    begin = f"<!-- measured: {name} -->\n\n"
    return page.partition(begin)[2].partition("\n\n<!-- end -->")[0]


def iter_card(results: Results) -> Iterator[str]:
    """Yield the lines that say how often intervals hold."""
    yield "| N, judge, rings | reliability | 30 groups | 100 | 300 | 1,000 | base scores | best |"
    yield "|---|---|---|---|---|---|---|---|"
    figures: Figures = results["calibration"]["figures"]
    names = ("reliability", "30", "100", "300", "1000", "errors", "best")
    for cell in [name.removesuffix(" best") for name in figures if name.endswith(" best")]:
        size, _, rings = cell.split()
        if size not in _SHOWN_SIZES or rings not in _SHOWN_RINGS:
            continue
        shares = (_share(figures[f"{cell} {name}"]) for name in names)
        yield f"| {' | '.join([cell, *shares])} |"
    held = {name: share for name, share in figures.items() if name.split()[-1] in _HELD}
    lowest = min((share, name) for name, share in held.items() if share >= 0)
    yield ""
    yield (
        f"Measured on {results['calibration']['date']} at {results['calibration']['commit']}. The "
        f"lowest share of all cells is {lowest[0]:.2f} ({lowest[1]} groups)."
    )


def iter_ranking(results: Results) -> Iterator[str]:
    """Yield the lines that say what the ranking of a judge is worth, by its noise."""
    columns = [(name, rings) for rings in RANKED_RINGS for name in RANKED_BY]
    titles = [f"`{name}`, {rings} {'ring' if rings == 1 else 'rings'}" for name, rings in columns]
    yield f"| noise of the ranking | {' | '.join(titles)} |"
    yield "|---" * (len(columns) + 1) + "|"
    figures: Figures = results["ranking"]["figures"]
    for noise in RANKING_NOISES:
        values = (f"{figures[f'{noise:g} {name} {rings}']:.3f}" for name, rings in columns)
        yield f"| {noise:g} | {' | '.join(values)} |"


def _share(value: float) -> str:
    return "unknown" if value < 0 else f"{value:.2f}"


def iter_speed(results: Results) -> Iterator[str]:
    """Yield the lines of speed and memory."""
    yield "| what | measured |"
    yield "|---|---|"
    for row in tomllib.loads(_ROWS.read_text(encoding="utf-8"))["row"]:
        if row["part"] in results:
            measured = row["measured"].format(**results[row["part"]]["figures"])
            yield f"| {row['what']} | {measured} |"
    taken = [each for part, each in results.items() if part not in ("calibration", "ranking")]
    dates = [each["date"] for each in taken]
    loads = [load for each in taken for load in each["load"]]
    yield ""
    yield (
        f"Measured from {min(dates)} to {max(dates)} on {taken[0]['cores']} cores with Python "
        f"{taken[0]['python']}, at loads from {min(loads)} to {max(loads)}; "
        "`tests/bench/results.json` has the commit and the load of each row."
    )
