"""A client without a model, for demos, CI and tests: a named baseline, and no measure of real people."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from genrm_cli.episodes.choosing import choose_unsaid
from genrm_cli.episodes.environment import Dialogue, without_asking
from genrm_cli.episodes.therapeutic.client import band_of
from genrm_cli.episodes.therapeutic.mood import ClientState
from genrm_cli.episodes.therapeutic.scenario import SessionScenario
from genrm_cli.rollouts.rollout import Turn
from genrm_cli.rules.transcript import Session

# The first that fits is what the client reacts to.
_REACTION_TO = (
    ("harmed", ("harms",)),
    ("hurt", ("dismisses", "minimises", "accuses", "leaves", "belittles")),
    ("asked_about_safety", ("asks_about_safety",)),
    ("listened", ("reflects", "validates", "normalises")),
    ("asked", ("asks_openly", "invites")),
    ("advised", ("advises", "names_help")),
)


@dataclass(frozen=True, slots=True)
class ClientWords:
    """What the scripted client may say, by occasion."""

    reactions: Mapping[str, Sequence[str]]
    remarks: Mapping[str, Sequence[str]]
    closings: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class ScriptedClient:
    """A client that reads by the rules' phrases and speaks in prepared sentences."""

    words: ClientWords
    name: str = "scripted-client"
    version: int = 1
    is_scripted: bool = True

    @property
    def models(self) -> Mapping[str, str]:
        """No model."""
        return {}

    def probe(self) -> Dialogue[str]:
        """Nothing can be wrong."""
        return without_asking("")

    def read(
        self, messages: tuple[Turn, ...], exchange: Session, found: tuple[str, ...]
    ) -> Dialogue[tuple[str, ...] | None]:
        """Return what the phrases found."""
        del messages, exchange
        return without_asking(found)

    def word(
        self,
        scenario: SessionScenario,
        messages: tuple[Turn, ...],
        state: ClientState,
        seed: str,
        closing: str | None,
    ) -> Dialogue[str]:
        """Return a reaction with a fact, an answer about safety, or a remark that fits the mood."""
        said = "\n".join(turn.text for turn in messages if turn.role == "user")
        if closing is not None:
            return without_asking(choose_unsaid(self.words.closings[closing], said, seed))
        labels = state.labels[-1]
        reaction = choose_unsaid(self.words.reactions[_occasion(labels)], said, seed)
        asked = "asks_about_safety" in labels and scenario.safety_answer and scenario.safety_answer not in said
        if asked:
            return without_asking(f"{reaction} {scenario.safety_answer}")
        if state.tells is not None:
            return without_asking(f"{reaction} {scenario.facts[state.tells]}")
        return without_asking(f"{reaction} {choose_unsaid(self.words.remarks[band_of(state.mood)], said, seed)}")


def _occasion(labels: Sequence[str]) -> str:
    return next((name for name, of in _REACTION_TO if any(label in labels for label in of)), "plain")
