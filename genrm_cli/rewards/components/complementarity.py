"""The contribution of a rollout to the tests that its group passes."""

import math
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from itertools import chain

from genrm_cli.json_types import field_at
from genrm_cli.rewards.component import Column, Ids, Lines, LocalKind, Rollouts, why_refused
from genrm_cli.settings import checks
from genrm_cli.settings.components import Component


def complementarity_values(passed: Sequence[Collection[Hashable] | None]) -> list[float | None]:
    """Return Σ over a rollout's tests of 1 / (rollouts that passed the test), divided by n.

    The values of a group add up to the number of tests that any rollout passed, divided by n, so
    they are shares of 1 only if n is at least the number of tests. A group of one gets the number
    of its tests. Repeated ids count once; None stays None, and n counts the others."""
    tests = [None if ids is None else set(ids) for ids in passed]
    known = [ids for ids in tests if ids is not None]
    passes = Counter(chain.from_iterable(known))
    n = len(known)
    return [
        None if ids is None else math.fsum(1 / passes[test] for test in ids) / n for ids in tests
    ]


def _compute(component: Component, _rollouts: Rollouts, records: Lines, _ids: Ids) -> Column:
    found = [field_at(record, component.option("field") or "") for record in records]
    passed = [_tests_of(value) for value in found]
    return Column(
        complementarity_values(passed), failure=why_refused(found, passed, "list of test ids")
    )


def _tests_of(value: object) -> set[str] | None:
    """Return the test ids of a list, or those that are true in an object; None for anything
    else.
    """
    if isinstance(value, dict) and all(isinstance(passed, bool) for passed in value.values()):
        return {str(test) for test, passed in value.items() if passed}
    if not isinstance(value, list) or not all(type(test) in (str, int) for test in value):
        return None
    return {str(test) for test in value}


KIND = LocalKind(
    options={"field": checks.text},
    required=("field",),
    short="field",
    source="input",
    of_a_group=True,
    compute=_compute,
)
