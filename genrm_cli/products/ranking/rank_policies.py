"""Rank policies: score their rollouts as `genrm score` does, and read the comparisons.

Scored rollouts are read as they are, without a call. Others are scored into a temporary folder, all
pairs in both orders; their verdicts stay in the journal that `genrm score` uses for these inputs.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import Literal

from msgspec import structs
from msgspec.structs import replace

from genrm_cli.errors import InputError, SettingRef, TooManyUnscoredError, UsageError, naming
from genrm_cli.groups.check import check_settings, refuse_defaults, without_components
from genrm_cli.jobs.context import RunContext, cancelled_by_signals
from genrm_cli.jobs.due.inputs import Task, only_task, places_in
from genrm_cli.jobs.due.refusals import resume_text
from genrm_cli.jobs.estimate import RunEstimate
from genrm_cli.jobs.journals import check_journal_place
from genrm_cli.jobs.previews.preview import preview_task
from genrm_cli.jobs.score_file import score_task
from genrm_cli.json_types import Record, field_at
from genrm_cli.judging.opening.open_judges import open_judges
from genrm_cli.products.ranking.leaderboard import (
    Leaderboard,
    build_leaderboard,
    named,
    sentence_of,
)
from genrm_cli.products.ranking.outcomes import OutcomeTable
from genrm_cli.products.ranking.policy_outcomes import add_group
from genrm_cli.rollouts.rollout import UnreadableRecordError
from genrm_cli.scored.files import ScoredInput, find_scored
from genrm_cli.scored.groups import ScoredRun
from genrm_cli.scored.parse_lines import parse_line
from genrm_cli.scored.run_record import PanelRecord, RunRecord
from genrm_cli.settings import Settings, changed
from genrm_cli.storage.encoding.records import BadLineError
from genrm_cli.storage.location import is_scored_file, short_names
from genrm_cli.storage.store import Store
from genrm_cli.verdicts import StoppedBy

_POLICY = "policy"  # of the fields that are kept of a scored line


class Ranking(Leaderboard, frozen=True, kw_only=True):
    """A leaderboard, and how it came about.

    Attributes:
        judge: names of the judges; `judged_by` describes them, if the run did.
        stopped_by: the limit that left comparisons unasked; None for none.
        calls: made by this run. `known`: verdicts that needed none.
        left_out: number of items that do not take part, by what they are.
        sentence: what the leaderboard says.
    """

    format: Literal[1] = 1
    inputs: tuple[str, ...]
    judge: str
    judged_by: PanelRecord | None
    stopped_by: StoppedBy | None
    calls: int
    known: int
    left_out: Mapping[str, int]
    sentence: str


def rank_settings(settings: Settings) -> Settings:
    """Return the settings of the job that a ranking runs."""
    return changed(
        without_components(settings),
        together=True,
        strategy="all_pairs",
        both_orders=True,
        min_age=0.0,
    )


def plan_ranking(given: Sequence[str], policy_field: str | None, run: RunContext) -> RunEstimate:
    """Estimate what `rank_policies` would ask, without a call; blocks."""
    task = _task_of(given, policy_field, run)
    preview = preview_task(task, run)
    if preview.error is not None:
        raise preview.error
    return preview.plan


async def rank_policies(given: Sequence[str], policy_field: str | None, run: RunContext) -> Ranking:
    """Compare policies, and return the leaderboard.

    Args:
        given: rollouts, or scored ones: files, folders, prefixes and patterns.
        policy_field: dotted path of the field that names the policy; None for one policy per file.
        run: with the settings of `rank_settings`; its metrics count the calls.

    Raises:
        GenrmError: a subclass for each kind of failure.
        CancelledError: the run was interrupted, also by SIGTERM.
    """
    settings = run.settings
    if all(map(is_scored_file, given)):
        scored = _scored_together(given, settings, run.store)
        files = scored.files
        return await run.in_thread(
            lambda: _read_ranking(scored, scored.name, files, policy_field, run)
        )
    task = await run.in_thread(lambda: _task_of(given, policy_field, run))
    with TemporaryDirectory() as folder:
        own = replace(task, places=places_in(folder, task.places))
        async with (
            cancelled_by_signals(),
            open_judges(run.judge_specs(), run.open_options, run.on_event) as judges,
        ):
            record = await score_task(own, run, judges, None, overwrite=False)
        scored = ScoredInput(own.places.scored, own.places.scored_files)
        uris = [file.uri for file in task.files]
        return await run.in_thread(
            lambda: _read_ranking(scored, task.uri, uris, policy_field, run, record)
        )


def refuse_partial(ranking: Ranking, settings: Settings) -> None:
    """Refuse a ranking that was stopped early, or of which too much failed, with a
    `TooManyUnscoredError`.
    """
    asked = ranking.failed + ranking.n_verdicts
    if ranking.stopped_by is not None:
        raise TooManyUnscoredError(
            SettingRef(ranking.stopped_by),
            " stopped the run: the ranking is partial. ",
            resume_text(settings),
        )
    if ranking.failed > settings.rewards.max_unscored * asked:
        setting = SettingRef("max_unscored", settings.rewards.max_unscored)
        raise TooManyUnscoredError(
            f"{ranking.failed:,} of {asked:,} comparisons failed, more than ",
            setting,
            " allows. Run the same command again to ask once more.",
        )


def _scored_together(given: Sequence[str], settings: Settings, store: Store) -> ScoredInput:
    try:
        return find_scored(given, settings, store)[0]
    except UsageError as error:
        raise UsageError(
            f"{', '.join(given)}: not scored together, so no comparison joins them; ",
            naming("score them with $together, or rank the rollouts themselves."),
        ) from error


def _task_of(given: Sequence[str], policy_field: str | None, run: RunContext) -> Task:
    """Return the files of a command line as one set, whose journal is that of `genrm score`; refuse
    what cannot be ranked, before any call.
    """
    settings = run.settings
    check_settings(settings)
    check_journal_place(settings)
    refuse_defaults(settings, "policies")
    if settings.offline.is_used:
        raise UsageError(
            naming("a ranking asks the judge itself; omit $requests_to and $replies_from.")
        )
    task = only_task(given, changed(settings, output=None, any_prefix=True))
    names = short_names([file.uri for file in task.files])
    if policy_field is not None:
        names = list(dict.fromkeys(_iter_names(task, policy_field, run)))
    _refuse_names(names, policy_field, task.uri)
    return task


def _refuse_names(names: Sequence[str], policy_field: str | None, uri: str) -> None:
    if policy_field is not None and not names:
        raise InputError(
            f"{uri}: no rollout has a value under ",
            SettingRef("policy_field", policy_field),
            "; `genrm validate` names the fields.",
        )
    if len(names) < 2:
        raise InputError(
            f"{uri}: its only policy is {names[0]!r}, and a ranking needs two. ",
            naming("Name several files, or the field that names the policy with $policy_field."),
        )


def _iter_names(task: Task, path: str, run: RunContext) -> Iterator[str]:
    for file in task.files:
        with run.open_source(file.uri) as source:
            for line in source.iter_lines():
                try:
                    record, format_, rollouts = parse_line(line, run.settings.input)
                except (BadLineError, UnreadableRecordError):
                    continue  # the job counts it
                for place in range(len(rollouts)):
                    name = _name_at(format_.own_record(record, place), path)
                    if name is not None:
                        yield name


def _name_at(record: Record, path: str) -> str | None:
    name = field_at(record, path)
    return str(name) if isinstance(name, (str, int, float)) and name != "" else None


def _read_ranking(
    scored: ScoredInput,
    name: str,
    uris: Sequence[str],
    policy_field: str | None,
    run: RunContext,
    record: RunRecord | None = None,
) -> Ranking:
    """Return the ranking of scored rollouts; `record` describes the run that asked for it.

    Args:
        scored: the scored rollouts.
        name: of what the user gave.
        uris: the files that the user gave.
    """
    files = short_names(uris)
    numbers: dict[str, int] = {}

    def policy_of(record: Record) -> Record:
        if policy_field is not None:
            return {_POLICY: _name_at(record, policy_field)}
        # Files are read in their order: as many are finished as come before this one.
        return {_POLICY: files[len(groups.files)]}

    if policy_field is None:
        numbers = {name: number for number, name in enumerate(files)}
    table = OutcomeTable([])
    left_out = Counter[str]()
    with ScoredRun(scored, run.settings, kept_of=policy_of) as groups:
        groups.read(run.store)
        for group in groups.iter_groups():
            policies = {
                member.line.index: numbers.setdefault(member.record[_POLICY], len(numbers))
                for member in group.members
                if member.record[_POLICY] is not None
            }
            add_group(group, policies, table, left_out)
        judge = ", ".join(sorted(groups.judges))
        metrics = record or groups.metrics
    names = table.policies = list(numbers)
    _refuse_names(names, policy_field, name)
    outcomes = table.outcomes()
    if not table.prompts:
        raise InputError(
            f"{name}: no prompt was answered by two of the policies {named(names)}. ",
            naming("Name the field of the task, or that of the prompt, with $group_by."),
        )
    if not len(outcomes.won):
        kinds = {} if metrics is None else metrics.failures_by_kind
        reason = ", ".join(f"{count} × {kind}" for kind, count in kinds.items())
        raise TooManyUnscoredError(
            f"no comparison has a verdict ({reason or 'none was asked'}). ",
            naming("See its replies with `genrm compare`, or choose another $profile."),
        )
    board = build_leaderboard(outcomes)
    return Ranking(
        **structs.asdict(board),
        inputs=tuple(uris),
        judge=judge,
        judged_by=None if metrics is None else metrics.judge,
        stopped_by=None if record is None else record.stopped_by,
        calls=0 if record is None else record.calls,
        known=board.n_verdicts if record is None else record.journal_hits,
        left_out=dict(sorted(left_out.items())),
        sentence=sentence_of(board, judge),
    )
