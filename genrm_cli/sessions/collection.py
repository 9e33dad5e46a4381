"""Collect episodes: play many sessions at once and write those that are episodes, in order, whole or not at all."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from genrm_cli.errors import StorageError, TooManyUnscoredError, UsageError
from genrm_cli.groups.tasks import first_error_of
from genrm_cli.jobs.context import RunContext, cancelled_by_signals
from genrm_cli.jobs.due.leasing import leased
from genrm_cli.jobs.journals import check_journal_place, open_journal_at, turns_path
from genrm_cli.judging.pacing.policy import cost_of
from genrm_cli.rollouts.redaction import redactor_of
from genrm_cli.scored.run_record import versions_record
from genrm_cli.sessions.agents import Answer, RunStoppedError, open_agents
from genrm_cli.sessions.collected_files import (
    SUMMARY_FORMAT,
    TEACHER,
    CollectOptions,
    EpisodePlaces,
    EpisodeRecords,
    places_of,
    read_summary,
)
from genrm_cli.sessions.counts import CollectCounts
from genrm_cli.sessions.environment import PRIVATE_DATA, Environment, EpisodeScenario
from genrm_cli.sessions.episode import EpisodeSlot, Played
from genrm_cli.sessions.play import Act, asked_policy, play_episode
from genrm_cli.sessions.record import RunRecord, digest_of_json, episode_record
from genrm_cli.storage.encoding.records import render_document
from genrm_cli.storage.leases import Lease, Leases, OtherLease
from genrm_cli.storage.outputs import Outputs, finish_commit
from genrm_cli.storage.sink import check_writable, exists, make_folder

_PROGRESS_EVERY_S = 30.0


@dataclass(frozen=True, slots=True)
class CollectReport:
    """A finished run: its summary, and whether nothing was to do."""

    summary: Mapping[str, Any]
    is_current: bool = False


async def collect(
    environment: Environment[Any, Any],
    tables: Sequence[Mapping[str, object]],
    where: str,
    options: CollectOptions,
    run: RunContext,
    scripted_policy: Act | None = None,
) -> CollectReport:
    """Play all episodes of some scenarios and write them.

    Args:
        environment: of the episodes.
        tables: the scenarios, unchecked.
        where: names them in errors.
        options: what to collect.
        run: settings and events.
        scripted_policy: acts if `options.policy` is None.

    Raises:
        GenrmError: its subclasses say what went wrong. After `TooManyUnscoredError` the outputs are there, but lack
            episodes; running again continues. After others no output has appeared.
        CancelledError: the run was interrupted; the journal has every turn that was answered.
    """
    settings, places = run.settings, places_of(options.output, run.settings, options.role)
    check_journal_place(settings)
    scenarios = environment.parse_scenarios(tables, where)
    work = _Collecting(environment, scenarios, tables, options, run, places)
    async with cancelled_by_signals():
        await run.in_thread(work.make_folder)
        async with _lease(places.episodes, run) as lease:
            if (known := await run.in_thread(work.find_current)) is not None:
                return CollectReport(known, is_current=True)
            summary = await work.collect(scripted_policy, lease)
    work.refuse_missing(summary)
    return CollectReport(summary)


@asynccontextmanager
async def _lease(output: str, run: RunContext) -> AsyncIterator[Lease | None]:
    if not run.settings.storage.leases:
        yield None
        return
    async with leased([output], Leases(run.s3, run.settings.storage.lease_expiry), run) as found:
        lease = found[output]
        if isinstance(lease, OtherLease):
            raise StorageError(f"{output}: {lease}; run again when it is done.")
        yield lease


class _Collecting:
    """One run."""

    def __init__(
        self,
        environment: Environment[Any, Any],
        scenarios: Sequence[EpisodeScenario],
        tables: Sequence[Mapping[str, object]],
        options: CollectOptions,
        run: RunContext,
        places: EpisodePlaces,
    ) -> None:
        self._environment = environment
        self._scenarios = scenarios
        self._options = options
        self._run = run
        self._places = places
        self._digests = {
            scenario.scenario_id: digest_of_json(dict(table)) for scenario, table in zip(scenarios, tables, strict=True)
        }
        self._digest = self._settings_digest()
        self._replaces = run.settings.output.force
        self._counts = CollectCounts(planned=len(scenarios) * options.variants * options.episodes)
        self._redactor = redactor_of(patterns) if (patterns := run.settings.judge.redact_pattern) else None
        self._shared = RunRecord(
            options.run_id,
            datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            self._policy_record(),
            {"scripted": options.policy_name} if options.policy is None else options.policy.as_record(),
            {**environment.identity, "models": {role: agent.as_record() for role, agent in options.client.items()}},
            self._digests,
        )

    def _policy_record(self) -> dict[str, Any]:
        options = self._options
        record: dict[str, Any] = {"name": options.policy_name, "role": options.role}
        if options.base_model is not None:
            record["base_model"] = options.base_model
        if options.role == TEACHER and options.policy is not None:
            record["nemotron_teacher" if "nemotron" in options.policy.model.lower() else TEACHER] = options.policy.model
        return record

    def _settings_digest(self) -> str:
        """Return a digest of everything that changes the records, but the time."""
        options = self._options
        deciding = {
            "environment": self._environment.version,
            "client": dict(self._environment.identity),
            "scenarios": self._digests,
            "policy": None if options.policy is None else options.policy.as_record(),
            "client_models": {role: agent.as_record() for role, agent in options.client.items()},
            "redact": list(self._run.settings.judge.redact_pattern),
            **{
                name: getattr(options, name)
                for name in ("run_id", "policy_name", "base_model", "role", "episodes", "variants", "seed")
            },
            "branch_at": options.branch_at,
            "trunk": None if options.trunk is None else options.trunk.as_record(),
            "keep_faulty": options.keep_faulty,
        }
        return digest_of_json(deciding)

    # Before the run

    def find_current(self) -> Mapping[str, Any] | None:
        """Return the summary of complete outputs with these settings; None if there is work to do.

        Only for the holder of the lease: it finishes a commit that was interrupted.

        Raises:
            UsageError: the output is there and was made otherwise.
            StorageError: the output cannot be written, which shows before anything is paid for.
        """
        run, places = self._run, self._places
        check_writable(places.episodes, run.s3)
        if not finish_commit(places.manifest, run.s3):
            self._replaces = True  # a mixture, to be written again
            return None
        if not exists(places.episodes, run.s3):
            return None
        known = read_summary(places.summary, run.s3)
        if known is None or known.get("settings_digest") != self._digest:
            if self._replaces:
                return None
            raise UsageError(
                f"{places.episodes} exists and holds episodes of other settings; choose another -o or --run-id, "
                "or pass --force to replace it."
            )
        if known.get("partial") or self._replaces:
            self._replaces = True
            return None
        return known

    def make_folder(self) -> None:
        """Create the folder of the output, for its lease too."""
        make_folder(self._places.episodes)

    # The run

    async def collect(self, scripted_policy: Act | None, lease: Lease | None) -> Mapping[str, Any]:
        """Play all episodes, write the outputs and return the summary."""
        started_s = time.monotonic()
        with EpisodeRecords(self._counts.planned) as records:
            async with self._open() as agents:
                trunk_turns = 0 if self._options.trunk is None else (self._options.branch_at or 1) - 1
                act = scripted_policy if scripted_policy is not None else asked_policy(agents, trunk_turns)
                await self._play_all(act, agents, records)
            wall_time_s = time.monotonic() - started_s
            return await self._run.in_thread(lambda: self._write(records, lease, wall_time_s))

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Answer]:
        """Open the models that take part, behind the journal."""
        agents = self._options.agents
        if not agents:
            yield _nobody
            return
        path = turns_path(self._places.episodes, self._run.settings)
        async with (
            open_journal_at(path, self._places.episodes, self._run) as journal,
            open_agents(agents, self._environment, self._run, journal) as opened,
        ):
            yield opened.ask

    async def _play_all(self, act: Act, answer: Answer, records: "EpisodeRecords") -> None:
        slots = self._iter_slots()

        async def work() -> None:
            for slot in slots:
                try:
                    played = await play_episode(
                        slot, self._environment, act, answer, self._redactor, self._counts.add_outcome
                    )
                except RunStoppedError as stopped:
                    self._counts.stopped_by = str(stopped)
                    return
                self._enter(played, records)
                await asyncio.sleep(0)  # a scripted episode never waits

        async def report() -> None:
            while True:
                await asyncio.sleep(_PROGRESS_EVERY_S)
                self._run.on_event("collecting", self._progress())

        reporting = asyncio.create_task(report())
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(min(self._options.in_flight, self._counts.planned)):
                    tasks.create_task(work())
        except BaseExceptionGroup as errors:
            raise first_error_of(errors) from None
        finally:
            reporting.cancel()

    def _iter_slots(self) -> Iterator[EpisodeSlot[Any]]:
        options, index = self._options, 0
        for scenario in self._scenarios:
            for variant in range(options.variants):
                for number in range(options.episodes):
                    yield EpisodeSlot(index, scenario, variant, options.seed, number, options.branch_at or 1)
                    index += 1

    def _enter(self, played: Played[Any, Any], records: "EpisodeRecords") -> None:
        """Render an episode and put its record aside."""
        counts, environment, slot = self._counts, self._environment, played.slot
        counts.turns += played.state.turn_index
        if played.failed is not None:
            counts.failed[played.failed] += 1
            counts.details.setdefault(played.failed, f"{slot.group}#{slot.number}: {played.detail}")
            records.add_failure(slot.index, episode_record(played, environment, self._shared, None, ()))
            self._say(played, played.failed)
            return
        counts.ends[played.state.end.reason] += 1
        faults = environment.faults(played.state)
        counts.add_faults(faults)
        values = environment.components(played.state)
        reward = {"total_reward": environment.total(values), "components": values}
        record = episode_record(played, environment, self._shared, reward, faults)
        has_parted = played.state.turn_index >= slot.branch_at
        counts.unparted += not has_parted
        if has_parted and (not faults or self._options.keep_faulty):
            counts.written += 1
            counts.add_values(values)
            records.add_episode(slot.index, record)
        else:
            record["metadata"]["left_out"] = "client fault" if faults else "ended before its branch"
            records.add_failure(slot.index, record)
        self._say(played, played.state.end.reason)

    def _say(self, played: Played[Any, Any], reason: str) -> None:
        fields = {"index": played.slot.index, "group": played.slot.group, "end_reason": reason}
        self._run.on_event("session", fields | {"turns": played.state.turn_index})

    def _progress(self) -> dict[str, Any]:
        counts = self._counts
        calls = sum(role.calls for role in counts.roles.values())
        return {"sessions": counts.finished, "planned": counts.planned, "turns": counts.turns, "calls": calls}

    # After the run

    def _write(self, records: "EpisodeRecords", lease: Lease | None, wall_time_s: float) -> Mapping[str, Any]:
        run, places = self._run, self._places
        summary = self._summary(wall_time_s)
        provenance = {"run-id": self._options.run_id, "settings-digest": self._digest}
        with ExitStack() as opened:
            outputs = opened.enter_context(
                Outputs(run.s3, overwrite=self._replaces, provenance=provenance, manifest_uri=places.manifest)
            )
            if records.has_failures or exists(places.failures, run.s3):
                failures = outputs.open(places.failures)
                for line in records.iter_failures():
                    failures.write(line)
            outputs.open(places.summary).write(render_document(dict(summary)))
            episodes = outputs.open(places.episodes)  # last: whoever waits for it finds the others
            for line in records.iter_episodes():
                episodes.write(line)
            if lease is not None:
                lease.verify()
            outputs.commit()
        return summary

    def _summary(self, wall_time_s: float) -> dict[str, Any]:
        options, limits = self._options, self._run.settings.limits
        counts = self._counts.as_dict()
        tokens_in = sum(role.prompt_tokens for role in self._counts.roles.values())
        tokens_out = sum(role.completion_tokens for role in self._counts.roles.values())
        prices = limits.price_in, limits.price_out
        return {
            "format": SUMMARY_FORMAT,
            "run_id": options.run_id,
            "output": self._places.episodes,
            "partial": counts["unfinished"] > 0 or bool(counts["failed"].keys() - {PRIVATE_DATA}),
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "environment": self._environment.version,
            "scenarios": len(self._scenarios),
            "policy": dict(self._shared.policy)
            | {"base_urls": list(options.policy.base_url) if options.policy else []},
            "policy_model": dict(self._shared.policy_model),
            "client": dict(self._shared.client),
            **counts,
            "prompt_tokens": tokens_in,
            "completion_tokens": tokens_out,
            "cost": cost_of(tokens_in, tokens_out, *prices) if any(prices) else None,
            "wall_time_s": round(wall_time_s, 3),
            "sessions_per_minute": round(60 * self._counts.finished / wall_time_s, 1) if wall_time_s > 0 else None,
            "settings_digest": self._digest,
            "versions": versions_record(),
        }

    def refuse_missing(self, summary: Mapping[str, Any]) -> None:
        """Refuse a finished run that lacks episodes.

        Raises:
            TooManyUnscoredError: it was stopped before its end, a larger share than `max_unscored` failed, or all were
                left out.
        """
        counts = self._counts
        if counts.stopped_by is not None:
            raise TooManyUnscoredError(
                f"--{counts.stopped_by.replace('_', '-')} stopped the run: {summary['unfinished']} of {counts.planned} "
                "sessions are not finished. Run the same command again: it goes on in mid-session."
            )
        failed, most = counts.failed.total(), self._run.settings.rewards.max_unscored
        if failed > most * counts.planned:
            causes = "; ".join(f"{count} × {reason}" for reason, count in counts.failed.most_common())
            example = next(iter(counts.details.values()))
            raise TooManyUnscoredError(
                f"{failed} of {counts.planned} sessions failed, more than --max-unscored {most:g} allows: {causes} "
                f"(for example {example}). Run the same command again to try them once more."
            )
        if not counts.written:
            raise TooManyUnscoredError(
                f"none of the {counts.planned} sessions is in the output: {counts.faulty} with client faults, "
                f"{counts.unparted} that ended before --branch-at. Use a better client, pass "
                "--keep-client-faults, or branch at an earlier turn."
            )


async def _nobody(role: str, conversation: Sequence[Any], repeat: int) -> Any:
    raise UsageError(f"the environment asks its {role}, but no model plays it; pass --client-base-url.")
