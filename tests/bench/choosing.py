"""Compare simulated judges with the grid of `genrm eval`.

`python tests/bench/choosing.py` prints the table of the guide's page on choosing a judge. The
better of two responses leads by a quality drawn from 0 to 1.5; a judge adds normal noise to the
lead in each reply, and rounds its scores to 1 to 5. One judge has twice the noise of the other, at
a tenth of its price; repeats are means of replies.
"""

import sys
from pathlib import Path
from random import Random
from statistics import fmean

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from judged_pairs import cell_result

from genrm_cli.products.evaluation.grid import compare_cells
from genrm_cli.products.evaluation.grid_file import GridCell
from genrm_cli.products.evaluation.pair_records import OrderRecord, PairRecord, preference_of
from genrm_cli.settings import Settings
from genrm_cli.verdicts import Verdict

PAIRS = 300
TOKENS = 1_000  # of one reply with its prompt
# Name, noise, repeats, and price of a million tokens.
CELLS = (
    ("small", 1.2, 1, 0.1),
    ("small, 4 repeats", 1.2, 4, 0.1),
    ("large", 0.6, 1, 1.0),
)


def main() -> None:
    """Print the options, the most accurate first, and the answer."""
    random = Random(1)
    leads = [random.uniform(0, 1.5) for _ in range(PAIRS)]
    found = compare_cells(
        [
            (
                GridCell(name, {}, Settings()),
                cell_result(_pairs_of(leads, noise, repeats, number), price),
            )
            for number, (name, noise, repeats, price) in enumerate(CELLS)
        ]
    )
    print("| option | orders | accuracy | behind | cost of 1,000 pairs |")
    print("|---|--:|--:|--:|--:|")
    for option in found.options:
        behind = option.behind
        gap = ""
        if behind is not None and behind.value is not None:
            gap = f"{behind.value:+.3f} ({behind.low:+.3f} to {behind.high:+.3f})"
        accuracy = f"{100 * (option.accuracy.value or 0):.1f} %"
        cost = f"{1000 * option.cost:.2f}"
        print(f"| {option.cell} | {option.orders} | {accuracy} | {gap} | {cost} |")
    print(found.answer)


def _pairs_of(leads: list[float], noise: float, repeats: int, seed: int) -> list[PairRecord]:
    """Return the pairs as a simulated judge judges them."""
    random = Random(seed)
    return [
        PairRecord(
            id=str(number),
            item=str(number),
            line=number,
            category=None,
            chosen_index=0,
            rejected_index=0,
            chosen_chars=1,
            rejected_chars=1,
            chosen_first=_order(lead, noise, repeats, random, chosen_first=True),
            chosen_second=_order(-lead, noise, repeats, random, chosen_first=False),
        )
        for number, lead in enumerate(leads)
    ]


def _order(
    lead: float, noise: float, repeats: int, random: Random, *, chosen_first: bool
) -> OrderRecord:
    replies = [_reply(lead + random.gauss(0, noise)) for _ in range(repeats)]
    verdict = Verdict(*map(fmean, zip(*replies, strict=True)))
    return OrderRecord(
        score_1=verdict.score_1,
        score_2=verdict.score_2,
        ranking=verdict.ranking,
        failure=None,
        attempts=repeats,
        latency_s=1.0,
        prompt_tokens=repeats * TOKENS,
        completion_tokens=0,
        result=preference_of(verdict, chosen_first=chosen_first),
        repeats=(),
    )


def _reply(lead: float) -> tuple[int, int, int]:
    """Return both scores and the ranking."""
    return (
        min(5, max(1, round(3 + lead))),
        min(5, max(1, round(3 - lead))),
        min(6, max(1, round(3.5 - 1.2 * lead))),
    )


if __name__ == "__main__":
    main()
