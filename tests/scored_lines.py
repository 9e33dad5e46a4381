"""Scored lines as `genrm score` writes them, with rewards and verdicts of a test's choice."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from genrm_cli.groups.compile import compile_plan
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.scored.describe_run import run_record, run_totals
from genrm_cli.scored.json_form import to_json
from genrm_cli.scored.run_record import RunTotals
from genrm_cli.settings import settings_from

Json = dict[str, Any]
ADJUSTMENTS = (
    "reasoning_bonus",
    "answer_bonus",
    "reasoning_length",
    "answer_length",
    "style",
)


def scored(
    answer: Any,
    reward: float | None,
    *,
    group: str = "task:1",
    index: int = 0,
    size: int = 2,
    prompt: Any = None,
    **more: Any,
) -> Json:
    """Make a scored chat line; further arguments go into its `genrm` object."""
    answers = answer if isinstance(answer, list) else [{"role": "assistant", "content": answer}]
    detail = {
        "format": 1,
        "status": "scored" if reward is not None else "unscored",
        "reason": None if reward is not None else "incomplete",
        "reason_text": None if reward is not None else "no verdict",
        "base_score": reward,
        "standard_error": 0.5,
        "reliability": None,
        "adjustments": dict.fromkeys(ADJUSTMENTS, 0.0),
        "rank": None,
        "advantage": 0.0,
        "group": group,
        "group_size": size,
        "index": index,
        "comparisons": 2,
        "failed": 0,
        "defaulted": 0,
        "judge": "j",
        "is_baseline": False,
        **more,
    }
    asked = (
        prompt
        if isinstance(prompt, list)
        else [{"role": "user", "content": prompt or f"Question {group}?"}]
    )
    return {
        "messages": [*asked, *answers],
        "reward": reward,
        "genrm": detail,
    }


def verdict(
    i: int,
    j: int,
    score_1: float,
    score_2: float,
    *,
    group: str = "task:1",
    repeat: int = 0,
    **more: Any,
) -> Json:
    """Make a line of a comparisons file."""
    ranking = 3.5 - (score_1 - score_2) / 2
    line = {
        "format": 1,
        "group": group,
        "i": i,
        "j": j,
        "judge_idx": repeat,
        "score_1": score_1,
        "score_2": score_2,
    }
    cost = {
        "attempts": 1,
        "latency_s": 0.1,
        "prompt_tokens": 10,
        "completion_tokens": 2,
    }
    return (
        line
        | {
            "ranking": ranking,
            "failure": None,
            "judge": "j",
        }
        | cost
        | more
    )


def total(**more: Any) -> Json:
    """Make the composition of a reward from components."""
    return {
        "weights": {},
        "terms": {},
        "gates": {},
        "gated_by": [],
        "missing": [],
    } | more


def totals_of(counts: RunMetrics, wall_time_s: float = 1.0) -> RunTotals:
    """Return the totals of a run of the built-in judge."""
    settings = settings_from(judge="lexical")
    return run_totals(settings, counts, compile_plan(settings), (), wall_time_s)


def metrics(**more: Any) -> Json:
    """Make a metrics file of a run that counted nothing; further arguments replace its members."""
    settings = settings_from(judge="lexical")
    totals = totals_of(RunMetrics())
    return (
        to_json(
            run_record(totals, settings, input_=None, output="x", output_mark=None, journal=None)
        )
        | more
    )


def write_lines(path: Path, lines: Iterable[Json]) -> Path:
    """Write JSON lines."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path
