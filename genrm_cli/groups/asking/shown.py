"""Views of a group's rollouts for the judges."""

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from genrm_cli.groups.group import Group
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.rollouts.rollout import Criterion
from genrm_cli.rollouts.scenario import parse_scenario, render_scenario
from genrm_cli.rollouts.shorten import shorten_view
from genrm_cli.rollouts.views import SharedView, view_group


def shown_to_judges(
    group: Group, answered: Sequence[int], plan: GroupPlan, redactions: Counter[str]
) -> SharedView:
    """Return the texts of some rollouts that leave this machine, masked and shortened, with all
    that the judges are shown; counts what it masks. Lengths are measured before.
    """
    if not answered:
        return SharedView((), [])
    view = view_group([group.rollouts[index] for index in answered], plan.view)
    own_principle = group.rollouts[0].principle if plan.uses_own_principle else None
    view = replace(
        view,
        principle=own_principle or plan.principle,
        scenario=group.rollouts[answered[0]].scenario,
    )
    if plan.graders:
        records = {index: group.records[index] for index in answered if group.records}
        view = replace(
            view,
            criteria={index: group.rollouts[index].criteria for index in answered},
            backgrounds={index: render_scenario(each) for index, each in records.items()},
            constraints={
                index: [Criterion(text, 1.0) for text in parse_scenario(each).constraints]
                for index, each in records.items()
            },
        )
    redactor = plan.redactor
    if redactor is not None:
        redactions.update(dict.fromkeys(redactor.own, 0))  # so that one without a match is told
        view = view.masked(lambda text: redactor.redact(text, redactions))
    is_marked = view.view == "transcript"
    return shorten_view(view, plan.rooms, is_marked=is_marked) if plan.rooms else view
