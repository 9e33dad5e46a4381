"""Who plays the client: what both the scripted and the model-backed client have to answer."""

from collections.abc import Mapping
from typing import Protocol

from genrm_cli.rollouts.rollout import Turn
from genrm_cli.rules.transcript import Session
from genrm_cli.sessions.environment import Dialogue
from genrm_cli.sessions.therapy.mood import ClientState, Mood
from genrm_cli.sessions.therapy.scenario import SessionScenario

LEFT, STABLE = "left", "stable"
"""Occasions of a closing line."""


class Client(Protocol):
    """Reads the counsellor's turns and words the client's; its numbers are moved by rule, not by it."""

    @property
    def name(self) -> str:
        """What records call it."""

    @property
    def version(self) -> int:
        """Changes whenever it may read or say something else."""

    @property
    def is_scripted(self) -> bool:
        """Whether it needs no model: a stand-in for demos, CI and tests."""

    @property
    def models(self) -> Mapping[str, str]:
        """The roles that it asks, each with what they do."""

    def probe(self) -> Dialogue[str]:
        """Return why its models cannot play a client, found by plain cases; empty if they can."""

    def read(
        self, messages: tuple[Turn, ...], exchange: Session, found: tuple[str, ...]
    ) -> Dialogue[tuple[str, ...] | None]:
        """Return what the counsellor's last turn does, as names of `LABELS`; None if that could not be read.

        Args:
            messages: the session so far.
            exchange: its last two turns, as the rules see them.
            found: the labels found by phrases.
        """

    def word(
        self,
        scenario: SessionScenario,
        messages: tuple[Turn, ...],
        state: ClientState,
        seed: str,
        closing: str | None,
    ) -> Dialogue[str]:
        """Return the client's next words.

        Args:
            scenario: who the client is, and what it could tell.
            messages: the session so far.
            state: after the counsellor's last turn.
            seed: of everything random in this reply.
            closing: why the client now ends the session; None for an ordinary reply.
        """


def band_of(mood: Mood) -> str:
    """Return the mood in one word: closed, guarded, open or calm."""
    if mood.is_calm:
        return "calm"
    if mood.resistance >= 0.6 or mood.trust < 0.25:
        return "closed"
    return "open" if mood.trust >= 0.5 and mood.resistance < 0.4 else "guarded"
