"""The simulator against the replay: it orders plans and estimators as real verdicts do.

`recorded_replays.json` holds summary figures of published verdicts, not the verdicts: for each judge that compared all
pairs in both orders, a model of the judge that was fitted to its verdicts, and the table of `genrm simulate --replay`
(strategy, calls, estimator, agreement with the consensus of all verdicts, and of the unused ones with the lower end of
its interval). The judges are GPT-4 on seven systems' answers to Open Assistant prompts (QLoRA study), four judges on
five systems' answers to the Vicuna questions (PRD study), and a small model of our own. Two rings of five are all
pairs, which stand there once.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genrm_cli.simulation.plan_metrics import plan_within, simulate
from genrm_cli.simulation.world import JudgeModel

RECORDED = json.loads((Path(__file__).parent / "recorded_replays.json").read_text(encoding="utf-8"))
SAYS_SOMETHING = [each for each in RECORDED if max(row[5] for row in each["replayed"]) > 0.1]
NOTICED = 0.005  # smaller differences are within the intervals of the replay


def rank_correlation(simulated: list[float], replayed: list[float]) -> float:
    """Return Goodman and Kruskal's rank correlation over the pairs of rows that the replay tells apart."""
    ahead, behind = (np.array(values)[:, None] - np.array(values) for values in (simulated, replayed))
    signs = np.sign(ahead * behind)[np.abs(behind) >= NOTICED]
    return float(signs.mean())


@pytest.mark.slow
@pytest.mark.parametrize("recorded", SAYS_SOMETHING, ids=lambda each: each["judge"])
def test_plans_and_estimators_are_ordered_as_on_real_verdicts(recorded: dict[str, Any]) -> None:
    """Fitted to a judge, the simulation ranks them as the replay of its verdicts does: correlation .9."""
    rows = recorded["replayed"]
    plans = dict.fromkeys(plan_within(strategy, recorded["n"], calls) for strategy, calls, *_ in rows)
    estimators = dict.fromkeys(estimator for _, _, estimator, *_ in rows)
    model = JudgeModel(**recorded["model"])
    made = simulate(model, recorded["n"], [plan for plan in plans if plan], list(estimators), groups=2000, seed=0)
    found = {(row.strategy, row.calls, row.estimator): row.correlation for row in made}
    simulated = [found[strategy, calls, estimator] for strategy, calls, estimator, *_ in rows]
    assert rank_correlation(simulated, [row[3] for row in rows]) >= 0.9


def test_only_a_judge_that_says_nothing_has_no_order() -> None:
    """Of the six, the small model's rewards agree with its other verdicts no more than by chance."""
    assert [each["judge"] for each in RECORDED if each not in SAYS_SOMETHING] == ["Qwen2.5 Coder 1.5B, AlpacaEval"]
