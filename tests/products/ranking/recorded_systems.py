"""GPT-4's verdicts on five systems and the 80 Vicuna questions, as the PRD data set has them.

A line is a question; its characters are the ordered pairs of the systems by name: who won, the
first or the second."""

from itertools import permutations
from pathlib import Path

from genrm_cli.products.ranking.outcomes import Outcomes, OutcomeTable

SYSTEMS = ["bard", "claude", "gpt35", "gpt4", "vicuna-13b"]
ORDERS = list(permutations(range(5), 2))
LINES = (Path(__file__).with_name("gpt4_on_vicuna.txt")).read_text().split()
SHARES = {"1": 1.0, "2": 0.0, "=": 0.5}


def recorded_outcomes(lines: list[str] = LINES, orders: list[tuple[int, int]] = ORDERS) -> Outcomes:
    """Return the verdicts on these questions, of these orders only."""
    table = OutcomeTable(SYSTEMS)
    for line in lines:
        table.begin_prompt(range(5))
        for (first, second), won in zip(ORDERS, line, strict=True):
            if (first, second) in orders:
                table.add(first, second, SHARES[won])
    return table.outcomes()
