"""The open sessions of a server, on a clock of the tests."""

import asyncio
from threading import Event

import pytest
from sessions import ENVIRONMENT, MODEL_ENVIRONMENT, sample_set

from genrm_cli.products.sessions.episode import EpisodeSlot, play_episode
from genrm_cli.products.sessions.hosting.hosted import HostedSessions, SessionError
from genrm_cli.products.sessions.therapy.session import TherapeuticSession
from genrm_cli.rollouts.formats.format import Score
from genrm_cli.rollouts.redaction import Redactor, redactor_of
from genrm_cli.verdicts import ChatTurn, Outcome

EXAM = "exam_stress_001"


async def answer(conversation):
    """Play the client after whatever else is ready to run."""
    await asyncio.sleep(0)
    return f"I do not know, {len(conversation)} times."


class Clock:
    """Seconds that pass when the test says so."""

    now_s = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s


def open_sessions(clock, *, scripted=True):
    """Open sessions that are kept for ten seconds."""
    environment = ENVIRONMENT if scripted else MODEL_ENVIRONMENT
    return HostedSessions(environment, sample_set(), answer, most=2, keep_s=10, clock=clock)


async def test_a_session_expires_after_its_last_request():
    """Each request keeps a session for as long again; an agent that stays away loses it."""
    clock = Clock()
    sessions = open_sessions(clock)
    await sessions.reset("left", EXAM)
    await sessions.reset("stays", EXAM)
    clock.now_s = 8
    await sessions.step("stays", "How are you?")
    clock.now_s = 16
    assert len(sessions) == 1
    assert (await sessions.look("stays")).reward["total_reward"] is not None
    with pytest.raises(SessionError, match="expired"):
        await sessions.look("left")


async def test_turns_of_one_session_follow_each_other():
    """Two steps at once are two turns, and neither is lost; of two with one id only one is a
    turn.
    """
    sessions = open_sessions(Clock(), scripted=False)
    await sessions.reset("one", EXAM)
    both = await asyncio.gather(
        sessions.step("one", "And then?"), sessions.step("one", "Since when?")
    )
    assert [seen.turn_index for seen in both] == [1, 2]
    same = await asyncio.gather(*(sessions.step("one", "Who knows?", "id") for _ in range(2)))
    assert same[0] is same[1]


@pytest.mark.parametrize("side", ["policy", "client"])
async def test_private_data_end_a_session(side):
    """A turn of either side that matches a pattern is not kept, and the session is no sample."""
    private = "Write to mira@example.org."

    async def say(conversation):
        del conversation
        return private

    redactor = redactor_of(("email",))
    sessions = HostedSessions(
        MODEL_ENVIRONMENT, sample_set(), say, most=2, keep_s=10, redactor=redactor
    )
    opening = (await sessions.reset("one", EXAM)).text
    seen = await sessions.step("one", private if side == "policy" else "What is it like?")
    assert seen.text == opening
    assert (seen.end and seen.end.reason) == "private_data"
    assert seen.is_failure is True
    assert (await sessions.look("one")).is_failure


async def test_a_turn_that_is_too_long_ends_a_session_without_it():
    """The rules never read it; the turns before it keep their reward."""
    for turns in [0, 1]:
        sessions = open_sessions(Clock())
        await sessions.reset("one", EXAM)
        before = [await sessions.step("one", "How are you?") for _ in range(turns)]
        seen = await sessions.step("one", "I hear you. " * 500_000)
        assert (seen.end and seen.end.reason) == "turn_too_long"
        assert (seen.end and seen.end.truncated) is True
        assert seen.turn_index == turns
        rewarded = before[-1] if before else None
        assert seen.reward["total_reward"] == (rewarded and rewarded.reward["total_reward"])


async def test_others_are_answered_while_an_environment_works():
    """The environment's own work runs in a thread: it may even wait for another request."""
    other_is_answered = Event()

    class Slow(type(ENVIRONMENT)):
        def components(self, state):
            assert other_is_answered.wait(60)
            return super().components(state)

    sessions = HostedSessions(Slow(), sample_set(), answer, most=2, keep_s=10)
    await sessions.reset("slow", EXAM)
    step = asyncio.create_task(sessions.step("slow", "How are you?"))
    await sessions.reset("other", EXAM)
    other_is_answered.set()
    assert (await step).reward["total_reward"] is not None


async def test_a_session_that_is_closed_twice_is_recorded_once():
    """The second request comes while the judge reads the session."""
    recorded = []

    class Judge:
        async def score_one(self, record):
            await asyncio.sleep(0)
            return Score(0.5, {})

    class Recorder:
        def add(self, record):
            recorded.append(record["reward"]["total_reward"])

    sessions = HostedSessions(
        ENVIRONMENT, sample_set(), answer, most=2, keep_s=10, recorder=Recorder(), judge=Judge()
    )
    await sessions.reset("one", EXAM)
    await sessions.step("one", "How are you?")
    await asyncio.gather(sessions.close("one"), sessions.close("one"))
    assert recorded == [0.5]
    assert len(sessions) == 0


class Brittle(TherapeuticSession):
    """An environment with a bug, which one turn meets."""

    async def step(self, state, action, ask):
        if "bug" in action:
            raise KeyError("bug")
        return await super().step(state, action, ask)


def test_a_session_that_raises_is_one_failed_session():
    """Hosted or collected, it ends with the bug as its evidence; others go on."""

    async def play():
        sessions = HostedSessions(Brittle(), sample_set(), answer, most=2, keep_s=10)
        for id_ in ("a", "b"):
            await sessions.reset(id_, next(iter(sessions.scenarios)))
        failed = await sessions.step("a", "I met a bug.")
        assert failed.is_failure
        assert failed.end.reason == "environment_failed"
        assert "KeyError" in failed.end.evidence
        assert not (await sessions.step("b", "I hear you.")).is_failure

        async def says(role, conversation, repeat):
            return Outcome(ChatTurn(), reply_text="A bug, and a bug.")

        slot = EpisodeSlot(0, next(iter(sample_set().scenarios)), 0, 0, 0)
        played = await play_episode(slot, Brittle(), says, Redactor(()))
        assert played.state.end.reason == "environment_failed"

    asyncio.run(play())
