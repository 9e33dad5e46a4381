"""Records of the sessions that agents played, in the form of `genrm collect`."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from genrm_cli.jobs.context import RunContext
from genrm_cli.sessions.agents import AgentConfig
from genrm_cli.sessions.environment import AnyEnvironment
from genrm_cli.sessions.environments import ScenarioSet
from genrm_cli.sessions.episode import EpisodeSlot, Played, RunOrigin, client_record, episode_record
from genrm_cli.sessions.hosting.hosted import Observation
from genrm_cli.sessions.session_options import POLICY
from genrm_cli.storage.encoding.records import render_record
from genrm_cli.storage.outputs import Outputs
from genrm_cli.storage.rolling_files import RecordSpool, RollingFiles


class SessionRecorder(RollingFiles[None]):
    """Writes sessions as episodes, one a line; the name of a file is the `run_id` of its records."""

    kind = "sessions"

    def __init__(
        self,
        folder: str,
        environment: AnyEnvironment,
        scenarios: ScenarioSet,
        client: Mapping[str, AgentConfig],
        run: RunContext,
    ) -> None:
        """Prepare the folder; writes nothing."""
        settings = run.settings
        super().__init__(folder, settings.serve.record_every, run.on_event, any_prefix=settings.storage.any_prefix)
        self._environment, self._s3, self._digests = environment, run.s3, scenarios.digests
        self._client = client_record(environment, client)
        self._index = 0

    def add(self, slot: EpisodeSlot, state: Any, seen: Observation, model: str | None) -> None:
        """Record a session that has ended; `model` is the policy's name in its responses."""
        reward = {"total_reward": seen.reward, "components": dict(seen.components)}
        policy = {"name": model or "unnamed", "role": POLICY}
        origin = RunOrigin(self.stem, policy, policy, self._client, self._digests, "nemo_gym")
        played = Played(replace(slot, index=self._index), state)
        record = episode_record(played, self._environment, origin, reward, ())
        self._index += 1
        self._spool_parts(render_record(record))

    def _seal(self) -> None:
        self._index = 0

    def _write_file(self, place: str, spool: RecordSpool, sealed: None) -> str:
        del sealed
        with Outputs(self._s3, overwrite=True, manifest_uri=f"{place}.commit") as outputs:
            episodes = outputs.open(f"{place}.jsonl")
            for (line,) in spool.iter_blocks():
                episodes.write(line)
            outputs.commit()
        return f"{place}.jsonl"
