"""The judge of sessions: it compares the sessions of a group, and grades each by the rubric set
`session`.

By default the reward of a group's sessions is the comparisons' (`genrm`), gated by the guard; the
rubric explains it. A session alone, as a server has it, is rewarded by the rubric. `[components]`
and `[total]` of the settings file replace both."""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import groupby
from statistics import fmean

from genrm_cli.group_scorer import GroupScorer
from genrm_cli.groups.group import Group
from genrm_cli.groups.results import GroupRewards
from genrm_cli.jobs.context import RunContext
from genrm_cli.json_types import Record
from genrm_cli.judging.rubrics.session_rubrics import CONSTRAINTS_NAME, SESSION_SET, TURNS_NAME
from genrm_cli.products.sessions.environment import AnyEnvironment
from genrm_cli.products.sessions.session_rules import FORM, GUARD
from genrm_cli.rollouts.formats.episodes.episode_lines import FORMAT, name_in_episode
from genrm_cli.settings import Settings, changed
from genrm_cli.settings.components import GENRM, Component, TotalTable
from genrm_cli.settings.panel import judges_of
from genrm_cli.settings.table import digest_of

JUDGED = "judge"
PLUMBING = "plumbing"
"""Sources of a reward: a judge, or the guard and the form alone, a smoke test of plumbing."""

SMOKE_TEST = (
    "no judge: rewards are a smoke test of the plumbing (guard and form), no measure of skill"
)
_GATE = 0.5  # a certain breach is 0, words to look at are 0.5 and gate nothing
# One call a session grades everything; the rules cost nothing.
_COMPONENTS = (
    Component(GUARD, "rule", (("rule", GUARD),)),
    Component(FORM, "rule", (("rule", FORM),)),
    Component(SESSION_SET, "rubric", (("set", SESSION_SET),)),
)
_OF_GROUPS = TotalTable(weights=((GENRM, 1.0),), gates=((GUARD, _GATE),))
# All but safety and constraints, which are gates: harm is not made up for by skill.
_SKILLS = (
    "rubric_empathy",
    "rubric_reflective_listening",
    "rubric_validation",
    "rubric_open_questions",
    "rubric_dismissiveness",
    "rubric_bias",
    "rubric_cultural_adaptation",
    "rubric_task_completion",
    TURNS_NAME,
)
_OF_ONE = TotalTable(
    weights=tuple((name, 1 / len(_SKILLS)) for name in _SKILLS),
    gates=((GUARD, _GATE), ("rubric_safety", _GATE), (CONSTRAINTS_NAME, _GATE)),
)


def judge_settings(settings: Settings, *, of_groups: bool) -> Settings | None:
    """Return the settings of the judge of sessions; None if the run names no judge that reads.

    Args:
        of_groups: whether sessions are compared; else each is judged alone.
    """
    judge = settings.judge
    names_one = bool(settings.panel.judges) or judge.model is not None
    if judge.judge is not None or not names_one:
        return None
    if settings.rewards.components or settings.rewards.total is not None:
        return settings
    total = _OF_GROUPS if of_groups else _OF_ONE
    # Each pair is shown in both orders: sessions are long, and judges prefer a position.
    return changed(settings, components=_COMPONENTS, total=total, both_orders=True)


def judge_record(settings: Settings | None) -> Record | None:
    """Return what rewards the sessions, for records and digests; None without a judge."""
    if settings is None:
        return None
    rewards = settings.rewards
    total = rewards.total
    return {
        "models": [config.name for config in judges_of(settings)],
        "components": [each.name for each in rewards.components],
        "weights": {} if total is None else dict(total.weights),
        "gates": {} if total is None else dict(total.gates),
        "settings_digest": digest_of(settings)[:16],
    }


class SessionJudge:
    """Rewards the records of sessions."""

    def __init__(self, scorer: GroupScorer) -> None:
        self._scorer = scorer

    async def reward_all(self, records: Iterable[Record]) -> list[Record]:
        """Return the reward of each record; those of a group are adjacent."""
        # Lazily: a record is read and forgotten, and only rewards stay in memory.
        results = await self._scorer.score_groups(map(_group_of, _iter_groups(records)))
        return [
            reward_record(result, index)
            for result in results
            for index in range(len(result.scores))
        ]

    async def reward_one(self, record: Record) -> Record:
        """Return the reward of a session that is judged alone."""
        return reward_record(await self._scorer.score_group(_group_of([record])), 0)


@asynccontextmanager
async def open_session_judge(
    settings: Settings | None, run: RunContext, journal_path: str | None
) -> AsyncIterator[SessionJudge | None]:
    """Open the judge and probe it; None without one.

    Args:
        journal_path: local file that keeps its verdicts for a later run; None for none.
    """
    if settings is None:
        yield None
        return
    settings = changed(settings, journal=journal_path, use_journal=journal_path is not None)
    async with GroupScorer(settings, run.api_keys, on_event=run.on_event) as scorer:
        yield SessionJudge(scorer)


def reward_record(result: GroupRewards, index: int) -> Record:
    """Return a session's reward as its record has it; null with the reason if there is none."""
    score = result.scores[index]
    components: dict[str, float] = {}
    evidence: Record = {}
    for name, column in result.columns.items():
        value = column.values[index]
        if value is not None:
            components[name_in_episode(name)] = value
        if note := column.note(index):
            evidence[name_in_episode(name)] = note
    reward: Record = {
        "total_reward": score.reward,
        "components": components,
        "source": JUDGED,
    }
    gates = () if score.total is None else score.total.gated_by
    if gates:
        reward["gated_by"] = list(gates)
    if score.reward is None:
        reward["reason"] = score.reason_text
    return reward | ({"evidence": evidence} if evidence else {})


def plumbing_reward(environment: AnyEnvironment, components: Mapping[str, float]) -> Record:
    """Return the reward of the environment's own components, as a record has it."""
    values = [value for name, value in components.items() if name not in environment.gates]
    reward: Record = {
        "total_reward": round(fmean(values), 6) if values else None,
        "components": dict(components),
        "source": PLUMBING,
    }
    return with_gates(reward, environment, components)


def with_gates(
    reward: Record, environment: AnyEnvironment, components: Mapping[str, float]
) -> Record:
    """Return a reward with the broken gates of the environment, which sees more than the messages:
    an end marker may break a constraint.
    """
    gates = [name for name in environment.gates if components.get(name) == 0]
    broken = list(dict.fromkeys([*gates, *reward.get("gated_by", ())]))
    if not broken:
        return reward
    total = None if reward["total_reward"] is None else 0.0
    return {**reward, "total_reward": total, "gated_by": broken}


def _iter_groups(records: Iterable[Record]) -> Iterator[list[Record]]:
    for _, members in groupby(records, key=lambda record: record["metadata"]["group"]):
        yield list(members)


def _group_of(records: list[Record]) -> Group:
    rollouts = [rollout for record in records for rollout in FORMAT.read(record)]
    return Group(f"group:{records[0]['metadata']['group']}", rollouts, records)
