"""A client and counsellors without a model, who choose from prepared sentences: for demos, CI and tests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from genrm_cli.rollouts.rollout import Turn
from genrm_cli.sessions.environment import Dialogue, without_asking
from genrm_cli.sessions.rules.transcript import CLIENT, sentences_of, stems
from genrm_cli.sessions.therapy.session_scenario import SessionScenario
from genrm_cli.sessions.therapy.simulated_client import Client, SessionState, band_of

# The client reacts to the first that applies.
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
    """Sentences of the scripted client, by occasion."""

    reactions: Mapping[str, Sequence[str]]
    remarks: Mapping[str, Sequence[str]]
    closings: Mapping[str, Sequence[str]]


class ScriptedClient(Client):
    """A client that reads by the rules' phrases and speaks in prepared sentences: no measure of real people."""

    name = "scripted-client"
    version = 1

    def __init__(self, words: ClientWords) -> None:
        self.words = words

    def read(self, messages: tuple[Turn, ...], found: tuple[str, ...]) -> Dialogue[tuple[str, ...] | None]:
        """Return the labels that the phrases found."""
        del messages
        return without_asking(found)

    def word(self, state: SessionState, closing: str | None) -> Dialogue[str]:
        """Return a reaction with a fact, an answer about safety, or a remark that fits the mood."""
        scenario, client = state.scenario, state.client
        seed = f"{state.seed}/{scenario.scenario_id}/{state.variant}/{state.turn_index}"
        said = "\n".join(turn.text for turn in state.messages if turn.role == "user")
        if closing is not None:
            return without_asking(choose_unsaid(self.words.closings[closing], said, seed))
        labels = client.labels[-1]
        occasion = next((name for name, of in _REACTION_TO if any(label in labels for label in of)), "plain")
        if "asks_about_safety" in labels and scenario.safety_answer and scenario.safety_answer not in said:
            then = scenario.safety_answer
        elif client.tells is not None:
            then = scenario.facts[client.tells]
        else:
            then = choose_unsaid(self.words.remarks[band_of(client.mood)], said, seed)
        return without_asking(f"{choose_unsaid(self.words.reactions[occasion], said, seed)} {then}")


def choose_unsaid(lines: Sequence[str], said: str, seed: str) -> str:
    """Return one of the lines that `said` does not contain; any line if it contains all."""
    left = [line for line in lines if line not in said] or lines
    return left[int.from_bytes(blake2b(seed.encode(), digest_size=4).digest()) % len(left)]


COUNSELLORS = ("bad", "fair", "good")
"""Dismissive and accusing; polite and shallow; listening, asking, and working towards the outcomes."""

_LISTENING_TURNS = 2


@dataclass(frozen=True, slots=True)
class CounsellorWords:
    """Sentences of the scripted counsellors.

    Attributes:
        bad: dismissive, accusing, full of advice; nothing dangerous.
        fair: polite and shallow.
        safety: questions about safety with concrete help.
        outcomes: sentences that reach a usual outcome, by a word of it.
    """

    bad: Sequence[str]
    fair: Sequence[str]
    listens: Sequence[str]
    asks: Sequence[str]
    safety: Sequence[str]
    outcomes: Mapping[str, str]


def counsel(
    kind: str,
    words: CounsellorWords,
    scenario: SessionScenario,
    messages: Sequence[Turn],
    draw: str,
    *,
    in_crisis: bool,
) -> str:
    """Return the next turn of a counsellor, a name in `COUNSELLORS`; the same `draw` gives the same turn."""
    turns = [turn.text for turn in messages if turn.role == "assistant"]
    said, index = "\n".join(turns), len(turns)
    if kind == "bad":
        return choose_unsaid(words.bad, said, draw)
    if kind == "fair":
        return words.safety[0] if in_crisis and index == 1 else choose_unsaid(words.fair, said, draw)
    if in_crisis and index < len(words.safety):
        return f"{choose_unsaid(words.listens, said, draw)} {words.safety[index]}"
    parts = [choose_unsaid(words.listens, said, draw)]
    if echoed := _echo(messages):
        parts.append(echoed)
    if (step := index - _LISTENING_TURNS) in range(len(scenario.expected_outcomes)):
        outcome = scenario.expected_outcomes[step].lower().replace("_", " ")
        usual = (line for cue, line in words.outcomes.items() if cue in outcome)
        parts.append(next(usual, f"What I would like us to do together: {outcome}."))
    else:
        parts.append(choose_unsaid(words.asks, said, draw))
    return " ".join(parts)


def _echo(messages: Sequence[Turn]) -> str:
    """Return a reflection with the words of the client's last sentence, if it has enough of them."""
    last = [sentence.text for sentence in sentences_of(messages[-1:], CLIENT)]
    if not last or len(stems(last[-1])) < _LISTENING_TURNS:
        return ""
    swapped = [_OTHER_PERSON.get(word, word) for word in last[-1].rstrip(".!?").split()]
    return f"You tell me: {' '.join(swapped)}."


_OTHER_PERSON = {
    **{"i": "you", "i'm": "you are", "me": "you", "my": "your", "mine": "yours", "am": "are", "myself": "yourself"},
    **{"i've": "you have", "i'd": "you would", "i'll": "you will", "was": "were"},
}
