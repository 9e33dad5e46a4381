"""The open sessions of a server, by the cookie of their agent, and the recording of those that end.

A session is stepped by one request at a time: the one that holds its lock may change its state. The
sessions are kept in the order of their last request, so that the oldest expire first; one whose
lock is held does not expire. What an environment computes runs in a thread, so that others are
answered meanwhile.
"""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.errors import GenrmError, StorageError
from genrm_cli.http_server.http_replies import RefusedError
from genrm_cli.jobs.context import RunContext
from genrm_cli.json_types import Record
from genrm_cli.products.sessions.environment import (
    CLIENT_FAILED,
    ENVIRONMENT_FAILED,
    FAILURES,
    AnyEnvironment,
    Ask,
    End,
    broken,
    ended,
)
from genrm_cli.products.sessions.environments import ScenarioSet
from genrm_cli.products.sessions.episode import (
    EpisodeSlot,
    Played,
    RunOrigin,
    TurnFailedError,
    check_turn,
    episode_record,
)
from genrm_cli.products.sessions.session_judge import (
    JUDGED,
    SessionJudge,
    plumbing_reward,
)
from genrm_cli.products.sessions.session_options import CLIENT, POLICY
from genrm_cli.rollouts.formats.episodes.episode_lines import FORMAT
from genrm_cli.rollouts.redaction import Redactor
from genrm_cli.rollouts.rollout import Turn
from genrm_cli.storage.encoding.records import render_record
from genrm_cli.storage.record_events import StorageFailedEvent
from genrm_cli.storage.record_files import RecordFiles

NO_REDACTION = Redactor(())
CLOSED = "closed"
"""End reason of a session that the agent closed before its end."""


class Observation(Struct, frozen=True):
    """An agent's view of an episode.

    Attributes:
        text: the reply to the policy; empty if there is none.
        reward: the reward so far, as a record has it; its total is null before the policy's first
            turn, and until a judge is asked.
        faults: faults of the simulated client; empty until the episode ends.
        gain: change of the reward in the last step; the gains of a session add up to it.
        state: the state as JSON values, if policies are shown it.
    """

    text: str
    reward: Record
    turn_index: int
    end: End | None
    faults: tuple[str, ...] = ()
    gain: float = 0.0
    state: Record | None = None

    @property
    def total(self) -> float:
        """The reward so far; 0 if it is null."""
        return self.reward["total_reward"] or 0.0

    @property
    def is_failure(self) -> bool:
        """Whether the episode must not be trained on: the client was at fault, the judge gave no
        reward, or it ended in a failure.
        """
        failed = self.end is not None and self.end.reason in FAILURES
        return failed or bool(self.faults) or "reason" in self.reward


