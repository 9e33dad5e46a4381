"""Write the tables of the guide's pages of evidence and benchmarks from `results.json`."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results.json")
_GUIDE = Path(__file__).parents[2] / "genrm_cli" / "guide"

Figures = dict[str, float]
Results = dict[str, dict[str, Any]]

_IN_FLIGHT = (64, 256, 1_024, 4_096)
_COHORTS = (64, 128, 256, 512)
# Rows of the card; those between hold as well, and stand in `results.json`.
_SHOWN_SIZES = ("4", "8", "16")
_SHOWN_RINGS = ("1", "2")
_HELD = ("30", "100", "300", "1000")


def _listed(form: str, values: tuple[int, ...]) -> str:
    return ", ".join(form.format(value) for value in values)


_ROWS = (
    ("help", "`genrm --help`", "{wall_s:.2f} s, {cpu_s:.2f} s of it CPU time"),
    (
        "calls",
        "CPU time per comparison, local judge that answers at once; "
        f"{_listed('{:,}', _IN_FLIGHT)} in flight",
        f"{_listed('{{genrm_{}:.2f}}', _IN_FLIGHT)} ms; "
        f"openai {_listed('{{ratio_{}:.1f}}', _IN_FLIGHT)} times as much",
    ),
    (
        "calls",
        "the same with `--http-client httpx`",
        f"{_listed('{{httpx_ratio_{}:.1f}}', _IN_FLIGHT)} times as much as with pyreqwest",
    ),
    (
        "process",
        "`genrm score`, the whole process: 16,000 rollouts of 2.9 KB, 256 calls in flight",
        "{genrm:.2f} ms of CPU time per rollout; openai {openai:.2f} ms per call, {ratio:.1f} "
        "times as much; peak memory {peak_mb:.0f} MB",
    ),
    (
        "adaptive",
        "judge that refuses above 128 in flight, `--concurrency auto`",
        "{refused:.2%} of the calls refused, {throughput:.0%} of the best throughput in the "
        "middle half of the run",
    ),
    (
        "planned",
        "1,000,000 planned comparisons of 6 KB, `--dry-run`",
        "{dry_cpu_s:.0f} s of CPU time, peak memory {dry_peak_mb:.0f} MB",
    ),
    (
        "planned",
        "the same, stopped after 20,000 calls and written",
        "{cpu_s:.0f} s of CPU time, peak memory {peak_mb:.0f} MB",
    ),
    (
        "together",
        "400,000 rollouts in 40 files, groups of 16 across files, `--together --offline`",
        "{cpu_s:.0f} s of CPU time, peak memory {peak_mb:.0f} MB, {bytes:.0f} bytes per rollout "
        "beyond the base",
    ),
    (
        "groups",
        "one group of 2,000 rollouts, lexical baseline, ring",
        "{cpu_s:.1f} s of CPU time, peak memory {peak_mb:.0f} MB",
    ),
    (
        "groups",
        "one group of 400 rollouts, lexical baseline, all pairs",
        "{pairs_cpu_s:.1f} s of CPU time, peak memory {pairs_peak_mb:.0f} MB",
    ),
    (
        "sockets",
        "one cohort of 8 after another through sockets, 2.9 KB per rollout, judge that answers at "
        "once",
        "`genrm serve` median {genrm_idle_ms:.0f} ms, NeMo Gym 0.4.0's `genrm_compare` "
        "{gym_idle_ms:.0f} ms",
    ),
    (
        "sockets",
        f"the same, {_listed('{}', _COHORTS)} cohorts in flight; servers, judge and clients share "
        "the cores",
        f"`genrm serve` {_listed('{{genrm_rate_{}:.0f}}', _COHORTS)} rollouts per second, "
        f"NeMo Gym {_listed('{{gym_rate_{}:.0f}}', _COHORTS)}",
    ),
    (
        "sockets",
        "the same: CPU time of the server per comparison",
        "`genrm serve` {genrm_cpu_ms:.2f} ms, NeMo Gym {gym_cpu_ms:.2f} ms",
    ),
    (
        "sockets",
        "the same, 40 cohorts per second: from the first request of a cohort to its last reply",
        "`genrm serve` median {genrm_median_ms:.0f} ms, p99 {genrm_p99_ms:.0f} ms; NeMo Gym median "
        "{gym_median_ms:.0f} ms, p99 {gym_p99_ms:.0f} ms",
    ),
    (
        "collect",
        "`genrm collect`, 1,008 sessions of 20 turns, 500 in flight, policy that answers at once: "
        "CPU time per turn, "
        "with rules, journal and record",
        "{turn_ms:.2f} ms; peak memory {peak_mb:.0f} MB",
    ),
)


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
    for part, what, measured in _ROWS:
        if part in results:
            yield f"| {what} | {measured.format(**results[part]['figures'])} |"
    taken = [each for part, each in results.items() if part not in ("calibration", "ranking")]
    dates = [each["date"] for each in taken]
    loads = [load for each in taken for load in each["load"]]
    yield ""
    yield (
        f"Measured from {min(dates)} to {max(dates)} on {taken[0]['cores']} cores with Python "
        f"{taken[0]['python']}, at loads from {min(loads)} to {max(loads)}; "
        "`tests/bench/results.json` has the commit and the load of each row."
    )
