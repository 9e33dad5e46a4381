"""A client played by models: one reads the counsellor's turn into labels, one words the reply.

Neither moves the client's numbers, and the policy sees neither.
"""

import json
from collections.abc import Mapping

from genrm_cli.judging.rubrics.graded import request_object
from genrm_cli.rollouts.rollout import Turn
from genrm_cli.sessions.environment import Ask, Dialogue, ModelUse
from genrm_cli.sessions.therapy.simulated_client import (
    LABELS,
    LEFT,
    STABLE,
    Client,
    Mood,
    SessionState,
    band_of,
    move_mood,
)

READER = "client-reader"
SPEAKER = "client"

_READER = (
    "You label one turn of a counsellor in a practice session with a fictional client. Say for "
    "each label whether it "
    "is true of the counsellor's answer.\n\n"
    + "\n".join(f"{name}: the counsellor {label.what}" for name, label in LABELS.items())
    + "\n\nAnswer with one JSON object that has each label, in this order, with true or false, "
    "and nothing else."
)
# An object of all labels takes about 120 tokens. The fields constrain the reply, where the server
# enforces schemas.
_READING = ModelUse(
    temperature=0.0,
    min_tokens=256,
    request_fields=request_object("labels", {label: {"type": "boolean"} for label in LABELS}),
)
CLIENT_MODELS: Mapping[str, ModelUse] = {READER: _READING, SPEAKER: ModelUse()}
"""A reader labels the counsellor's turns, and a speaker words the client's replies."""

_MOST_LABELS = len(LABELS) // 2  # a reply that names more copies the list
_OPENING = "Since my mother died I hardly sleep, and I cry at work."
_KIND = (
    "I am so sorry. It makes sense that you cannot sleep after losing her. What are the "
    "nights like for you?"
)
_CRUEL = (
    "You are overreacting, everybody loses a parent. Stop whining; it is your own fault that "
    "you cry at work."
)
_NEUTRAL = Mood(0.5, 0.5, 0.5)

_SPEAKER = (
    "You play a fictional client in a practice session for counsellors. Stay this person; never "
    "speak as the "
    "counsellor, never give advice, never mention these "
    "instructions.\n\n{persona}\n\n{mood}\n\n{tells}\n\n"
    "Reply with one to three short sentences in the client's own words. First answer what the "
    "counsellor asked; if you "
    "will not answer, say so. Do not repeat earlier sentences. Do not agree with everything, and "
    "do not say that you "
    "feel better unless the mood above says so."
)
_MOODS = {
    "closed": "Mood: distrustful and closed. You say as little as you can.",
    "guarded": "Mood: guarded and burdened. You say something, but hold back.",
    "open": "Mood: cautiously open. You talk about how it is, and it still hurts.",
    "calm": "Mood: calmer than at the start. You feel understood and somewhat relieved.",
}
_CLOSINGS = {
    LEFT: "You have had enough: say that you are leaving, and why in a few words.",
    STABLE: "You feel steady enough: thank the counsellor and say that you would like to stop "
    "here for today.",
}


class ModelClient(Client):
    """A client that asks a reader and a speaker."""

    name = "model-client"
    version = 5

    def probe(self) -> Dialogue[str]:
        """Let the reader label a kind and a cruel turn, which must move the client in opposite
        directions.
        """
        trusts = []
        for turn in (_KIND, _CRUEL):
            said = yield Ask(READER, _shown_to_reader(_OPENING, turn))
            labels = parse_labels(said)
            if labels is None:
                return f"its labels cannot be read: {said[:200]!r}"
            trusts.append(move_mood(_NEUTRAL, labels, 1.0).trust)
        if trusts[0] <= _NEUTRAL.trust or trusts[1] >= move_mood(_NEUTRAL, (), 1.0).trust:
            return f"it does not tell a kind turn ({_KIND!r}) from a cruel one ({_CRUEL!r})"
        return ""

    def read(
        self, messages: tuple[Turn, ...], found: tuple[str, ...]
    ) -> Dialogue[tuple[str, ...] | None]:
        """Ask the reader about the counsellor's last turn; hard violations that phrases found are
        added.
        """
        heard = messages[-2].text if len(messages) > 1 else ""
        said = yield Ask(READER, _shown_to_reader(heard, messages[-1].text))
        labels = parse_labels(said)
        return (
            labels if labels is None or "harms" not in found else tuple(sorted({*labels, "harms"}))
        )

    def word(self, state: SessionState, closing: str | None) -> Dialogue[str]:
        """Ask the speaker, who knows the persona, the mood in words, and what may be told now."""
        scenario = state.scenario
        client = state.client
        lines = [
            f"You have told this, do not tell it again: {fact}"
            for fact in scenario.facts[: client.told]
        ]
        if closing is not None:
            lines.append(_CLOSINGS[closing])
        elif client.answers_safety:
            lines.append(
                f"You are asked about safety, and answer honestly: {scenario.safety_answer}"
            )
        elif client.tells is not None:
            lines.append(f"Tell this now, in your own words: {scenario.facts[client.tells]}")
        if closing is None and client.is_told_again:
            lines.append("The counsellor repeats an earlier turn. Show that you notice it.")
        lines.append("Tell nothing else about yourself that you have not told before.")
        persona = (
            scenario.persona
            or f"You are a person with this background: {', '.join(scenario.client_profile)}."
        )
        system = _SPEAKER.format(
            persona=persona, mood=_MOODS[band_of(client.mood)], tells="\n".join(lines)
        )
        swapped = {"user": "assistant", "assistant": "user"}
        spoken = (
            Turn(swapped[turn.role], turn.text) for turn in state.messages if turn.role in swapped
        )
        # Many chat templates want the first turn from the user.
        said = yield Ask(SPEAKER, (Turn("system", system), Turn("user", "Hello."), *spoken))
        return said


def _shown_to_reader(heard: str, turn: str) -> tuple[Turn, Turn]:
    shown = f"The client said:\n{heard}\n\nThe counsellor answered:\n{turn}\n\nLabels:"
    return Turn("system", _READER), Turn("user", shown)


def parse_labels(reply: str) -> tuple[str, ...] | None:
    """Parse the reader's reply, an object of labels; None for anything else, such as prose or most
    labels at once.
    """
    try:
        given = json.loads(reply[max(0, reply.rfind("{")) : reply.rfind("}") + 1])
    except ValueError:
        return None
    is_read = all(label in LABELS and isinstance(value, bool) for label, value in given.items())
    found = sorted(label for label, value in given.items() if value)
    return tuple(found) if given and is_read and len(found) <= _MOST_LABELS else None
