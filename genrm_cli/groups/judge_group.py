"""Ask the judges about one group of rollouts."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

from genrm_cli.errors import UsageError
from genrm_cli.groups.asking.replacements import iter_replacements
from genrm_cli.groups.comparisons import (
    iter_further,
    iter_planned,
    iter_requests,
    list_of,
    to_each_judge,
)
from genrm_cli.groups.graders import iter_gradings
from genrm_cli.groups.group import Group, JudgedGroup
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.judging.engine import Judge, JudgeSet
from genrm_cli.judging.pacing.pool import Slot
from genrm_cli.judging.profiles.profile import NeutralTexts, neutralise_prompt
from genrm_cli.judging.requests import ExtraCalls, JudgeRequest, Prompt, RequestId
from genrm_cli.rewards.component import Column, local_kind
from genrm_cli.rewards.diversity import ngram_clusters
from genrm_cli.rewards.shaping import measure_text
from genrm_cli.rollouts.gym_view import gym_texts_of_record, is_of_gym, view_gym_group
from genrm_cli.rollouts.rollout import Criterion
from genrm_cli.rollouts.scenario import parse_scenario, render_scenario
from genrm_cli.rollouts.shorten import shorten_view
from genrm_cli.rollouts.views import SharedView, answer_measured, choose_view, view_group
from genrm_cli.tasks import first_error_of, in_thread
from genrm_cli.verdicts import Explanation, Failure, FailureKind, Outcome

Tag = TypeVar("Tag")
_LONG_CHARS = 500_000  # of a group, whose texts take up to 50 ms to prepare


@dataclass(frozen=True, slots=True)
class KnownGroup:
    """The known results of a group, before any judge is asked.

    Attributes:
        known: requests whose answer is in the journal.
        known_calls: number of calls made for these.
        judged: the group with its results, if no judge needs to be asked; otherwise None.
    """

    requests: int
    known: int
    known_calls: int
    judged: JudgedGroup | None


async def judge_group(
    group: Group,
    plan: GroupPlan,
    judges: JudgeSet,
) -> JudgedGroup:
    """Ask the judges about a group and return everything known about it.

    Several groups may be judged concurrently; they share the judges' limits, budget and journal,
    and make their requests in the order of these calls. When the run is stopped (deadline, budget),
    the remaining requests fail as `not_asked`.

    Args:
        group: the group.
        plan: plan of the run.
        judges: in the order of the plan, judges before graders.

    Raises:
        GenrmError: a judge cannot be used, or the journal cannot be written. Requests in flight are
            cancelled.
    """
    judged = begin_group(group, plan)

    async def ask(id_: RequestId, judge: Judge, request: JudgeRequest, slot: Slot) -> None:
        asked = request._replace(extra=judged.extra)
        _take(judged, id_, await judge.ask(asked, slot), plan, judges)

    try:
        for number, stage in enumerate(iter_stages(judged, group, plan)):
            # The turn is held until all requests of the stage are made: groups are asked in order,
            # and the first ones end first.
            async with asyncio.TaskGroup() as tasks, judges.turn() as lane:
                if not number and any(map(local_kind, plan.rewards.settings.components)):
                    await in_thread(lambda: compute_local(judged, group, plan))
                requests = await prepared(stage, judged)
                for id_, request, outcome in judges.iter_recalled(requests):
                    judge = judges[id_.judge]
                    if outcome is not None:
                        judged.extra.count(outcome.reasks)
                    else:
                        slot = await judge.admit(lane)
                        if slot is not None:
                            tasks.create_task(ask(id_, judge, request, slot))
                            continue
                        outcome = Outcome(
                            Failure(FailureKind.NOT_ASKED, f"stopped by {judge.stopped_by}")
                        )
                    _take(judged, id_, outcome, plan, judges)
                    await judges.yield_regularly()
    except BaseExceptionGroup as errors:
        raise first_error_of(errors) from None
    judged.sort()
    return judged


async def judge_groups(
    groups: Iterable[tuple[Tag, Group]],
    plan: GroupPlan,
    judges: JudgeSet,
    on_judged: Callable[[Tag, JudgedGroup], None],
) -> None:
    """Judge many groups; memory does not grow with their number.

    Args:
        groups: groups, each with a tag that names it. The next group is taken once the previous one
            has made its requests.
        plan: plan of the run.
        judges: see `judge_group`.
        on_judged: called with the tag and the result of each group as it finishes.

    Raises:
        GenrmError: see `judge_group`; or raised by `groups` or `on_judged`.
    """

    async def judge(tag: Tag, group: Group) -> None:
        on_judged(tag, await judge_group(group, plan, judges))

    try:
        async with asyncio.TaskGroup() as tasks:
            for tag, group in groups:
                tasks.create_task(judge(tag, group))
                await asyncio.sleep(0)  # let the group make its requests
                async with judges.turn():
                    pass
    except BaseExceptionGroup as errors:
        raise first_error_of(errors) from None


def recall_group(group: Group, plan: GroupPlan, judges: JudgeSet) -> KnownGroup:
    """Find the results about a group that are known without asking. Takes the arguments of
    `judge_group`.

    Blocks.

    Raises:
        StorageError: the journal cannot be read.
    """
    judged = begin_group(group, plan)
    first = seen = known = known_calls = 0
    for stage in iter_stages(judged, group, plan):
        for id_, _, outcome in judges.iter_recalled(stage):
            seen += 1
            if outcome is not None:
                known += outcome.from_journal
                known_calls += outcome.from_journal * plan.asked[id_.judge].turns
                judged.extra.count(outcome.reasks)
                judged.results.append((id_, without_reply(outcome, plan)))
        first = first or seen
        if len(judged.results) < seen:  # the rest depends on what is missing
            break
    requests = max(seen, first + plan.count_further(len(judged.answered)))
    is_known = len(judged.results) >= requests
    return KnownGroup(requests, known, known_calls, judged if is_known else None)


def finish_known(
    judged: JudgedGroup, group: Group, plan: GroupPlan, judges: JudgeSet
) -> JudgedGroup:
    """Finish a recalled group whose results are all known; calls the user's functions."""
    for _, outcome in judged.results:
        judges.on_outcome(outcome)
    compute_local(judged, group, plan)
    judged.sort()
    return judged


