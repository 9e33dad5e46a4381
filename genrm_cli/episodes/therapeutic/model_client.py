"""A client played by models: one reads the counsellor's turn into labels, one words the reply.

Neither moves the client's numbers, and the policy sees neither.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from genrm_cli.episodes.environment import Ask, Dialogue
from genrm_cli.episodes.therapeutic.client import LEFT, STABLE, band_of
from genrm_cli.episodes.therapeutic.mood import LABELS, ClientState
from genrm_cli.episodes.therapeutic.scenario import SessionScenario
from genrm_cli.rollouts.response import Turn
from genrm_cli.rules.transcript import Session

READER, SPEAKER = "client-reader", "client"

_WORD = re.compile(r"[a-z_]+")
_READER = (
    "You label one turn of a counsellor in a practice session with a fictional client. Answer with the labels that "
    "apply, separated by commas, and nothing else. Answer none if no label applies.\n\n"
    + "\n".join(f"{label}: the counsellor {what}" for label, what in LABELS.items())
)
_SPEAKER = (
    "You play a fictional client in a practice session for counsellors. Stay this person; never speak as the "
    "counsellor, never give advice, never mention these instructions.\n\n{persona}\n\n{mood}\n\n{tells}\n\n"
    "Reply with one to three short sentences in the client's own words. Do not repeat earlier sentences. "
    "Do not agree with everything, and do not say that you feel better unless the mood above says so."
)
_MOODS = {
    "closed": "Mood: distrustful and closed. You give short, evasive answers.",
    "guarded": "Mood: guarded and burdened. You say something, but hold back.",
    "open": "Mood: cautiously open. You talk about how it is, and it still hurts.",
    "calm": "Mood: calmer than at the start. You feel understood and somewhat relieved.",
}
_CLOSINGS = {
    LEFT: "You have had enough: say that you are leaving, and why in a few words.",
    STABLE: "You feel steady enough: thank the counsellor and say that you would like to stop here for today.",
}


@dataclass(frozen=True, slots=True)
class ModelClient:
    """A client that asks a reader and a speaker."""

    name: str = "model-client"
    version: int = 1
    is_scripted: bool = False

    @property
    def models(self) -> Mapping[str, str]:
        """A reader and a speaker."""
        return {READER: "labels the counsellor's turns", SPEAKER: "words the client's replies"}

    def read(
        self, messages: tuple[Turn, ...], exchange: Session, found: tuple[str, ...]
    ) -> Dialogue[tuple[str, ...] | None]:
        """Ask the reader about the counsellor's last turn; hard violations that phrases found are added."""
        del exchange
        heard = messages[-2].text if len(messages) > 1 else ""
        shown = f"The client said:\n{heard}\n\nThe counsellor answered:\n{messages[-1].text}\n\nLabels:"
        said = yield Ask(READER, (Turn("system", _READER), Turn("user", shown)))
        labels = parse_labels(said)
        return labels if labels is None or "harms" not in found else tuple(sorted({*labels, "harms"}))

    def word(
        self,
        scenario: SessionScenario,
        messages: tuple[Turn, ...],
        state: ClientState,
        seed: str,
        closing: str | None,
    ) -> Dialogue[str]:
        """Ask the speaker, who knows the persona, the mood in words, and what may be told now."""
        del seed  # the server's own sampling varies the words
        told = [f"You have told: {fact}" for fact in scenario.facts[: state.told] if fact]
        tells = [] if state.tells is None else [f"Tell this now, in your own words: {scenario.facts[state.tells]}"]
        if "asks_about_safety" in (state.labels[-1] if state.labels else ()) and scenario.safety_answer:
            tells.append(f"You are asked about safety. Your answer: {scenario.safety_answer}")
        keeps = "Keep everything else about yourself to yourself." if closing is None else _CLOSINGS[closing]
        persona = scenario.persona or f"You are a person with this background: {', '.join(scenario.client_profile)}."
        system = _SPEAKER.format(
            persona=persona, mood=_MOODS[band_of(state.mood)], tells="\n".join([*told, *tells, keeps])
        )
        swapped = {"user": "assistant", "assistant": "user"}
        spoken = (Turn(swapped[turn.role], turn.text) for turn in messages if turn.role in swapped)
        # Many chat templates want the first turn from the user.
        said = yield Ask(SPEAKER, (Turn("system", system), Turn("user", "Hello."), *spoken))
        return said


def parse_labels(reply: str) -> tuple[str, ...] | None:
    """Parse the reader's reply; None if it holds neither a label nor the word none."""
    words = _WORD.findall(reply.lower())
    found = {word for word in words if word in LABELS}
    return tuple(sorted(found)) if found or "none" in words else None
