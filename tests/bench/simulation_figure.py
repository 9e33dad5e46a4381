"""Draw judge calls against the correlation of the rewards with the truth, from `genrm simulate --json`.

`python tests/bench/simulation_figure.py` simulates 4,000 groups of 16 and writes
`.github/calls-against-correlation.svg`; `--json FILE` draws a result that is there already. Needs nothing but genrm.
"""

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
TARGET = ROOT / ".github" / "calls-against-correlation.svg"
WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 64, 190, 56, 56
LOWEST, HIGHEST = 0.75, 0.95
CALLS = (16, 32, 48, 64, 120, 240)
LABEL_GAP = 17


class Line(NamedTuple):
    """One curve: which plan and estimator, how it is called and drawn."""

    strategy: str
    estimator: str
    label: str
    style: str


LINES = (
    Line("ring", "adaptive", "ring, adaptive", "ours"),
    Line("ring", "combined", "ring, combined", "ours fitted"),
    Line("all_pairs", "simple_tiebreaker", "reference: all pairs", "reference"),
    Line("circular", "simple_tiebreaker", "reference: circular", "reference"),
)
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328; }
.title { font-weight: 600; font-size: 15px; }
.small { font-size: 12px; fill: #59636e; }
.grid { stroke: #d1d9e0; stroke-width: 1; }
.ours { stroke: #0969da; fill: none; stroke-width: 2.5; }
polyline.fitted { stroke-dasharray: 6 4; }
.reference { stroke: #9a6700; fill: none; stroke-width: 2.5; }
circle.ours { fill: #0969da; } circle.reference { fill: #9a6700; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; } .small { fill: #9198a1; } .grid { stroke: #3d444d; }
  .ours { stroke: #4493f8; } .reference { stroke: #d29922; }
  circle.ours { fill: #4493f8; } circle.reference { fill: #d29922; }
}
"""


def simulate() -> dict[str, Any]:
    """Run the command with what the figure needs."""
    command = [sys.executable, "-m", "genrm_cli", "simulate", "--json"]
    for name in dict.fromkeys(line.strategy for line in LINES):
        command += ["--strategy", name]
    for name in dict.fromkeys(line.estimator for line in LINES):
        command += ["--estimator", name]
    done = subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def render_figure(result: dict[str, Any]) -> str:
    """Return the SVG."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'role="img" aria-label="Judge calls against the correlation of the rewards with the truth">',
        f"<style>{STYLE}</style>",
        f'<text class="title" x="{LEFT}" y="24">How near rewards come to the truth, by judge calls a group</text>',
        f'<text class="small" x="{LEFT}" y="42">{result["groups"]:,} simulated groups of {result["n"]}</text>',
        *_axes(),
    ]
    curves = [(line, _points(line, result)) for line in LINES]
    for line, points in curves:
        parts.append(f'<polyline class="{line.style}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>')
        parts += [f'<circle class="{line.style}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in points]
    parts += _labels(curves)
    return "\n".join([*parts, "</svg>", ""])


def _axes() -> list[str]:
    parts = []
    for step in range(round((HIGHEST - LOWEST) / 0.05) + 1):
        value = LOWEST + 0.05 * step
        y = _y(value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="small" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:.2f}</text>')
    for calls in CALLS:
        x, foot = _x(calls), HEIGHT - BOTTOM
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{foot}" y2="{foot + 5}"/>')
        parts.append(f'<text class="small" x="{x:.1f}" y="{foot + 20}" text-anchor="middle">{calls}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text class="small" x="{middle}" y="{HEIGHT - 14}" text-anchor="middle">calls a group (log)</text>')
    return parts


def _labels(curves: list[tuple[Line, list[tuple[float, float]]]]) -> list[str]:
    """Name each curve at its end; names that would overlap are moved down."""
    parts, lowest = [], -math.inf
    for line, points in sorted(curves, key=lambda curve: curve[1][-1][1]):
        x, y = points[-1]
        lowest = max(y + 4, lowest + LABEL_GAP)
        parts.append(f'<text x="{x + 12:.1f}" y="{lowest:.1f}">{line.label}</text>')
    return parts


def _points(line: Line, result: dict[str, Any]) -> list[tuple[float, float]]:
    rows = [r for r in result["figures"] if (r["strategy"], r["estimator"]) == (line.strategy, line.estimator)]
    if not rows:
        raise SystemExit(f"the result has no figures of {line.strategy} with {line.estimator}")
    return [(_x(row["calls"]), _y(row["correlation"])) for row in sorted(rows, key=lambda row: int(row["calls"]))]


def _x(calls: float) -> float:
    share = math.log(calls / CALLS[0]) / math.log(CALLS[-1] / CALLS[0])
    return LEFT + 12 + share * (WIDTH - RIGHT - LEFT - 24)


def _y(value: float) -> float:
    return TOP + 8 + (HIGHEST - value) / (HIGHEST - LOWEST) * (HEIGHT - BOTTOM - TOP - 16)


def main() -> None:
    """Draw the figure and say where it is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="a result of `genrm simulate --json` instead of a new simulation")
    parser.add_argument("--output", type=Path, default=TARGET)
    arguments = parser.parse_args()
    result = simulate() if arguments.json is None else json.loads(arguments.json.read_text(encoding="utf-8"))
    arguments.output.write_text(render_figure(result), encoding="utf-8")
    print(arguments.output)


if __name__ == "__main__":
    main()
