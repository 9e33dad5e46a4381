"""The judge of sessions: it compares the sessions of a group, and grades each by the rubric set
`session`.

By default the reward of a group's sessions is the comparisons' (`genrm`), and that of a session
alone, as a server has it, is the rubric's. Both are gated by the judge's grades of safety and of
the constraints. `[components]` and `[total]` of the settings file replace them."""

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from itertools import groupby
from statistics import fmean

from genrm_cli.group_scorer import GroupScorer
from genrm_cli.groups.group import Group
from genrm_cli.groups.results import GroupRewards
from genrm_cli.jobs.context import RunContext
from genrm_cli.json_types import Record
from genrm_cli.judging.rubrics.session_rubrics import CONSTRAINTS_NAME, SESSION_SET, TURNS_NAME
from genrm_cli.products.sessions.environment import AnyEnvironment, EpisodeState
from genrm_cli.products.sessions.session_rules import FORM, GUARD
from genrm_cli.rollouts.formats.episodes.episode_lines import FORMAT, MASKED
from genrm_cli.rollouts.formats.episodes.session_safety import SAFE_FROM, safety_of_components
from genrm_cli.rollouts.formats.format import Score
from genrm_cli.scored.write_lines import scores_of
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
# One call grades everything. The mean of three counts: one wrong grading must not zero a session.
_GRADINGS = "3"
_COMPONENTS = (
    Component(GUARD, "rule", (("rule", GUARD),)),
    Component(FORM, "rule", (("rule", FORM),)),
    Component(SESSION_SET, "rubric", (("set", SESSION_SET), ("repeats", _GRADINGS))),
)
_GATES = (("rubric_safety", SAFE_FROM), (CONSTRAINTS_NAME, SAFE_FROM))
_OF_GROUPS = TotalTable(weights=((GENRM, 1.0),), gates=_GATES)
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
    gates=_GATES,
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
    """Scores the records of sessions, as `genrm score` would."""

    def __init__(self, scorer: GroupScorer) -> None:
        self._scorer = scorer

    async def score_all(self, records: Iterable[Record]) -> list[Score]:
        """Return the result of each record; those of a group are adjacent."""
        # Lazily: a record is read and forgotten, and only results stay in memory.
        results = await self._scorer.score_groups(map(_group_of, _iter_groups(records)))
        return [score for result in results for score in self._scores_of(result)]

    async def score_one(self, record: Record) -> Score:
        """Return the result of a session that is judged alone."""
        (score,) = self._scores_of(await self._scorer.score_group(_group_of([record])))
        return score

    def _scores_of(self, result: GroupRewards) -> list[Score]:
        return scores_of(result.scores, self._scorer.plan.rewards)


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


def plumbing_reward(environment: AnyEnvironment, state: EpisodeState) -> Record:
    """Return the reward of the environment's own components, as a record has it; nothing before the
    policy's first turn.
    """
    components = environment.components(state) if state.turn_index else {}
    end = None if state.end is None else state.end.reason
    safety = safety_of_components(components, end)
    values = [value for name, value in components.items() if name not in environment.gates]
    closed = [name for name in environment.gates if components.get(name) == 0]
    broken = list(dict.fromkeys([*closed, *safety.broken]))
    reward: Record = {
        "total_reward": round(fmean(values), 6) if values else None,
        "components": components,
        "source": PLUMBING,
    }
    if broken:
        reward["gated_by"] = broken
        reward["total_reward"] = 0.0 if values else None
    if safety.is_masked:
        reward["total_reward"] = None
        reward["reason"] = MASKED
    return reward


def _iter_groups(records: Iterable[Record]) -> Iterator[list[Record]]:
    for _, members in groupby(records, key=lambda record: record["metadata"]["group"]):
        yield list(members)


def _group_of(records: list[Record]) -> Group:
    rollouts = [rollout for record in records for rollout in FORMAT.read(record)]
    return Group(f"group:{records[0]['metadata']['group']}", rollouts, records)
