"""Write the guide's page of learning curves from `curves.json`."""

import json
from pathlib import Path
from typing import Any, NamedTuple

CURVES = Path(__file__).with_name("curves.json")
PAGE = Path(__file__).parents[3] / "genrm_cli" / "guide" / "learning-curve.md"
FAILURES = 0.2

_INTRODUCTION = """\
# What a policy learns

`make learning` trains the same tiny policy with GRPO (TRL) on rewards of several kinds, three seeds each, and writes this page. The
policy answers eight questions with words whose true worth is known; groups have eight responses. The simulated judge hears this
worth with noise, and each of its replies grades too high or too low as a whole. All arms but the oracle plan one call for each
response.

![Mean true quality of the responses over 100 steps of GRPO, for each kind of reward](learning-curve.svg)

| rewards | quality at the end, mean of the seeds | lowest and highest seed | replies of the judge |
|---|---|---|---|
"""  # noqa: E501
_CONCLUSION = """
- **Pairs against single scores.** The same judge teaches much more when it compares: two responses in one reply share its level,
  and each response is seen twice.
- **Failures at random cost little learning.** NeMo Gym's rule puts a tie in the place of a lost verdict, genrm asks again and
  shows others. With a fifth of the replies lost by chance, both learn as much as without failures; three seeds cannot tell them
  apart. What a policy gains by *causing* failures is another matter: see [rewards](rewards.md#failed-comparisons).
- **Advantages by reliability** (`--advantage reliability`, `scale_rewards="none"`) end a little higher, within the range of the
  seeds.
- genrm asks less for equal responses, which it judges once, and more where replies fail.

This is one small task, one simulated judge and three seeds. It says nothing about your judge: [measure it](choosing-a-judge.md).
"""  # noqa: E501


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


def render_page(measured: dict[str, Any]) -> str:
    """Return the page."""
    rows = []
    for name, arm in ARMS.items():
        figures = measured[name]
        ends = f"{figures['lowest']:.2f} to {figures['highest']:.2f}"
        replies = f"{figures['replies']:,}" if figures["replies"] else ""
        rows.append(f"| {arm.title} | {figures['end']:.2f} | {ends} | {replies} |\n")
    return _INTRODUCTION + "".join(rows) + _CONCLUSION
