"""Collect episodes: play many sessions at once, and write the episodes in order, all or nothing.

Episodes end in any order. Their records wait in a spool, the failures apart from the others, until
all have ended; a judge then compares those of each group, and the outputs are written by index.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from itertools import product

from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.errors import UsageError, counted, naming
from genrm_cli.jobs.context import RunContext, cancelled_by_signals
from genrm_cli.jobs.due.inputs import output_places
from genrm_cli.jobs.due.leasing import leased
from genrm_cli.jobs.journals import (
    check_journal_place,
    journal_path,
    open_journal_at,
    turns_path,
)
from genrm_cli.json_types import Record
from genrm_cli.judging.pacing.policy import cost_of
from genrm_cli.metrics.event import Event
from genrm_cli.products.sessions.collected_files import (
    FAILURES_SUFFIX,
    SUMMARY_FORMAT,
    SUMMARY_SUFFIX,
    CollectOptions,
    check_output,
    read_summary,
)
from genrm_cli.products.sessions.counts import CollectCounts
from genrm_cli.products.sessions.environment import (
    FAILURES,
    PRIVATE_DATA,
    AnyEnvironment,
    End,
    EpisodeScenario,
    broken,
)
from genrm_cli.products.sessions.environments import ScenarioSet, digest_of_json
from genrm_cli.products.sessions.episode import (
    EpisodeSlot,
    Played,
    RunOrigin,
    client_record,
    episode_record,
    play_episode,
)
from genrm_cli.products.sessions.session_agents import Answer, RunStoppedError, open_agents
from genrm_cli.products.sessions.session_judge import (
    open_session_judge,
    plumbing_reward,
)
from genrm_cli.rollouts.formats.episodes.episode_lines import FORMAT
from genrm_cli.rollouts.formats.format import Score
from genrm_cli.rollouts.redaction import redactor_of
from genrm_cli.scored.describe_run import versions_record
from genrm_cli.settings import Settings, changed
from genrm_cli.storage.encoding.records import render_document, render_record
from genrm_cli.storage.leases import Lease
from genrm_cli.storage.location import sibling
from genrm_cli.storage.outputs import COMMIT_SUFFIX, Outputs
from genrm_cli.storage.spool import Pieces, Spool
from genrm_cli.tasks import first_error_of

_PROGRESS_EVERY_S = 30.0  # sessions of slow models end minutes apart
# More than any endpoint takes at once: `concurrency` paces the calls, this bounds the memory.
_IN_FLIGHT = 512


class CollectingEvent(Event, frozen=True):
    """The progress of a collection."""

    sessions: int
    planned: int
    turns: int
    calls: int

    def text(self) -> str:
        """Describe the progress."""
        return (
            f"sessions {self.sessions:,}/{self.planned:,}, {counted(self.turns, 'turn')}, "
            f"{counted(self.calls, 'call')}"
        )


class CollectReport(Struct, frozen=True):
    """The result of a run: its summary, and its counters; None if the outputs were up to date."""

    summary: Record
    counts: CollectCounts | None = None


async def collect(
    environment: AnyEnvironment, scenarios: ScenarioSet, options: CollectOptions, run: RunContext
) -> CollectReport:
    """Play all episodes of some scenarios and write them.

    Raises:
        GenrmError: a subclass for each kind of failure. After `TooManyUnscoredError`, the outputs
            exist but lack episodes; running again continues. After any other, no output has
            appeared.
        CancelledError: the run was interrupted; the journal has every turn that was answered.
    """
    settings = run.settings
    output = options.output
    check_journal_place(settings)
    check_output(output, settings, options.policy_role)
    deciding = options.deciding(environment, scenarios, settings.judge.redact_pattern)
    async with cancelled_by_signals():
        await run.in_thread(run.store.at(output).make_folder)  # the lease needs it, too
        async with leased([output], run) as leases, AsyncExitStack() as opened:
            # Only the holder of the lease knows that no other run is about to write.
            if known := await run.in_thread(lambda: _find_current(output, deciding, run)):
                return CollectReport(known)
            work = _Collecting(environment, scenarios, options, run)
            started_s = time.monotonic()
            with Spool() as spool:
                work.spool(spool)
                path = turns_path(output, settings)
                journal = None
                if options.agents:
                    journal = await opened.enter_async_context(open_journal_at(path, output, run))
                async with open_agents(options.agents, run, journal) as answer:
                    await work.play_all(answer)
                # A later `genrm score` of these episodes finds the verdicts in its own journal.
                verdicts = None
                if options.judge is not None:
                    verdicts = _verdicts_path(output, path, options.judge)
                scores = None
                async with open_session_judge(options.judge, run, verdicts) as judge:
                    if judge is not None:
                        scores = await judge.score_all(work.iter_episodes())
                about = {"settings": deciding, "settings_digest": digest_of_json(deciding)}
                lease = next(iter(leases), None)
                wall_time_s = round(time.monotonic() - started_s, 3)
                summary = await run.in_thread(
                    lambda: work.write(scores, lease, {"wall_time_s": wall_time_s, **about})
                )
    work.counts.refuse_missing(settings.rewards.max_unscored)
    return CollectReport(summary, work.counts)


def _verdicts_path(output: str, turns: str, settings: Settings) -> str | None:
    """Return the journal of the verdicts: where `genrm score` of the episodes looks for it, unless
    the user named one file, which holds the turns.
    """
    scored = output_places(output, changed(settings, output=None)).scored
    path = journal_path(scored, settings)
    return f"{turns.removesuffix('.sqlite')}.verdicts.sqlite" if path == turns else path


def _find_current(output: str, deciding: Record, run: RunContext) -> Record | None:
    """Return the summary of complete outputs with these settings; None if there is work to do."""
    store = run.store
    store.at(output).check_writable()
    # A commit that was interrupted leaves a mix of old and new, to be written again.
    is_mixed = store.at(sibling(output, COMMIT_SUFFIX)).exists()
    if run.settings.output.force or is_mixed or not store.at(output).exists():
        return None
    known = read_summary(sibling(output, SUMMARY_SUFFIX), store)
    if known is None or known.get("settings_digest") != digest_of_json(deciding):
        raise UsageError(
            f"{output} exists and holds episodes of other settings; choose another ",
            naming("$output or $run_id, or pass $force to replace it."),
        )
    return None if known.get("partial") else known


class _Collecting:
    """One collection run."""

    def __init__(
        self,
        environment: AnyEnvironment,
        scenarios: ScenarioSet,
        options: CollectOptions,
        run: RunContext,
    ) -> None:
        self._environment = environment
        self._options = options
        self._run = run
        self._groups = list(_iter_groups(scenarios, options))
        self.counts = CollectCounts(planned=len(self._groups) * options.episodes)
        policy = options.policy
        self._origin = RunOrigin(
            options.run_id,
            options.policy_record(),
            {"scripted": options.policy_name} if policy is None else policy.as_record(),
            client_record(environment, options.client),
            scenarios.digests,
        )

    def spool(self, spool: Spool) -> None:
        """Keep the rendered records, by index, in a spool."""
        self._episodes = Pieces(spool)
        self._failures = Pieces(spool)

    async def play_all(self, answer: Answer) -> None:
        """Play all episodes, until a limit stops the run."""
        options = self._options
        counts = self.counts
        slots = self._iter_slots()
        redactor = redactor_of(self._run.settings.judge.redact_pattern)

        async def work() -> None:
            # All workers share the iterator: each takes the next episode that nobody has.
            for slot in slots:
                try:
                    played = await play_episode(
                        slot,
                        self._environment,
                        answer,
                        redactor,
                        options.scripted_policy,
                        counts.add_outcome,
                    )
                except RunStoppedError as stopped:
                    counts.stopped_by = str(stopped)
                    return
                self._enter(played)
                await asyncio.sleep(0)  # a scripted episode never yields control

        async def report() -> None:
            while True:
                await asyncio.sleep(_PROGRESS_EVERY_S)
                calls = sum(role.calls for role in counts.roles.values())
                self._run.on_event(
                    CollectingEvent(counts.finished, counts.planned, counts.turns, calls)
                )

        reporting = asyncio.create_task(report())
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(min(_IN_FLIGHT, counts.planned)):
                    tasks.create_task(work())
        except BaseExceptionGroup as errors:
            raise first_error_of(errors) from None
        finally:
            reporting.cancel()

    def _iter_slots(self) -> Iterator[EpisodeSlot]:
        options = self._options
        episodes = product(self._groups, range(options.episodes))
        for index, ((scenario, identity, variant), number) in enumerate(episodes):
            branch_at = options.branch_at or 1
            seed = options.client_seed
            yield EpisodeSlot(index, scenario, variant, seed, number, branch_at, identity)

    def _enter(self, played: Played) -> None:
        """Count an episode, and store its record: among the failures, if it must not be used."""
        environment = self._environment
        counts = self.counts
        slot = played.slot
        state = played.state
        reward: Record | None = None
        if state.end is None or state.end.reason not in FAILURES:
            try:
                reward = plumbing_reward(environment, state)
            except Exception as error:  # noqa: BLE001  (a bug met by one session ends no other)
                state = broken(state, error)
                played = replace(played, state=state)
        end = state.end or End("", "", 0)
        counts.turns += state.turn_index
        left_out = None
        if end.reason in FAILURES:
            left_out = "failed"
            counts.failed[end.reason] += 1
            counts.details.setdefault(end.reason, f"{slot.group}#{slot.number}: {end.evidence}")
        else:
            counts.ends[end.reason] += 1
            if played.faults:
                counts.faults.update(played.faults)
                counts.faulty += 1
                left_out = "client fault"
            elif slot.branch_at > 1 and state.turn_index < slot.branch_at:
                counts.unparted += 1
                left_out = "ended before its branch"
        record = episode_record(played, environment, self._origin, reward)
        pieces = self._episodes
        if left_out is None:
            counts.written += 1
        else:
            pieces = self._failures
            record["metadata"]["left_out"] = left_out
        pieces.add(slot.index, render_record(record))

    def iter_episodes(self) -> Iterator[Record]:
        """Yield the records of the episodes that can be used, by index."""
        for index in range(len(self._episodes)):
            if index in self._episodes:
                yield json.loads(self._episodes[index])

    def write(self, scores: Sequence[Score] | None, lease: Lease | None, about: Record) -> Record:
        """Write all outputs, and return the summary.

        Args:
            scores: those of the judge, by episode; None leaves the environment's rewards.
            lease: of the output.
            about: what the summary says of the run besides its counts.
        """
        store = self._run.store
        output = self._options.output
        failures_uri = sibling(output, FAILURES_SUFFIX)
        mark_uri = sibling(output, COMMIT_SUFFIX)
        judged = None if scores is None else iter(scores)
        with Outputs(store, overwrite=True, mark_uri=mark_uri) as outputs:
            if len(self._failures) or store.at(failures_uri).exists():
                failures = outputs.open(failures_uri)
                for block in self._failures.iter_blocks():
                    failures.write(block)
            summary_file = outputs.open(sibling(output, SUMMARY_SUFFIX))
            # Last: a reader that waits for the episodes finds the others.
            episodes = outputs.open(output)
            for record in self.iter_episodes():
                if judged is not None:
                    # The line is what `genrm score` writes: review, export and report read it.
                    FORMAT.annotate(record, [next(judged)])
                self.counts.add_reward(record)
                episodes.write(render_record(record))
            summary = self._summary() | about | {"versions": versions_record()}
            summary_file.write(render_document(summary))
            if lease is not None:
                # Sessions take hours: another run may have taken over the outputs meanwhile.
                lease.verify()
            outputs.commit()
        return summary

    def _summary(self) -> Record:
        limits = self._run.settings.limits
        counts = self.counts.as_dict()
        roles = self.counts.roles.values()
        tokens_in = sum(role.prompt_tokens for role in roles)
        tokens_out = sum(role.completion_tokens for role in roles)
        cost = None
        if limits.price_in or limits.price_out:
            cost = cost_of(tokens_in, tokens_out, limits.price_in, limits.price_out)
        # A turn with private data is in the journal, and would end its session again.
        retryable = counts["failed"].keys() - {PRIVATE_DATA}
        return {
            "format": SUMMARY_FORMAT,
            "run_id": self._options.run_id,
            "output": self._options.output,
            "partial": bool(counts["unfinished"] or counts["unscored"] or retryable),
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            **counts,
            "prompt_tokens": tokens_in,
            "completion_tokens": tokens_out,
            "cost": cost,
        }


def _iter_groups(
    scenarios: ScenarioSet, options: CollectOptions
) -> Iterator[tuple[EpisodeScenario, str, int]]:
    """Yield the scenario, identity and variant of each group; a scenario that is drawn again goes
    on with its next variants.
    """
    counts = Counter[str]()
    for scenario in scenarios.scenarios:
        for _ in range(options.variants):
            variant = counts[scenario.scenario_id]
            counts[scenario.scenario_id] += 1
            for identity in options.identity or ("",):
                yield scenario, identity, variant