class SessionError(RefusedError):
    """A request of a session cannot be served."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


class _HostedSession(Struct):
    slot: EpisodeSlot
    state: Any
    used_s: float
    request_id: str | None = None
    model: str | None = None
    last: Observation | None = None
    judged: Record | None = None  # the record as it was judged
    lock: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)


class SessionRecorder(RecordFiles):
    """Writes sessions as episodes, one a line; the name of a file is the `run_id` of its
    records.
    """

    kind = "sessions"
    suffixes = (".jsonl",)

    def __init__(self, folder: str, run: RunContext) -> None:
        """Prepare the folder; writes nothing."""
        settings = run.settings
        super().__init__(
            folder,
            settings.serve.record_every,
            run.on_event,
            run.store,
            any_prefix=settings.storage.any_prefix,
        )
        self._index = 0

    def add(self, record: Record) -> None:
        """Append the record of a session that has ended."""
        record = {**record, "run_id": self.stem, "episode_index": self._index}
        try:
            self._append(render_record(record))
        except StorageError as error:
            self._on_event(StorageFailedEvent(str(error)))
            raise SessionError(503, "not_recorded", "the session cannot be recorded") from error
        self._index += 1

    def _metrics(self, uri: str) -> None:
        del uri
        self._index = 0


@dataclass(eq=False)
class HostedSessions:
    """Sessions by their ids.

    Attributes:
        ask: asks the environment's model; raises `TurnFailedError`.
        most: number of sessions that may be open.
        keep_s: how long a session is kept after its last request.
        client: what plays the environment's part, for records.
        redactor: matches in a turn of either side end the session as private data.
        recorder: records each session that has ended and is an episode.
        judge: rewards a session at its end, or when it is looked at; None leaves the rewards to the
            environment.
    """

    environment: AnyEnvironment
    known: ScenarioSet
    ask: Ask
    most: int
    keep_s: float
    client: Record = field(default_factory=dict)
    redactor: Redactor = NO_REDACTION
    recorder: SessionRecorder | None = None
    judge: SessionJudge | None = None
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.scenarios = {each.scenario_id: each for each in self.known.scenarios}
        self._sessions: dict[str, _HostedSession] = {}  # least recently used first

    def __len__(self) -> int:
        self._forget_expired()
        return len(self._sessions)

    def instructions(self, scenario_id: str) -> list[str]:
        """Return the policy's instructions for a scenario."""
        scenario = self.scenarios[scenario_id]
        state = self.environment.reset(scenario, 0, 0)
        shown = self.environment.messages_shown(state, scenario)
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
        slot = EpisodeSlot(0, scenario, variant, seed, 0)
        state = self.environment.reset(scenario, variant, seed)
        session = _HostedSession(slot, state, self.clock())
        self._sessions.pop(id_, None)
        self._sessions[id_] = session
        return await self._observe(session, state, asks=False)

    async def step(
        self, id_: str, action: str, request_id: str | None = None, model: str | None = None
    ) -> Observation:
        """Take the next turn of the policy, a model of this name; a repeated `request_id` gets the
        same answer.

        After any `SessionError`, the turn is not taken.
        """
        session = self._session(id_)
        async with session.lock:
            last = session.last
            if last is not None and request_id is not None and session.request_id == request_id:
                return last
            if session.state.end is not None:
                raise SessionError(
                    409, "ended", f"the session has ended ({session.state.end.reason}); POST /reset"
                )
            if not action:
                raise SessionError(422, "unreadable", "the response holds no text of the policy")
            session.model = model or session.model
            # The judge has read a shorter session.
            session.judged = None
            try:
                state = await self._step(session.state, action)
                seen = await self._observe(session, state, asks=state.end is not None)
            except (GenrmError, SessionError):
                raise
            except Exception as error:  # noqa: BLE001  (a bug met by one session ends no other)
                state = broken(session.state, error)
                seen = await self._observe(session, state, asks=False)
            before = 0.0 if last is None else last.total
            seen = replace(seen, gain=round(seen.total - before, 9))  # no noise of a difference
            self._record_ended(session, state, seen)
            # Last: a turn whose session cannot be recorded is not taken, and the agent repeats it.
            session.state = state
            session.request_id = request_id
            session.last = seen
            return seen

    async def look(self, id_: str) -> Observation:
        """Return a session as it stands, with the faults of its client so far."""
        session = self._session(id_)
        async with session.lock:
            state = session.state
            if not state.turn_index and state.end is None:
                raise SessionError(
                    409, "nothing_said", "the policy has taken no turn in this session; POST /step"
                )
            return await self._observe(session, state, asks=True)

    async def close(self, id_: str) -> None:
        """Forget a session, if there is one; one that has not ended ends here."""
        session = self._sessions.get(id_)
        if session is None:
            return
        async with session.lock:  # a client that repeats this must not record the session twice
            if session.state.end is None and session.state.turn_index:
                state = ended(session.state, CLOSED, POLICY)
                if self.recorder is not None:
                    seen = await self._observe(session, state, asks=True)
                    self._record_ended(session, state, seen)
                session.state = state
        if self._sessions.get(id_) is session:  # not one begun meanwhile
            del self._sessions[id_]

    async def _observe(self, session: _HostedSession, state: Any, *, asks: bool) -> Observation:
        """Return the observation of a state; `asks` for faults, and for the judge's reward."""
        environment = self.environment
        judge = self.judge
        is_broken = state.end is not None and state.end.reason == ENVIRONMENT_FAILED
        reward: Record = {"total_reward": None, "components": {}, "source": JUDGED}
        if not is_broken:
            reward = await asyncio.to_thread(plumbing_reward, environment, state)
        faults = environment.faults(state) if asks and not is_broken else ()
        if judge is not None:
            reward = {"total_reward": None, "components": {}, "source": JUDGED}
            has_ended = state.end is not None
            if asks and not faults and not (has_ended and state.end.reason in FAILURES):
                if session.judged is None:
                    record = self._record_of(session, state, reward)
                    FORMAT.annotate(record, [await judge.score_one(record)])
                    session.judged = record
                reward = session.judged["reward"]
        shown = None
        if not is_broken:
            shown = environment.state_shown(state, session.slot.scenario)
        last = state.messages[-1] if state.messages else Turn("", "")
        text = last.text if last.role == "user" else ""
        if shown is not None and text:
            text = f"{text}\n\nState: {json.dumps(shown, ensure_ascii=False)}"
        return Observation(text, reward, state.turn_index, state.end, faults, state=shown)

    def _record_of(self, session: _HostedSession, state: Any, reward: Record | None) -> Record:
        policy = {"name": session.model or "unnamed", "role": POLICY}
        origin = RunOrigin("", policy, policy, self.client, self.known.digests, "nemo_gym")
        played = Played(
            session.slot,
            state,
            faults=self.environment.faults(state),
            hidden=self.environment.describe(state),
        )
        return episode_record(played, self.environment, origin, reward)

    def _record_ended(self, session: _HostedSession, state: Any, seen: Observation) -> None:
        if self.recorder is not None and seen.end is not None and not seen.is_failure:
            record = self._record_of(session, state, seen.reward)
            if session.judged is not None:
                record["genrm"] = session.judged["genrm"]
            self.recorder.add(record)

    async def _step(self, state: Any, action: str) -> Any:
        environment = self.environment

        async def ask(conversation: tuple[Turn, ...]) -> str:
            words = await self.ask(conversation)
            check_turn(CLIENT, words, environment, self.redactor)
            return words

        try:
            check_turn(POLICY, action, environment, self.redactor)
            return await environment.step(state, action, ask)
        except TurnFailedError as failed:
            if failed.reason == CLIENT_FAILED:
                raise SessionError(503, CLIENT_FAILED, f"client: {failed}") from failed
            # Neither a private turn nor one that is too long is kept: the session ends in the
            # state before it.
            return ended(state, failed.reason, failed.role)

    def _session(self, id_: str) -> _HostedSession:
        self._forget_expired()
        session = self._sessions.pop(id_, None)
        if session is None:
            raise SessionError(
                404,
                "no_session",
                "no session for this cookie: it was never begun or has expired; POST /reset",
            )
        session.used_s = self.clock()
        self._sessions[id_] = session
        return session

    def _make_room(self, id_: str) -> None:
        """Forget an ended session if there is no room for another one."""
        self._forget_expired()
        if id_ in self._sessions or len(self._sessions) < self.most:
            return
        over = (name for name, each in self._sessions.items() if each.state.end is not None)
        if (oldest := next(over, None)) is None:
            raise SessionError(429, "busy", f"{self.most} sessions are open (max_sessions)")
        del self._sessions[oldest]

    def _forget_expired(self) -> None:
        oldest_s = self.clock() - self.keep_s
        for name, session in list(self._sessions.items()):
            if session.used_s >= oldest_s:
                return
            if not session.lock.locked():
                del self._sessions[name]
