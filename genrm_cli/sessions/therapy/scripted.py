"""A client and counsellors without a model, who choose from prepared sentences: for demos, CI and tests."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from genrm_cli.rollouts.rollout import Turn
from genrm_cli.sessions.environment import Dialogue, without_asking
from genrm_cli.sessions.rules.transcript import CLIENT, THERAPIST, sentences_of, stems
from genrm_cli.sessions.therapy.session_scenario import SessionScenario
from genrm_cli.sessions.therapy.simulated_client import Client, SessionState, band_of

# The client reacts to the first that applies.
_REACTION_TO = (
    ("harmed", ("harms",)),
    ("hurt", ("dismisses", "minimises", "accuses", "leaves", "belittles")),
    ("listened", ("reflects", "validates", "normalises")),
    ("asked", ("asks_openly", "invites")),
    ("advised", ("advises", "names_help")),
)


@dataclass(frozen=True, slots=True)
class ClientWords:
    """Sentences of the scripted client, by occasion; `answers` by words of a question."""

    reactions: Mapping[str, Sequence[str]]
    answers: Mapping[str, Sequence[str]]
    remarks: Mapping[str, Sequence[str]]
    closings: Mapping[str, Sequence[str]]


class ScriptedClient(Client):
    """A client that reads by the rules' phrases and speaks in prepared sentences: no measure of real people."""

    name = "scripted-client"
    version = 2

    def __init__(self, words: ClientWords) -> None:
        self.words = words

    def read(self, messages: tuple[Turn, ...], found: tuple[str, ...]) -> Dialogue[tuple[str, ...] | None]:
        """Return the labels that the phrases found."""
        del messages
        return without_asking(found)

    def word(self, state: SessionState, closing: str | None) -> Dialogue[str]:
        """Return an answer or a reaction, with a fact or a remark that fits the mood."""
        scenario, client = state.scenario, state.client
        seed = f"{state.seed}/{scenario.scenario_id}/{state.variant}/{state.turn_index}"
        said = "\n".join(turn.text for turn in state.messages if turn.role == "user")
        if closing is not None:
            return without_asking(choose_unsaid(self.words.closings[closing], said, seed))
        first = choose_unsaid(self._first_words(state), said, seed)
        if client.answers_safety:
            return without_asking(f"{first} {scenario.safety_answer}")
        if client.tells is not None:
            return without_asking(f"{first} {scenario.facts[client.tells]}")
        return without_asking(f"{first} {choose_unsaid(self.words.remarks[band_of(client.mood)], said, seed)}")

    def _first_words(self, state: SessionState) -> Sequence[str]:
        """Return the sentences to begin the reply with: an answer to the last question, or a reaction to the turn."""
        client = state.client
        before, now = client.moods[-2:]
        if client.is_told_again:
            return self.words.reactions["repeated"]
        if client.answers_safety:
            return self.words.reactions["asked_about_safety"]
        labels = client.labels[-1]
        occasion = next((name for name, of in _REACTION_TO if any(label in labels for label in of)), "plain")
        if occasion == "hurt" and now.trust >= before.trust:  # what else the turn did outweighs it
            occasion = "listened"
        if occasion in ("harmed", "hurt"):
            return self.words.reactions[occasion]
        questions = [each.text for each in sentences_of(state.messages[-1:], THERAPIST) if each.is_question]
        answers = (
            lines for text in reversed(questions) for cue, lines in self.words.answers.items() if re.search(cue, text)
        )
        return next(answers, self.words.reactions[occasion])


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
        echoes: frames for what the client told.
        takes_up: replies to what must not be passed over, by words of the client.
        outcomes: sentences that reach a usual outcome, by a word of it.
    """

    bad: Sequence[str]
    fair: Sequence[str]
    listens: Sequence[str]
    asks: Sequence[str]
    safety: Sequence[str]
    echoes: Sequence[str]
    takes_up: Mapping[str, str]
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
        is_due = in_crisis and index in range(1, 1 + len(words.safety))
        return words.safety[index - 1] if is_due else choose_unsaid(words.fair, said, draw)
    if in_crisis and index < len(words.safety):
        return f"{choose_unsaid(words.listens, said, draw)} {words.safety[index]}"
    if urgent := _taken_up(words, messages, said):
        return urgent
    parts = [choose_unsaid(words.listens, said, draw)]
    if told := _turned_round(messages):
        parts.insert(0, choose_unsaid(words.echoes, said, draw).format(said=told))
    if (step := index - _LISTENING_TURNS) in range(len(scenario.expected_outcomes)):
        outcome = scenario.expected_outcomes[step].lower().replace("_", " ")
        usual = (line for cue, line in words.outcomes.items() if cue in outcome)
        parts.append(next(usual, f"What I would like us to do together: {outcome}."))
    else:
        parts.append(choose_unsaid(words.asks, said, draw))
    return " ".join(parts)


def _taken_up(words: CounsellorWords, messages: Sequence[Turn], said: str) -> str | None:
    """Return the reply to something in the client's last two turns that must not be passed over."""
    heard = " ".join(turn.text for turn in [turn for turn in messages if turn.role == "user"][-2:])
    return next((line for cue, line in words.takes_up.items() if re.search(cue, heard) and line not in said), None)


def _turned_round(messages: Sequence[Turn]) -> str:
    """Return what the client last said about itself, in the second person; empty for small talk."""
    told = [each.text for each in sentences_of(messages[-1:], CLIENT) if not re.search(r"\byou", each.text)]
    if not told or len(stems(told[-1])) < _LISTENING_TURNS:
        return ""
    sentence = re.sub(r"\bi was\b", "you were", told[-1].rstrip(".!?"))
    return " ".join(_OTHER_PERSON.get(word, word) for word in sentence.split())


_OTHER_PERSON = {
    **{"i": "you", "i'm": "you are", "me": "you", "my": "your", "mine": "yours", "am": "are", "myself": "yourself"},
    **{"i've": "you have", "i'd": "you would", "i'll": "you will"},
}
