"""Begin a group: what is known of it before any request."""

from collections.abc import Sequence

from genrm_cli.errors import UsageError
from genrm_cli.groups.group import Group, JudgedGroup
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.judging.requests import ExtraCalls
from genrm_cli.rewards.component import Column, local_kind
from genrm_cli.rewards.diversity import ngram_clusters
from genrm_cli.rewards.shaping import measure_text
from genrm_cli.rollouts.views import answer_measured, choose_view
from genrm_cli.settings.components import Component
from genrm_cli.verdicts import Explanation


def begin_group(group: Group, plan: GroupPlan) -> JudgedGroup:
    """Return the known results of a group before any request.

    Raises:
        InputError: the group is too large to compare.
    """
    plan.refuse_large(group.key, len(group.rollouts))
    not_compared, answered, copies = find_answered(group, plan)
    compared = [group.rollouts[index] for index in answered]
    with_style = plan.rewards.settings.shaping.group_style_penalty_coeff > 0
    judged = JudgedGroup(
        key=group.key,
        size=len(group.rollouts),
        mixed=group.mixed,
        answered=answered,
        copies=copies,
        has_response=tuple(rollout.response is not None for rollout in group.rollouts),
        not_compared=not_compared,
        view=choose_view(compared, plan.view) if answered else "answer",
        # Measured before texts are masked and shortened, which must not change a reward.
        shapes=[
            measure_text(
                rollout.reasoning,
                answer_measured(rollout, plan.view),
                with_style=with_style,
                as_gym=plan.shows_as_gym,
            )
            for rollout in group.rollouts
        ],
        gated={index: each.gated_by for index, each in enumerate(group.rollouts) if each.gated_by},
        extra=ExtraCalls(plan.extra_calls(len(answered))),
    )
    diversity = plan.rewards.settings.diversity
    if diversity is not None and diversity.method == "ngram" and judged.is_comparable:
        answers = [answer_measured(rollout, plan.view) for rollout in compared]
        judged.clusters = ngram_clusters(answers, diversity.n, diversity.threshold)
    return judged


def find_answered(
    group: Group, plan: GroupPlan
) -> tuple[tuple[Explanation | None, ...], tuple[int, ...], dict[int, int]]:
    """Return `JudgedGroup.not_compared`, `answered` and `copies`."""
    not_compared = tuple(map(plan.why_not_compared, group.rollouts))
    # To a judge, equal rollouts are one: to compare them with each other would waste calls, and
    # their rewards would differ by chance.
    first: dict[object, int] = {}
    same = {}
    for index, why in enumerate(not_compared):
        if why is None and not group.mixed:
            record = group.records[index] if group.records else None
            shown = plan.shown_of(group.rollouts[index], record)
            same[index] = index if shown is None else first.setdefault(shown, index)
    copies = {index: original for index, original in same.items() if index != original}
    return not_compared, tuple(index for index in same if index not in copies), copies


def compute_local(judged: JudgedGroup, group: Group, components: Sequence[Component]) -> None:
    """Compute the components that need no judge; may be slow, and calls the user's functions."""
    records = group.records or [{} for _ in group.rollouts]
    rows = judged.counted
    if not rows:
        return
    rollouts = [group.rollouts[index] for index in rows]
    kept = [records[index] for index in rows]
    ids = [(group.key, index) for index in rows]
    for component in components:
        kind = local_kind(component)
        if kind is None:
            continue
        if kind.of_a_group and not judged.is_comparable:
            column = Column([None] * len(rows))
        else:
            column = kind.compute(component, rollouts, kept, ids)
            if not isinstance(column, Column):
                found = type(column).__name__
                raise UsageError(
                    f"the component {component.name} returned a {found}; return a Column."
                )
            column = column.checked(len(rows), component.name)
        judged.columns[component.name] = column.spread(rows, judged.size)