def count_requests(group: Group, plan: GroupPlan) -> int:
    """Count all requests about a group."""
    judged = begin_group(group, plan)
    first = sum(1 for _ in next(iter_stages(judged, group, plan)))
    return first + plan.count_further(len(judged.answered))


def begin_group(group: Group, plan: GroupPlan) -> JudgedGroup:
    """Return the known results of a group before any request.

    Raises:
        InputError: the group is too large to compare.
    """
    plan.refuse_large(group.key, len(group.rollouts))
    not_compared, answered, copies = find_answered(group, plan)
    is_gym = _is_shown_as_gym(group, plan)
    compared = [group.rollouts[index] for index in answered]
    with_style = plan.rewards.settings.group_style_penalty_coeff > 0
    if is_gym:
        texts = list(map(gym_texts_of_record, group.records))
    else:
        texts = [
            (rollout.reasoning, answer_measured(rollout, plan.view)) for rollout in group.rollouts
        ]
    judged = JudgedGroup(
        key=group.key,
        size=len(group.rollouts),
        mixed=group.mixed,
        answered=answered,
        copies=copies,
        has_response=tuple(rollout.response is not None for rollout in group.rollouts),
        not_compared=not_compared,
        view="answer" if is_gym or not answered else choose_view(compared, plan.view),
        # Measured before texts are masked and shortened, which must not change a reward.
        shapes=[
            measure_text(*text, with_style=with_style, as_gym=plan.shows_as_gym) for text in texts
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


def compute_local(judged: JudgedGroup, group: Group, plan: GroupPlan) -> None:
    """Compute the components that need no judge; may be slow, and calls the user's functions."""
    records = group.records or [{} for _ in group.rollouts]
    rows = judged.counted
    if not rows:
        return
    rollouts = [group.rollouts[index] for index in rows]
    kept = [records[index] for index in rows]
    ids = [(group.key, index) for index in rows]
    for component in plan.rewards.settings.components:
        kind = local_kind(component)
        if kind is None:
            continue
        if kind.of_a_group and not judged.is_comparable:
            column = Column([None] * len(rows))
        else:
            column = kind.compute(component, rollouts, kept, ids)
            if not isinstance(column, Column):
                found = type(column).__name__
                raise UsageError(f"the component {component.name} returned a {found}, no Column.")
            column = column.checked(len(rows), component.name)
        judged.columns[component.name] = column.spread(rows, judged.size)


async def prepared(
    stage: Iterator[tuple[RequestId, Prompt]], judged: JudgedGroup
) -> Iterable[tuple[RequestId, Prompt]]:
    """Return the requests of a stage; those with long texts are made in a thread, so that other
    groups need not wait for them.
    """
    chars = sum(shape.answer_chars + shape.reasoning_chars for shape in judged.shapes)
    return await in_thread(lambda: list(stage)) if chars > _LONG_CHARS else stage


def iter_stages(
    judged: JudgedGroup, group: Group, plan: GroupPlan
) -> Iterator[Iterator[tuple[RequestId, Prompt]]]:
    """Yield the requests about a group by stages; the first number of an id counts judges, then
    graders.

    `judged` must hold the results of a stage before the next one is taken.
    """
    if not judged.answered or not plan.count_requests(len(judged.answered)):
        yield iter(())
        return
    judged.redactions = Counter()
    view = shown_to_judges(group, judged.answered, plan, judged.redactions)
    judged.shortened = dict(zip(judged.answered, view.shortened, strict=False))
    if group.rollouts[judged.answered[0]].reference is not None:
        plan.refuse_reference()

    def iter_graded() -> Iterator[tuple[RequestId, Prompt]]:
        for number, grader in enumerate(plan.graders, len(plan.judges)):
            yield from iter_gradings(group.key, grader, number, judged.answered, view)

    def iter_replacing(ids: Sequence[RequestId]) -> Iterator[tuple[RequestId, Prompt]]:
        comparing = [id_ for id_ in ids if id_.judge < len(plan.judges)]
        yield from iter_requests(judged.answered, view, plan, comparing)
        if len(comparing) < len(ids):
            prompts = {(id_.judge, id_.shown): prompt for id_, prompt in iter_graded()}
            for id_ in ids[len(comparing) :]:
                yield id_, prompts[id_.judge, id_.shown]

    # A response is in several pairs; its text is neutralised once.
    known: NeutralTexts = {}

    def iter_neutral(
        requests: Iterable[tuple[RequestId, Prompt]],
    ) -> Iterator[tuple[RequestId, Prompt]]:
        for id_, prompt in requests:
            shown = neutralise_prompt(plan.asked[id_.judge].profile, prompt, known)
            if shown.broken is not None:
                for index, forms in zip(id_.shown, shown.broken.in_responses, strict=False):
                    judged.neutralised[index] = max(judged.neutralised.get(index, 0), len(forms))
            yield id_, shown

    planned = iter_planned(group.key, judged.answered, view, plan, group.pairs)
    yield iter_neutral(chain(iter_requests(judged.answered, view, plan, planned), iter_graded()))
    if group.pairs is not None:  # chosen by somebody who also reads their failures
        return
    for pairs in iter_further(judged, plan):
        further = to_each_judge(map(list_of, pairs), plan)
        yield iter_neutral(iter_requests(judged.answered, view, plan, further))
    for ids in iter_replacements(judged, plan):
        yield iter_neutral(iter_replacing(ids))


def shown_to_judges(
    group: Group, answered: Sequence[int], plan: GroupPlan, redactions: Counter[str]
) -> SharedView:
    """Return the texts of some rollouts that leave this machine, masked and shortened, with all
    that the judges are shown; counts what it masks. Lengths are measured before.
    """
    if not answered:
        return SharedView((), [])
    if _is_shown_as_gym(group, plan):
        view = view_gym_group([group.records[index] for index in answered])
    else:
        view = view_group([group.rollouts[index] for index in answered], plan.view)
        view = replace(
            view, scenario=group.rollouts[answered[0]].scenario if not plan.shows_as_gym else None
        )
    own_principle = group.rollouts[0].principle if plan.uses_own_principle else None
    view = replace(view, principle=own_principle or plan.principle)
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
        view = view.masked(lambda text: redactor.redact(text, redactions))
    is_marked = view.view == "transcript"
    return shorten_view(view, plan.rooms, is_marked=is_marked) if plan.rooms else view


def _is_shown_as_gym(group: Group, plan: GroupPlan) -> bool:
    return plan.shows_as_gym and bool(group.records) and all(map(is_of_gym, group.records))


def _take(
    judged: JudgedGroup, id_: RequestId, outcome: Outcome, plan: GroupPlan, judges: JudgeSet
) -> None:
    judges.on_outcome(outcome)
    judged.results.append((id_, without_reply(outcome, plan)))


def without_reply(outcome: Outcome, plan: GroupPlan) -> Outcome:
    """Drop the judge's reply, unless the plan keeps it."""
    if not plan.keep_replies:
        outcome.reply_text = None  # the journal has them; all replies of a run would fill a disk
    return outcome
