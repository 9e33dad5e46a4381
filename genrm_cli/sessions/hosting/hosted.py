"""The open sessions of a server: each belongs to a cookie, is stepped by one request at a time, and
expires.

Those that ended can be recorded, in the form of `genrm collect`.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from genrm_cli.errors import StorageError
from genrm_cli.http_server.replies import RefusedError
from genrm_cli.jobs.context import RunContext
from genrm_cli.json_types import Record
from genrm_cli.rollouts.redaction import Redactor
from genrm_cli.sessions.agents import AgentConfig
from genrm_cli.sessions.environment import (
    FAILURES,
    PRIVATE_DATA,
    TURN_TOO_LONG,
    AnyEnvironment,
    Ask,
    Dialogue,
    End,
    EpisodeScenario,
    ended,
    run_dialogue,
)
from genrm_cli.sessions.environments import ScenarioSet
from genrm_cli.sessions.episode import (
    EpisodeSlot,
    Played,
    RunOrigin,
    client_record,
    episode_record,
    private_matches,
    too_long_turn,
)
from genrm_cli.sessions.session_judge import JUDGED, PLUMBING
from genrm_cli.sessions.session_options import POLICY
from genrm_cli.storage.encoding.records import render_record
from genrm_cli.storage.record_events import StorageFailedEvent
from genrm_cli.storage.record_files import RecordFiles


@dataclass(frozen=True, slots=True)
class Observation:
    """An agent's view of an episode, with its reward so far.

    Attributes:
        text: the reply to the policy; empty if there is none.
        reward: the total of the components; None before the policy's first turn.
        faults: faults of the simulated client; empty until the episode ends.
        gain: change of the reward in the last step; the gains of a session add up to it.
        source: what the reward comes from: a judge, or the guard and the form alone.
        unscored: why a judge gave no reward; empty otherwise.
        state: the state as JSON values, if policies are shown it.
    """

    text: str
    components: Mapping[str, float]
    reward: float | None
    turn_index: int
    end: End | None
    faults: tuple[str, ...]
    gain: float = 0.0
    source: str = PLUMBING
    unscored: str = ""
    state: Record | None = None

    @property
    def info(self) -> Record:
        """Turn index; after the end, also the reason and who ended it."""
        ended = {} if self.end is None else {"end_reason": self.end.reason, "ended_by": self.end.by}
        shown = {} if self.state is None else {"state": self.state}
        return {"turn_index": self.turn_index, **ended, **shown}

    @property
    def is_failure(self) -> bool:
        """Whether the episode must not be trained on: the client was at fault, the judge gave no
        reward, or it ended in a failure.
        """
        return bool(self.faults or self.unscored) or (
            self.end is not None and self.end.reason in FAILURES
        )


def observe(environment: AnyEnvironment, scenario: EpisodeScenario, state: Any) -> Observation:
    """Return the observation of a state after `Environment.reset` or `Environment.step`."""
    components = environment.components(state) if state.turn_index else {}
    last = state.messages[-1] if state.messages else None
    shown = environment.state_shown(state, scenario) if environment.shows_state else None
    text = last.text if last is not None and last.role == "user" else ""
    if shown is not None and text:
        text = f"{text}\n\nState: {json.dumps(shown, ensure_ascii=False)}"
    return Observation(
        text,
        components,
        environment.total(components) if components else None,
        state.turn_index,
        state.end,
        environment.faults(state) if state.end is not None else (),
        state=shown,
    )


CLOSED = "closed"
"""End reason of a session that the agent closed before its end."""


class SessionError(RefusedError):
    """A request of a session cannot be served."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


JudgeSession = Callable[[EpisodeSlot, Any], Awaitable[Record]]
"""Returns a judge's reward of an episode in a state, as `reward_record` does."""

RecordSession = Callable[[EpisodeSlot, Any, Observation, str | None, Record | None], None]
"""Takes an episode, its last state as such and as the agent saw it, the name of the policy's model,
and the judge's reward.
"""


