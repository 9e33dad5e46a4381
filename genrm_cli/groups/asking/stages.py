"""The requests about a group, stage by stage."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from genrm_cli.groups.asking.begin import begin_group
from genrm_cli.groups.asking.replacements import iter_replacements
from genrm_cli.groups.asking.shown import shown_to_judges
from genrm_cli.groups.comparisons import (
    iter_further,
    iter_requests,
    list_of,
    planned_lists,
    to_each_judge,
)
from genrm_cli.groups.graders import iter_gradings
from genrm_cli.groups.group import Group, JudgedGroup
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.judging.profiles.profile import NeutralTexts, neutralise_prompt
from genrm_cli.judging.requests import Prompt, RequestId
from genrm_cli.tasks import in_thread

_LONG_CHARS = 500_000  # of a group, whose texts take up to 50 ms to prepare


def iter_stages(
    judged: JudgedGroup, group: Group, plan: GroupPlan, known: NeutralTexts | None = None
) -> Iterator[Iterator[tuple[RequestId, Prompt]]]:
    """Yield the requests about a group by stages; the first number of an id counts judges, then
    graders.

    `judged` must hold the results of a stage before the next one is taken. `known` texts are
    neutralised already, and get those that are not.
    """
    # A response is in several pairs; its text is neutralised once.
    known = {} if known is None else known
    if not judged.answered or not plan.count_requests(len(judged.answered)):
        yield iter(())
        return
    judged.redactions = Counter()
    view = shown_to_judges(group, judged.answered, plan, judged.redactions)
    judged.shortened = dict(zip(judged.answered, view.shortened, strict=False))
    if group.rollouts[judged.answered[0]].reference is not None:
        plan.refuse_reference()

    count = len(plan.judges)

    def iter_comparing(ids: Iterable[RequestId]) -> Iterator[tuple[RequestId, Prompt]]:
        return iter_requests(judged.answered, view, ids, in_pairs=plan.compares_pairs)

    def iter_graded() -> Iterator[tuple[RequestId, Prompt]]:
        for number, grader in enumerate(plan.graders, count):
            yield from iter_gradings(group.key, grader, number, judged.answered, view)

    def iter_replacing(ids: Sequence[RequestId]) -> Iterator[tuple[RequestId, Prompt]]:
        comparing = [id_ for id_ in ids if id_.judge < count]
        yield from iter_comparing(comparing)
        if len(comparing) < len(ids):
            prompts = {(id_.judge, id_.shown): prompt for id_, prompt in iter_graded()}
            for id_ in ids[len(comparing) :]:
                yield id_, prompts[id_.judge, id_.shown]

    def iter_neutral(
        requests: Iterable[tuple[RequestId, Prompt]],
    ) -> Iterator[tuple[RequestId, Prompt]]:
        for id_, prompt in requests:
            shown = neutralise_prompt(plan.asked[id_.judge].profile, prompt, known)
            if shown.broken is not None:
                for index, forms in zip(id_.shown, shown.broken.in_responses, strict=False):
                    judged.neutralised[index] = max(judged.neutralised.get(index, 0), len(forms))
            yield id_, shown

    lists = planned_lists(group.key, judged.answered, view.list_size, plan)
    yield iter_neutral(chain(iter_comparing(to_each_judge(lists, count)), iter_graded()))
    for pairs in iter_further(judged, plan):
        further = to_each_judge(map(list_of, pairs), count)
        yield iter_neutral(iter_comparing(further))
    for ids in iter_replacements(judged, plan):
        yield iter_neutral(iter_replacing(ids))


def count_requests(group: Group, plan: GroupPlan) -> int:
    """Count all requests about a group."""
    judged = begin_group(group, plan)
    first = sum(1 for _ in next(iter_stages(judged, group, plan)))
    return first + plan.count_further(len(judged.answered))


async def prepared(
    stage: Iterator[tuple[RequestId, Prompt]], judged: JudgedGroup
) -> Iterable[tuple[RequestId, Prompt]]:
    """Return the requests of a stage; those with long texts are made in a thread, so that other
    groups need not wait for them.
    """
    chars = sum(shape.answer_chars + shape.reasoning_chars for shape in judged.shapes)
    return await in_thread(lambda: list(stage)) if chars > _LONG_CHARS else stage
