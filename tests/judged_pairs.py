"""Labelled pairs with the results that a judge gave."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

from genrm_cli.groups.line_records import FailureRecord
from genrm_cli.products.evaluation.accuracy import evaluate
from genrm_cli.products.evaluation.evaluate import EvalResult
from genrm_cli.products.evaluation.pair_records import OrderRecord, PairRecord, Preference
from genrm_cli.verdicts import FailureKind


def _verdict_of(result: Preference | FailureKind, *, chosen_first: bool) -> dict[str, float | None]:
    """Return a verdict with this result; none for a failure."""
    if isinstance(result, FailureKind):
        return {
            "score_1": None,
            "score_2": None,
            "ranking": None,
        }
    if result == "tie":
        return {
            "score_1": 3.0,
            "score_2": 3.0,
            "ranking": 3.5,
        }
    first_wins = (result == "right") == chosen_first
    return {
        "score_1": 4.0 if first_wins else 2.0,
        "score_2": 2.0 if first_wins else 4.0,
        "ranking": 3.5,
    }


def judged_pair(
    first: Preference | FailureKind,
    second: Preference | FailureKind,
    item: str,
    *,
    calls: int = 1,
    category: str | None = None,
    chosen: int = 10,
    rejected: int = 5,
    name: str = "",
    places: tuple[int, int] = (0, 0),
) -> PairRecord:
    """Make a pair from its results in both orders; the first took 2 s, the second 4 s."""
    first_order, second_order = (
        OrderRecord(
            result=result if not isinstance(result, FailureKind) else None,
            repeats=(result if not isinstance(result, FailureKind) else None,),
            failure=FailureRecord(kind=result, detail="")
            if isinstance(result, FailureKind)
            else None,
            **_verdict_of(result, chosen_first=latency_s == 2.0),
            attempts=calls,
            latency_s=latency_s,
            prompt_tokens=100,
            completion_tokens=10,
        )
        for result, latency_s in ((first, 2.0), (second, 4.0))
    )
    return PairRecord(
        id=name or item,
        item=item,
        line=1,
        category=category,
        chosen_index=places[0],
        rejected_index=places[1],
        chosen_chars=chosen,
        rejected_chars=rejected,
        chosen_first=first_order,
        chosen_second=second_order,
    )


def cell_result(
    pairs: Sequence[PairRecord], price_in: float, price_out: float | None = None
) -> EvalResult:
    """Return what a comparison reads of the result of a cell: 3 calls, 5 verdicts reused. Both
    prices are alike by default.
    """
    found = SimpleNamespace(
        pairs=tuple(pairs),
        figures=evaluate(pairs, price_in, price_in if price_out is None else price_out),
        by_category={},
        calls=3,
        journal_hits=5,
        prompt_tokens=0,
        completion_tokens=0,
        wall_time_s=2.0,
    )
    return cast(EvalResult, found)
