"""The arms of the learning curves, and their table in the guide from `curves.json`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

CURVES = Path(__file__).with_name("curves.json")
FAILURES = 0.2


class Arm(NamedTuple):
    """One kind of reward."""

    title: str
    colour: str
    source: str = "serve"
    """What `train.py` takes, or `serve` for the URL of a server."""
    failures: float = 0.0
    scale: str = "group"
    flags: tuple[str, ...] = ()


ARMS = {
    "oracle": Arm("oracle: the true qualities", "black", source="oracle"),
    "genrm": Arm("genrm, noisy judge", "tab:blue"),
    "genrm_reliability": Arm(
        "genrm, advantages by reliability",
        "tab:green",
        scale="none",
        flags=("--advantage", "reliability"),
    ),
    "genrm_failures": Arm("genrm, 20 % of replies fail", "tab:cyan", failures=FAILURES),
    "nemo_gym_failures": Arm(
        "NeMo Gym's rule (`--compat nemo-gym`), 20 % of replies fail",
        "tab:orange",
        failures=FAILURES,
        flags=("--compat", "nemo-gym"),
    ),
    "grades": Arm("scores of single responses", "tab:red", source="grades"),
}


def read_curves() -> dict[str, Any]:
    """Return the measured curves and figures of each arm."""
    curves: dict[str, Any] = json.loads(CURVES.read_text(encoding="utf-8"))
    return curves


def iter_arms(measured: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield "| rewards | quality at the end, mean | lowest and highest seed | replies of the judge |"
    yield "|---|---|---|---|"
    for name, arm in ARMS.items():
        figures = measured[name]
        ends = f"{figures['lowest']:.2f} to {figures['highest']:.2f}"
        replies = f"{figures['replies']:,}" if figures["replies"] else ""
        yield f"| {arm.title} | {figures['end']:.2f} | {ends} | {replies} |"
