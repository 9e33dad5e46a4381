"""Panels on recorded verdicts: what a cheap judge on all pairs adds to a dear one on rings, and
what it costs.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from numpy.random import default_rng
from simulated_pairs import ordered_pairs

from genrm_cli.simulation.recorded_verdicts import read_judges
from genrm_cli.simulation.replay_shares import PanelReplay, replay_shares
from genrm_cli.simulation.world import JudgeModel, draw_world, judge_pairs

N = 5
GROUPS = 30
COST = {
    "format": 1,
    "judge_idx": 0,
    "attempts": 1,
    "latency_s": 0.1,
    "prompt_tokens": 1,
    "completion_tokens": 1,
}
PRICES = {"dear": 20.0, "cheap": 1.0}


def record(path: Path, *, alike: bool) -> str:
    """Record what two simulated judges say of all pairs, of the same qualities or of others."""
    lines: list[dict[str, Any]] = []
    for judge, seed in (("dear", 5), ("cheap", 5 if alike else 6)):
        world = draw_world(JudgeModel(), GROUPS, N, default_rng(seed))
        batch = judge_pairs(world, *ordered_pairs(GROUPS, N), default_rng([seed, len(judge)]))
        columns = (batch.first, batch.second, batch.score_1, batch.score_2, batch.ranking)
        for group in range(GROUPS):
            for i, j, one, two, ranking in zip(
                *(column[group].tolist() for column in columns), strict=True
            ):
                scores = {
                    "score_1": one,
                    "score_2": two,
                    "ranking": ranking,
                    "failure": None,
                } | COST
                lines.append({"group": str(group), "i": i, "j": j, "judge": judge, **scores})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(path)


def replayed(path: Path, *, alike: bool) -> list[PanelReplay]:
    """Replay both judges."""
    judges = read_judges(record(path, alike=alike))
    return list(
        replay_shares({str(judge): groups for judge, groups in judges.items()}, PRICES, seed=1)
    )


def test_a_cheap_judge_of_the_same_opinion_pays(tmp_path: Path) -> None:
    """One ring of the dear judge with all pairs of the cheap one is better than the dear judge
    alone for the price.
    """
    rows = replayed(tmp_path / "recorded.jsonl", alike=True)
    assert [(row.judge, row.second, row.rings, row.cost) for row in rows] == [
        *(("dear", None, rings, 20 * calls) for rings, calls in ((1.0, 5), (1.5, 7), (2.0, 10))),
        *(
            ("dear", "cheap", rings, 20 * calls + 10)
            for rings, calls in ((1.0, 5), (1.5, 7), (2.0, 10))
        ),
    ]
    alone = rows[0]
    shared = rows[3]
    assert alone.gain is None
    assert shared.gain is not None
    assert shared.gain.low > 0
    assert shared.gain.value == pytest.approx(shared.agreement.value - alone.agreement.value)


def test_a_cheap_judge_of_another_opinion_costs_little(tmp_path: Path) -> None:
    """Its verdicts say nothing of what the dear judge sees, and count for next to nothing."""
    rows = replayed(tmp_path / "recorded.jsonl", alike=False)
    assert rows[3].gain is not None
    assert rows[3].gain.value > -0.06