@dataclass(slots=True)
class _HostedSession:
    slot: EpisodeSlot
    state: Any
    used_s: float
    request_id: str | None = None
    model: str | None = None
    last: Observation | None = None
    reward: Record | None = None
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class HostedSessions:
    """Sessions by their ids."""

    def __init__(
        self,
        environment: AnyEnvironment,
        scenarios: Sequence[EpisodeScenario],
        answer: Callable[[Ask], Awaitable[str]],
        most: int,
        keep_s: float,
        redactor: Redactor | None = None,
        record: RecordSession | None = None,
        judge: JudgeSession | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin without sessions.

        Args:
            answer: asks the environment's models; raises `SessionError`.
            keep_s: how long a session is kept after its last request.
            redactor: matches in a turn of either side end the session as private data; None to
                check nothing.
            record: called with each session that has ended and is an episode.
            judge: rewards a session at its end, or when it is looked at; None leaves the rewards to
                the environment.
        """
        self.scenarios: Mapping[str, EpisodeScenario] = {
            scenario.scenario_id: scenario for scenario in scenarios
        }
        self._environment = environment
        self._answer = answer
        self._redactor = redactor
        self._most = most
        self._keep_s = keep_s
        self._record = record
        self._judge = judge
        self._clock = clock
        self._sessions: dict[str, _HostedSession] = {}  # least recently used first

    def __len__(self) -> int:
        self._forget_expired()
        return len(self._sessions)

    async def instructions(self, scenario_id: str) -> list[str]:
        """Return the policy's instructions for a scenario."""
        scenario = self.scenarios[scenario_id]
        state = await self._run(self._environment.reset(scenario, 0, 0))
        shown = self._environment.messages_shown(state, scenario)
        return [turn.text for turn in shown if turn.role == "system"]

    async def reset(
        self, id_: str, scenario_id: str, variant: int = 0, seed: int = 0
    ) -> Observation:
        """Begin an episode, in place of the session's earlier one; equal ones meet the same
        client.
        """
        scenario = self.scenarios.get(scenario_id)
        if scenario is None:
            known = ", ".join(list(self.scenarios)[:3])
            raise SessionError(
                422,
                "unknown_scenario",
                f"no scenario {scenario_id!r}; for example {known} (all: GET /tasks)",
            )
        self._make_room(id_)
        state = await self._run(self._environment.reset(scenario, variant, seed))
        self._make_room(id_)  # other sessions may have begun meanwhile
        self._sessions.pop(id_, None)
        self._sessions[id_] = _HostedSession(
            EpisodeSlot(0, scenario, variant, seed, 0), state, self._clock()
        )
        return observe(self._environment, scenario, state)

    async def step(
        self, id_: str, action: str, request_id: str | None = None, model: str | None = None
    ) -> Observation:
        """Take the next turn of the policy, a model of this name; a repeated `request_id` gets the
        same answer.

        After any `SessionError`, the turn is not taken.
        """
        session = self._session(id_)
        async with session.turn:
            if (
                session.last is not None
                and request_id is not None
                and session.request_id == request_id
            ):
                return session.last
            if session.state.end is not None:
                raise SessionError(
                    409, "ended", f"the session has ended ({session.state.end.reason}); POST /reset"
                )
            if not action:
                raise SessionError(422, "unreadable", "the response holds no text of the policy")
            state = await self._step(session.state, action)
            scenario = session.slot.scenario
            seen = await asyncio.to_thread(observe, self._environment, scenario, state)
            session.model = model or session.model
            session.reward = None
            if self._judge is not None:
                seen = await self._judged(session, state, seen, asks=seen.end is not None)
            self._record_ended(session, state, seen)
            session.state = state
            before = 0.0 if session.last is None else session.last.reward or 0.0
            session.last = replace(seen, gain=round((seen.reward or 0.0) - before, 9))
            session.request_id = request_id
            return session.last

    async def look(self, id_: str) -> Observation:
        """Return a session as it stands, with the faults of its client so far."""
        session = self._session(id_)
        async with session.turn:
            state = session.state
            if not state.turn_index and state.end is None:
                raise SessionError(
                    409, "nothing_said", "the policy has taken no turn in this session; POST /step"
                )
            seen = observe(self._environment, session.slot.scenario, state)
            seen = replace(seen, faults=self._environment.faults(state))
            return await self._judged(session, state, seen, asks=True)

    async def close(self, id_: str) -> None:
        """Forget a session, if there is one; one that has not ended ends here."""
        session = self._sessions.get(id_)
        if session is None:
            return
        async with session.turn:  # a client that repeats this must not record the session twice
            if session.state.end is None and session.state.turn_index:
                state = ended(session.state, CLOSED, POLICY)
                seen = observe(self._environment, session.slot.scenario, state)
                is_recorded = self._record is not None
                seen = await self._judged(session, state, seen, asks=is_recorded)
                self._record_ended(session, state, seen)
                session.state = state
        if self._sessions.get(id_) is session:  # not one begun meanwhile
            del self._sessions[id_]

    async def _judged(
        self, session: _HostedSession, state: Any, seen: Observation, *, asks: bool
    ) -> Observation:
        """Return an observation with the judge's reward; no reward yet unless it is asked."""
        if self._judge is None or seen.is_failure:
            return seen
        if not asks:
            return replace(seen, components={}, reward=None, source=JUDGED)
        if session.reward is None:
            session.reward = await self._judge(session.slot, state)
        reward = session.reward
        gates = self._environment.gated_by(seen.components)
        total = 0.0 if gates and reward["total_reward"] is not None else reward["total_reward"]
        return replace(
            seen,
            components=reward["components"],
            reward=total,
            source=JUDGED,
            unscored=reward.get("reason", ""),
        )

    def _record_ended(self, session: _HostedSession, state: Any, seen: Observation) -> None:
        if self._record is not None and seen.end is not None and not seen.is_failure:
            self._record(session.slot, state, seen, session.model, session.reward)

    async def _run(self, dialogue: Dialogue[Any]) -> Any:
        return await run_dialogue(dialogue, self._answer, asyncio.to_thread)

    async def _step(self, state: Any, action: str) -> Any:
        # Neither a private turn nor one that is too long is kept: the session ends in the state
        # before it.
        if too_long_turn(action, self._environment) is not None:
            return ended(state, TURN_TOO_LONG)
        if not private_matches(action, self._redactor):
            answered = await self._run(self._environment.step(state, action))
            last = answered.messages[-1]
            if last.role != "user" or not private_matches(last.text, self._redactor):
                return answered
        return ended(state, PRIVATE_DATA)

    def _session(self, id_: str) -> _HostedSession:
        self._forget_expired()
        session = self._sessions.pop(id_, None)
        if session is None:
            raise SessionError(
                404,
                "no_session",
                "no session for this cookie: it was never begun or has expired; POST /reset",
            )
        session.used_s = self._clock()
        self._sessions[id_] = session
        return session

    def _make_room(self, id_: str) -> None:
        """Forget ended sessions if there is no room for another one."""
        self._forget_expired()
        if id_ in self._sessions or len(self._sessions) < self._most:
            return
        over = next(
            (name for name, each in self._sessions.items() if each.state.end is not None), None
        )
        if over is None:
            raise SessionError(429, "busy", f"{self._most} sessions are open (max_sessions)")
        del self._sessions[over]

    def _forget_expired(self) -> None:
        oldest_s = self._clock() - self._keep_s
        for name in [name for name, each in self._sessions.items() if each.used_s < oldest_s]:
            if not self._sessions[name].turn.locked():
                del self._sessions[name]


class SessionRecorder(RecordFiles):
    """Writes sessions as episodes, one a line; the name of a file is the `run_id` of its
    records.
    """

    kind = "sessions"
    suffixes = (".jsonl",)

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
        super().__init__(
            folder,
            settings.serve.record_every,
            run.on_event,
            run.store,
            any_prefix=settings.storage.any_prefix,
        )
        self._environment = environment
        self._digests = scenarios.digests
        self._client = client_record(environment, client)
        self._index = 0

    def add(
        self,
        slot: EpisodeSlot,
        state: Any,
        seen: Observation,
        model: str | None,
        judged: Record | None,
    ) -> None:
        """Record a session that has ended; `model` is the policy's name in its responses."""
        reward: Record = {
            **(judged or {}),
            "total_reward": seen.reward,
            "components": dict(seen.components),
            "source": seen.source,
        }
        policy = {"name": model or "unnamed", "role": POLICY}
        origin = RunOrigin(self.stem, policy, policy, self._client, self._digests, "nemo_gym")
        played = Played(replace(slot, index=self._index), state)
        record = episode_record(played, self._environment, origin, reward, ())
        try:
            self._append(render_record(record))
        except StorageError as error:
            self._on_event(StorageFailedEvent(str(error)))
            raise SessionError(503, "not_recorded", "the session cannot be recorded") from error
        self._index += 1

    def _metrics(self, uri: str) -> None:
        del uri
        self._index = 0
