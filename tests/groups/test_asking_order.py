"""In which order the comparisons of a group are asked."""

from itertools import groupby

import pytest

from genrm_cli.groups.group_case import GroupCase
from genrm_cli.jobs.index import GroupTexts
from genrm_cli.judging.requests import PairwisePrompt
from genrm_cli.pairing import Comparison, plan_comparisons
from genrm_cli.rollouts.record import Rollout, Turn
from genrm_cli.rollouts.response import Text
from genrm_cli.settings import Settings

VARIANTS = [
    {"strategy": "circular"},
    {"strategy": "circular", "judges": 3},
    {"strategy": "all_pairs"},
    {"strategy": "all_pairs", "judges": 2},
    {"strategy": "all_pairs", "judges": 2, "order_balanced": True},
]


def asked(
    size: int, variant: dict[str, object], unanswered: int | None = None
) -> list[tuple[Comparison, PairwisePrompt]]:
    """Return what is asked of a group, in order; one rollout may have no answer."""
    rollouts = [
        Rollout((Turn("user", "Why?"),), None if place == unanswered else (Text(f"Answer {place}"),))
        for place in range(size)
    ]
    settings = Settings(**variant)  # type: ignore[arg-type]
    questions = GroupCase(
        0, list(range(size)), GroupTexts("key", rollouts, [{}] * size), False, settings
    ).iter_questions()
    return [
        (Comparison(*each.places, each.judge_idx), shown)
        for each, shown in questions
        if isinstance(shown, PairwisePrompt)
    ]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("unanswered", [None, 2])
def test_comparisons_that_share_a_first_response_are_neighbours(
    variant: dict[str, object], unanswered: int | None
) -> None:
    """A server with prefix caching reads each first response once: all its comparisons, repeats too, are in one row."""
    order = asked(7, variant, unanswered)
    first_responses = [exhibit.response_1 for _, exhibit in order]
    assert len([text for text, _ in groupby(first_responses)]) == len(set(first_responses))


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_order_of_asking_changes_nothing_else(variant: dict[str, object]) -> None:
    """Exactly the planned comparisons are asked, each with the responses that it names."""
    order = asked(7, variant)
    planned = plan_comparisons(
        7,
        str(variant["strategy"]),
        judges=int(str(variant.get("judges", 1))),
        order_balanced=bool(variant.get("order_balanced")),
    )
    assert sorted(comparison for comparison, _ in order) == sorted(planned)
    for comparison, exhibit in order:
        assert (exhibit.response_1, exhibit.response_2) == (f"Answer {comparison.i}", f"Answer {comparison.j}")
