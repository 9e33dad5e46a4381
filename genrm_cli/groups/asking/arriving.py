"""Ask the judges about a group whose rollouts arrive one by one.

`judge_group` asks about a whole group and cancels what is in flight when its caller is cancelled.
Here every request is a task of its own: it starts as soon as it is certain, and continues when its
caller is cancelled."""

import asyncio
from collections import Counter
from collections.abc import Mapping

from msgspec.structs import replace

from genrm_cli.errors import JudgeError
from genrm_cli.groups.asking.begin import begin_group, compute_local
from genrm_cli.groups.asking.shown import shown_to_judges
from genrm_cli.groups.asking.stages import iter_stages, prepared
from genrm_cli.groups.comparisons import plan_group
from genrm_cli.groups.group import Group, JudgedGroup
from genrm_cli.groups.judge_group import without_reply
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.json_types import JsonObject
from genrm_cli.judging.engine import JudgeSet
from genrm_cli.judging.pacing.endpoint import loop_time_s
from genrm_cli.judging.profiles.profile import NeutralTexts, neutralise_prompt
from genrm_cli.judging.requests import ExtraCalls, PairwisePrompt, Prompt, RequestId
from genrm_cli.rewards.component import local_kind
from genrm_cli.rollouts.gym_view import as_gym
from genrm_cli.rollouts.rollout import Rollout
from genrm_cli.tasks import in_thread
from genrm_cli.verdicts import Failure, FailureKind, Outcome

_Asked = tuple[int, int, Prompt]
"""Number of the judge, number of the repeat, what is shown."""


