"""Compare CPU time and peak memory with an older commit: `make bench PARTS=pair BASE=<commit>`.

The base is checked out in a worktree of its own, and both states run every command in turn with the
same judge, input and dependencies. The table has medians of three turns. What is above 1.05 in two
runs is a regression: figures of two runs are never compared, since machines differ from hour to
hour.
"""

import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.genrm_cost import ROOT, Cost, cost_of
from bench.make_rollouts import write_rollouts
from rich.console import Console
from rich.table import Table

TURNS = 3
RED_ABOVE = 1.05  # ratios of equal states stay within 1.03 on two busy cores
_ROLLOUTS = 4_000
Commands = dict[str, Callable[[str], tuple[object, ...]]]


@contextmanager
def _worktree(commit: str) -> Iterator[Path]:
    """Check a commit out in a folder of its own for as long as the block runs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "base"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(path), commit], check=True)
        try:
            yield path
        finally:
            subprocess.run([*git, "remove", "--force", str(path)], check=True)


def _commands(folder: Path, base_url: str, turn: int) -> Commands:
    """Return the commands of a turn by name, each from the name of a state."""
    rollouts = folder / "rollouts.jsonl"
    many = [folder / f"part{number}.jsonl" for number in range(4)]
    one = folder / "one.jsonl"
    large = folder / "large.jsonl"
    if not rollouts.exists():
        write_rollouts(rollouts, _ROLLOUTS, 1_250)
        for path in many:
            write_rollouts(path, _ROLLOUTS // 8, 1_250)
        write_rollouts(one, 8, 200)
        write_rollouts(large, 1_024, 60, group_size=1_024)
    offline = ("--judge", "lexical", "-q", "--force")

    def score(state: str) -> tuple[object, ...]:
        model = ("--base-url", base_url, "--model", f"{state}{turn}", "--profile", "nemotron-plain")
        more = ("--no-probe", "--concurrency", 256, "-q", "--force")
        return "score", rollouts, *model, *more, "-o", folder / f"{state}{turn}.jsonl"

    return {
        "help": lambda state: ("--help",),
        "one group": lambda state: ("score", one, *offline, "-o", folder / f"one-{state}.jsonl"),
        "score": score,
        "recompute": score,
        "offline": lambda state: ("score", rollouts, *offline, "-o", folder / f"x-{state}.jsonl"),
        "together": lambda state: ("score", *many, "--together", *offline),
        "group of 1,024": lambda state: (
            "score",
            large,
            *offline,
            "-o",
            folder / f"l{state}.jsonl",
        ),
        "report": lambda state: (
            ("report", folder / f"x-{state}.jsonl", "--force", "-o", folder / f"{state}.html")
        ),
        "export": lambda state: (
            *("export", folder / f"x-{state}.jsonl", "--to", "trl-dpo", "--force"),
            *("-o", folder / f"dpo-{state}.jsonl"),
        ),
    }


def compare(commit: str, base_url: str) -> bool:
    """Print the table; return whether no figure is red."""
    found: dict[tuple[str, str], list[Cost]] = {}
    with _worktree(commit) as base, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        states = {"base": base, "now": ROOT}
        for tree in states.values():  # compiled modules are no part of a run
            cost_of("config", tree=tree, folder=folder)
        for turn in range(TURNS):
            for what, command in _commands(folder, base_url, turn).items():
                for state, tree in states.items():
                    cost = cost_of(*command(state), tree=tree, folder=folder)
                    found.setdefault((what, state), []).append(cost)
    table = Table(title=f"CPU seconds and peak MB: {commit} against this state")
    for head in ("", "CPU base", "now", "ratio", "MB base", "now", "ratio"):
        table.add_column(head, justify="right" if head else "left")
    is_fine = True
    for what in dict.fromkeys(what for what, _ in found):
        cells = [what]
        for figure in ("cpu_s", "peak_mb"):
            before, now = (
                statistics.median(getattr(each, figure) for each in found[what, state])
                for state in states
            )
            ratio = now / before
            is_fine = is_fine and ratio <= RED_ABOVE
            color = "red" if ratio > RED_ABOVE else "green"
            cells += [f"{before:.2f}", f"{now:.2f}", f"[{color}]{ratio:.2f}[/]"]
        table.add_row(*cells)
    Console().print(table)
    return is_fine
