"""Write the guide's page of speed and memory from `results.json`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results.json")
PAGE = Path(__file__).parents[2] / "genrm_cli" / "guide" / "benchmarks.md"

Figures = dict[str, float]
Results = dict[str, dict[str, Any]]

_INTRODUCTION = """\
# Speed and memory

`make bench` measures on your machine, or `make bench PARTS="help calls"` some parts. Figures are medians of several
runs. CPU time is user and system time of genrm's own process; peak memory includes Python and the libraries. `openai`
is `openai.AsyncOpenAI`, which makes the same calls in the same run and does nothing else.

| what | measured |
|---|---|
"""  # noqa: E501
_ROWS = (
    ("help", "`genrm --help`", "{wall_s:.2f} s, {cpu_s:.2f} s of it CPU time"),
    *(
        (
            "calls",
            "CPU time per comparison (request, reply, verdict, journal), local judge that "
            "answers at once, "
            f"{count:,} in flight",
            f"{{genrm_{count}:.2f}} ms; openai {{openai_{count}:.2f}} ms, {{ratio_{count}:.1f}} "
            "times as much",
        )
        for count in (64, 256, 1_024, 4_096)
    ),
    *(
        (
            "calls",
            f"the same with `--http-client httpx`, {count:,} in flight",
            f"{{genrm-httpx_{count}:.2f}} ms, {{httpx_ratio_{count}:.1f}} times as much as with "
            "pyreqwest",
        )
        for count in (64, 256, 1_024, 4_096)
    ),
    (
        "process",
        "`genrm score`, the whole process: 16,000 rollouts of 2.9 KB, 256 calls in flight",
        "{genrm:.2f} ms of CPU time per rollout; openai {openai:.2f} ms per call, {ratio:.1f} "
        "times as much; peak memory {peak_mb:.0f} MB",
    ),
    (
        "schedule",
        "20,000 calls of very different lengths (log-normal, mean 0.5 s), 1,024 in flight",
        "{ratio:.2f} times the list-scheduling bound of {bound_s:.1f} s",
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
    *(
        (
            "recompute",
            f"rewards of {count:,} rollouts in groups of 8 from a complete journal",
            f"{{us_{count}:.0f}} µs of CPU time per rollout, peak memory {{peak_mb_{count}:.0f}} "
            "MB",
        )
        for count in (48_000, 176_000)
    ),
    (
        "lexical",
        "64,000 rollouts (102 MB) in groups of 8, lexical baseline",
        "{cpu_s:.0f} s of CPU time, peak memory {peak_mb:.0f} MB, {bytes:.0f} bytes per rollout "
        "beyond the base; 8,000 "
        "rollouts of eight times the length: {wide_peak_mb:.0f} MB",
    ),
    (
        "lexical",
        "`genrm report` on the 64,000 scored rollouts",
        "{report_cpu_s:.0f} s of CPU time, peak memory {report_peak_mb:.0f} MB",
    ),
    (
        "lexical",
        "`genrm export --to trl-dpo` on the 64,000 scored rollouts",
        "{export_cpu_s:.0f} s of CPU time, peak memory {export_peak_mb:.0f} MB",
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
        "clusters",
        "near-duplicates of 2 KB found by n-grams (`[diversity]`)",
        "{us:.0f} µs of CPU time per rollout",
    ),
    (
        "serve",
        "`genrm serve`, groups of 16: CPU time per comparison relative to `genrm score` in the "
        "same run",
        "whole groups {groups:.2f} times, cohorts {cohorts:.2f} times",
    ),
    (
        "sockets",
        "one cohort of 8 after another through sockets, 2.9 KB per rollout, judge that answers at "
        "once",
        "`genrm serve` median {genrm_idle_ms:.0f} ms, NeMo Gym 0.4.0's `genrm_compare` "
        "{gym_idle_ms:.0f} ms",
    ),
    *(
        (
            "sockets",
            f"the same, {count} cohorts in flight; servers, judge and clients share the cores",
            f"`genrm serve` {{genrm_rate_{count}:.0f}} rollouts per second, NeMo Gym "
            f"{{gym_rate_{count}:.0f}}",
        )
        for count in (64, 128, 256, 512)
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


def read_results() -> Results:
    """Return the parts that were measured."""
    results: Results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return results


def render_page(results: Results) -> str:
    """Return the page."""
    return _INTRODUCTION + "\n".join(_iter_lines(results)) + "\n"


CARD = PAGE.with_name("calibration.md")
_CARD = """\
# How often intervals hold

`make bench PARTS=calibration` counts how often the 95 % intervals of `genrm score` hold, with the simulated judge of
`tests/bench/simulation` and 40,000 groups for each row. The interval of the reliability should hold the mean of all of them; up
to 300 runs of each size take part (40 of 1,000 groups, so that .95 ± .07 is chance). *Unknown* means that the summary says so, and
names what would tell: further rings, or more groups. A standard error should hold the base score that the judge would give in the
limit of many verdicts; *best* are the rollouts with the highest score of their group.

Nothing here says whether a judge is right, or holds for a judge unlike the simulated one.

| rollouts, judge, rings | reliability | 30 groups | 100 | 300 | 1,000 | base scores | best |
|---|---|---|---|---|---|---|---|
"""  # noqa: E501


def render_card(results: Results) -> str:
    """Return the page of how often intervals hold."""
    figures: Figures = results["calibration"]["figures"]
    cells = [name.removesuffix(" best") for name in figures if name.endswith(" best")]
    names = ("reliability", "30", "100", "300", "1000", "errors", "best")
    rows = (
        f"| {' | '.join([cell, *(_share(figures[f'{cell} {name}']) for name in names)])} |"
        for cell in cells
    )
    taken = f"Measured on {results['calibration']['date']} at {results['calibration']['commit']}."
    return _CARD + "\n".join(rows) + f"\n\n{taken}\n"


def _share(value: float) -> str:
    return "unknown" if value < 0 else f"{value:.2f}"


def _iter_lines(results: Results) -> Iterator[str]:
    for part, what, measured in _ROWS:
        if part in results:
            yield f"| {what} | {measured.format(**results[part]['figures'])} |"
    machines: dict[str, list[str]] = {}
    for part, each in results.items():
        if part == "calibration":  # counts, not times: they have a page of their own
            continue
        low, high = sorted(each["load"])
        taken = (
            f"{each['date']} at {each['commit']} on {each['cores']} cores with Python "
            f"{each['python']}"
        )
        machines.setdefault(taken, []).append(f"{part} ({low} to {high})")
    for taken, parts in machines.items():
        yield ""
        yield (
            f"Measured on {taken}; load average of the machine before and after each part: "
            f"{', '.join(parts)}."
        )