class ArrivingGroup:
    """The requests about one group, from its first pair to its last verdict."""

    def __init__(self, key: str, plan: GroupPlan, judges: JudgeSet, size: int) -> None:
        """Begin a group; asks nothing.

        Args:
            key: of the group.
            plan: of the run.
            judges: those of the plan.
            size: rollouts that are expected to arrive.
        """
        self._key = key
        self._plan = plan
        self._judges = judges
        self._asked: dict[_Asked, asyncio.Task[Outcome]] = {}
        self._shown: dict[int, PairwisePrompt] = {}
        self._kinds = set[object]()
        self._known: NeutralTexts = {}
        self._planned = plan_group(key, range(size), plan.pairing) if plan.compares_pairs else []
        self._extra = ExtraCalls(plan.extra_calls(size))

    def add(self, index: int, rollout: Rollout, record: JsonObject | None = None) -> None:
        """Add a rollout by its index in the whole group, and ask about the pairs that are certain
        now.

        These are the pairs planned if all rollouts arrive, can be compared and differ. After one
        that cannot be compared, or is equal to another, nothing is asked until the group is
        whole."""
        if self._plan.shows_as_gym and record is not None:
            rollout = as_gym(rollout, record)
        kind = self._plan.shown_of(rollout, record)
        if self._plan.why_not_compared(rollout) is not None or kind in self._kinds:
            self._planned = []
            return
        if kind is not None:
            self._kinds.add(kind)
        self._shown[index] = self._show(rollout, record)
        for i, j, repeat in self._planned:
            if index in (i, j) and i in self._shown and j in self._shown:
                first = self._shown[i]
                second = self._shown[j]
                images = first.images + second.images
                prompt = replace(first, response_2=second.response_1, images=images)
                for number, judge in enumerate(self._plan.judges):
                    shown = neutralise_prompt(judge.profile, prompt, self._known)
                    self._ask(number, repeat, shown)

    def _show(self, rollout: Rollout, record: JsonObject | None) -> PairwisePrompt:
        """Return the view of a rollout, unless another rollout of its group changes the view of
        all.
        """
        group = Group(self._key, [rollout], [] if record is None else [record])
        view = shown_to_judges(group, (0,), self._plan, Counter())
        return PairwisePrompt(
            view.conversation,
            view.responses[0],
            "",
            view.comparing_principle,
            view.reference,
            view.images,
        )

    def _ask(self, number: int, repeat: int, prompt: Prompt) -> asyncio.Task[Outcome]:
        asked = number, repeat, prompt
        if asked not in self._asked:
            self._asked[asked] = task = asyncio.ensure_future(self._answer(*asked))
            # Its error may have no reader.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return self._asked[asked]

    async def _answer(self, number: int, repeat: int, prompt: Prompt) -> Outcome:
        try:
            outcome = await self._ask_judge(number, repeat, prompt)
        except JudgeError as error:  # down for too long; it may be back at the next request
            outcome = Outcome(Failure(FailureKind.CONNECTION, str(error)))
        self._judges.on_outcome(outcome)
        return outcome if self._plan.keep_replies else without_reply(outcome)

    async def _ask_judge(self, number: int, repeat: int, prompt: Prompt) -> Outcome:
        judge = self._judges[number]
        since_s = loop_time_s()
        async with self._judges.turn():
            request = judge.prepare(prompt, repeat)
            (known,) = judge.recall([request])
            if known is not None:
                return known
            slot = await judge.admit(since_s=since_s)
        if slot is None:
            return Outcome(Failure(FailureKind.NOT_ASKED, f"stopped by {judge.stopped_by}"))
        return await judge.ask(replace(request, extra=self._extra), slot)

    async def judge(self, group: Group, timeout_s: float | None = None) -> JudgedGroup:
        """Make the remaining requests, and return everything known about the group.

        Args:
            group: all its rollouts, in order; not necessarily those that were expected.
            timeout_s: after this, requests without an answer count as failed, although they
                continue.

        Raises:
            GenrmError: the journal cannot be written, or a component cannot be computed.
        """
        if self._plan.shows_as_gym:
            group = group.as_gym()
        judged = await self._begin(group)
        ends_s = None if timeout_s is None else loop_time_s() + timeout_s
        for stage in iter_stages(judged, group, self._plan, self._known):
            requests = {
                id_: self._ask(id_.judge, id_.repeat, prompt)
                for id_, prompt in await prepared(stage, judged)
            }
            results = await _results_of(requests, ends_s)
            judged.results += results
            judged.extra.count(sum(outcome.reasks for _, outcome in results))
            # Requests that are asked later share what is left.
            self._extra.left = min(self._extra.left, judged.extra.left)
            if not all(task.done() for task in requests.values()):
                break  # the next stage depends on them
        judged.sort()
        return judged

    def forget_failures(self) -> None:
        """Make requests again that the judge did not answer, when they are needed again."""
        self._extra = ExtraCalls(self._plan.extra_calls(len(self._shown)))
        self._asked = {
            asked: task for asked, task in self._asked.items() if not _is_unanswered(task)
        }

    async def judge_late(self, stored: JudgedGroup, group: Group, late: int) -> JudgedGroup:
        """Judge one more rollout against a group that was judged without it.

        Args:
            stored: the group without it.
            group: the group with it.
            late: its index in `group`.

        Raises:
            GenrmError: as for `judge`.
        """
        if self._plan.shows_as_gym:
            group = group.as_gym()
        judged = await self._begin(group)
        # Compared along the ring, whatever the goal: a late rollout has no part in what the others'
        # verdicts decided.
        plan = replace(self._plan, pairing=replace(self._plan.pairing, goal="rewards"))
        first = await prepared(next(iter_stages(judged, group, plan)), judged)
        # A late one that is equal to another has its comparisons.
        requests = {
            id_: self._ask(id_.judge, id_.repeat, prompt)
            for id_, prompt in first
            if late in id_.shown and late not in judged.copies.values()
        }
        # A late rollout may stand for one that came in time.
        moved = [index + (index >= late) for index in range(stored.size)]
        of = [judged.copies.get(index, index) for index in moved]
        known = {
            id_._replace(shown=tuple(of[index] for index in id_.shown)): outcome
            for id_, outcome in stored.results
        }
        judged.results = list((known | dict(await _results_of(requests))).items())
        judged.sort()
        return judged

    async def _begin(self, group: Group) -> JudgedGroup:
        """Compute the components that need no judge."""
        judged = begin_group(group, self._plan)
        if any(map(local_kind, self._plan.rewards.settings.components)):
            components = self._plan.rewards.settings.components
            await in_thread(lambda: compute_local(judged, group, components))
        return judged


def _is_unanswered(task: asyncio.Task[Outcome]) -> bool:
    """Whether a request ended because the judge failed, whatever the texts."""
    if not task.done() or task.cancelled() or task.exception() is not None:
        return False
    result = task.result().result
    return isinstance(result, Failure) and not result.kind.depends_on_texts


async def _results_of(
    requests: Mapping[RequestId, asyncio.Task[Outcome]], ends_s: float | None = None
) -> list[tuple[RequestId, Outcome]]:
    if requests:
        timeout_s = None if ends_s is None else ends_s - loop_time_s()
        await asyncio.wait(set(requests.values()), timeout=timeout_s)
    late = Failure(FailureKind.TIMEOUT, "the judge did not answer before the deadline")
    return [
        (id_, task.result() if task.done() else Outcome(late))
        for id_, task in sorted(requests.items())
    ]
