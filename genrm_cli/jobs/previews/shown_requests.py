"""Show the requests to a judge about the groups of an input, without calling one."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from genrm_cli.errors import InputError
from genrm_cli.groups.asking.begin import begin_group
from genrm_cli.groups.asking.stages import iter_stages
from genrm_cli.groups.group import Group
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.due.inputs import only_task
from genrm_cli.jobs.index import index_input
from genrm_cli.judging.lookup import PROFILES, ProfileSource, source_of_profile
from genrm_cli.judging.profiles.profile import AnyProfile, ChatMessage, Profile, render_messages
from genrm_cli.settings import Settings, changed
from genrm_cli.settings.panel import JudgeConfig, judges_of

STAND_IN_PROFILE = "nemotron-plain"  # for a judge that is not named: what GenRMs are trained on
_FIRST_REPLY = "(the judge's first reply)"


class ShownRequest(Struct, frozen=True):
    """One request about a group, as the judge would receive it; `shown` are indices of its
    rollouts, in display order.

    Between the messages of two turns is a placeholder for the reply.
    """

    group: str | None
    profile: str
    shown: tuple[int, ...]
    messages: list[ChatMessage]


def iter_shown_requests(
    inputs: Sequence[str], run: RunContext, key: str | None
) -> Iterator[ShownRequest]:
    """Yield the first request about each group, or about one; groups without requests are
    skipped.
    """
    found = False
    for group, plan in _iter_groups(inputs, run, key):
        first = next(next(iter_stages(begin_group(group, plan), group, plan)), None)
        if first is not None:
            found = True
            id_, prompt = first
            profile = _profile_of(id_.judge, plan, run.settings)
            messages = render_messages(profile, prompt)
            if isinstance(profile, Profile) and profile.render_second_turn is not None:
                messages += profile.render_second_turn(_FIRST_REPLY)
            yield ShownRequest(group.key, profile.name, id_.shown, messages)
    if not found:
        where = "any group" if key is None else f"the group {key}"
        raise InputError(
            f"{inputs[0]}: no request is planned for {where}; `genrm validate` says why."
        )


def shows_stand_in(config: JudgeConfig) -> bool:
    """Return whether nothing says how a judge is asked: neither its model nor a setting."""
    return not config.judge.model and source_of_profile(config) is ProfileSource.DEFAULT


def _iter_groups(
    inputs: Sequence[str], run: RunContext, key: str | None
) -> Iterator[tuple[Group, GroupPlan]]:
    """Yield the groups of a file, or of a set of files, with its plan; or only the one with this
    key.
    """
    anywhere = changed(run.settings, any_prefix=True)  # nothing is written
    task = only_task(inputs, anywhere)
    with task.sources(run) as sources, index_input(sources, run) as index:
        plan = index.plan.with_judges(run.judge_specs())
        for _, _, group in index.iter_groups():
            if key is None or group.key == key:
                yield group, plan
    if not run.metrics.rollouts:
        first = (": ", index.rejects[0].message) if index.rejects else ()
        raise InputError(
            f"{task.uri}: the input holds no rollouts", *first, "; see `genrm validate`."
        )


def _profile_of(number: int, plan: GroupPlan, settings: Settings) -> AnyProfile:
    """Return the profile of a judge, or of a grader; the default for a judge without a profile and
    a model.
    """
    if number >= len(plan.judges):
        return plan.graders[number - len(plan.judges)].profile
    profile = plan.judges[number].profile
    if profile is None or shows_stand_in(judges_of(settings)[number]):
        return PROFILES[STAND_IN_PROFILE]
    return profile
