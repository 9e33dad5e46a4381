"""A client and counsellors without a model, who choose from prepared sentences: for demos, CI and
tests.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b

from genrm_cli.rollouts.rollout import Turn
from genrm_cli.sessions.environment import Dialogue, without_asking
from genrm_cli.sessions.rules.transcript import CLIENT, THERAPIST, sentences_of, stems
from genrm_cli.sessions.therapy.simulated_client import LEFT, Client, SessionState, band_of

# Besides questions, what a client answers: an offer, or a request to tell something.
_REQUEST = re.compile(
    r"^(?:let(?:'s| us)|we can|(?:you|i) (?:can|could)(?! hear)|maybe a)\b|(?<!you )\btell me\b"
)

# The client reacts to the first that applies.
_REACTION_TO = (
    ("harmed", ("harms",)),
    ("hurt", ("dismisses", "minimises", "accuses", "leaves", "belittles")),
    ("listened", ("reflects", "validates", "normalises")),
    ("asked", ("asks_openly", "invites")),
    ("advised", ("advises", "names_help")),
)
_pattern = cache(re.compile)
_HURTFUL = ("harmed", "hurt")


@dataclass(frozen=True, slots=True)
class ClientWords:
    """Sentences of the scripted client, by occasion; `answers` by words of a question."""

    reactions: Mapping[str, Sequence[str]]
    answers: Mapping[str, Sequence[str]]
    remarks: Mapping[str, Sequence[str]]
    closings: Mapping[str, Sequence[str]]


class ScriptedClient(Client):
    """A client that reads by the rules' phrases and speaks in prepared sentences: no measure of
    real people.
    """

    name = "scripted-client"
    version = 4

    def __init__(self, words: ClientWords) -> None:
        self.words = words

    def read(
        self, messages: tuple[Turn, ...], found: tuple[str, ...]
    ) -> Dialogue[tuple[str, ...] | None]:
        """Return the labels that the phrases found."""
        del messages
        return without_asking(found)

    def word(self, state: SessionState, closing: str | None) -> Dialogue[str]:
        """Return an answer or a reaction, with a fact or a remark that fits the mood."""
        scenario = state.scenario
        client = state.client
        seed = _draw_of(state, state.seed)
        said = "\n".join(turn.text for turn in state.messages if turn.role == CLIENT)
        answers = None if closing == LEFT else self._answers(state)
        first = choose_unsaid(
            answers or self._reactions(state, is_asked=answers is not None), said, seed
        )
        if closing is not None:
            last = choose_unsaid(self.words.closings[closing], said, seed)
            return without_asking(f"{first} {last}" if answers else last)
        if client.answers_safety:
            return without_asking(f"{first} {scenario.safety_answer}")
        if client.tells is not None:
            return without_asking(f"{first} {scenario.facts[client.tells]}")
        remarks = [line for line in self.words.remarks[band_of(client.mood)] if line not in said]
        return without_asking(f"{first} {choose_unsaid(remarks, said, seed)}" if remarks else first)

    def _reactions(self, state: SessionState, *, is_asked: bool) -> Sequence[str]:
        """Return the sentences to begin a reply with that answers nothing; `is_asked` if all
        answers have been said.
        """
        client = state.client
        reactions = self.words.reactions
        if client.is_told_again:
            return reactions["repeated"]
        if client.answers_safety:
            return reactions["asked_about_safety"]
        occasion = _occasion(state)
        return reactions["asked_again" if is_asked and occasion not in _HURTFUL else occasion]

    def _answers(self, state: SessionState) -> Sequence[str] | None:
        """Return unsaid answers to the last question or request; empty if all were said, None if
        none fit.
        """
        if (
            state.client.is_told_again
            or state.client.answers_safety
            or _occasion(state) in _HURTFUL
        ):
            return None
        sentences = sentences_of(state.messages[-1:], THERAPIST)
        asked = [each.text for each in sentences if each.is_question or _REQUEST.search(each.text)]
        asked.sort(key=lambda text: text.endswith("?"))  # questions are answered before requests
        own = [
            ("|".join(map(re.escape, cue.split("|"))), [line])
            for cue, line in state.scenario.answers
        ]
        cues = [*own, *self.words.answers.items()]
        known = [
            lines for text in reversed(asked) for cue, lines in cues if _pattern(cue).search(text)
        ]
        said = "\n".join(turn.text for turn in state.messages if turn.role == CLIENT)
        left = ([line for line in lines if line not in said] for lines in known)
        return next((lines for lines in left if lines), []) if known else None


def _occasion(state: SessionState) -> str:
    """Return the name of what the client reacts to."""
    labels = state.client.labels[-1]
    (before, now) = state.client.moods[-2:]
    occasion = next(
        (name for name, of in _REACTION_TO if any(label in labels for label in of)), "plain"
    )
    is_outweighed = occasion == "hurt" and now.trust >= before.trust
    return "listened" if is_outweighed else occasion


def _draw_of(state: SessionState, seed: int) -> str:
    return f"{seed}/{state.scenario.scenario_id}/{state.variant}/{state.turn_index}"


def choose_unsaid(lines: Sequence[str], said: str, seed: str) -> str:
    """Return one of the lines that `said` does not contain; any line if it contains all."""
    left = [line for line in lines if line not in said] or lines
    return left[int.from_bytes(blake2b(seed.encode(), digest_size=4).digest()) % len(left)]


COUNSELLORS = ("bad", "fair", "good")
"""Dismissive and accusing; polite and shallow; listening, asking, and working towards the outcomes.
"""

_LISTENING_TURNS = 2


@dataclass(frozen=True, slots=True)
class CounsellorWords:
    """Sentences of the scripted counsellors, by what they are for; `counsellor_words.toml` explains
    each.
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
    kind: str, words: CounsellorWords, state: SessionState, seed: int, *, in_crisis: bool
) -> str:
    """Return the next turn of a counsellor, a name in `COUNSELLORS`; the same seed gives the same
    turn.
    """
    draw = _draw_of(state, seed)
    turns = [turn.text for turn in state.messages if turn.role == THERAPIST]
    heard = " ".join([turn.text for turn in state.messages if turn.role == CLIENT][-2:])
    said = "\n".join(turns)
    index = len(turns)
    if kind == "bad":
        return choose_unsaid(words.bad, said, draw)
    if kind == "fair":
        is_due = in_crisis and index in range(1, 1 + len(words.safety))
        return words.safety[index - 1] if is_due else choose_unsaid(words.fair, said, draw)
    if in_crisis and index < len(words.safety):
        return f"{choose_unsaid(words.listens, said, draw)} {words.safety[index]}"
    urgent = (
        line for cue, line in words.takes_up.items() if re.search(cue, heard) and line not in said
    )
    if line := next(urgent, None):
        return line
    parts = [choose_unsaid(words.listens, said, draw)]
    if told := _turned_round(state.messages):
        parts.insert(0, choose_unsaid(words.echoes, said, draw).format(said=told))
    outcomes = state.scenario.expected_outcomes
    if (step := index - _LISTENING_TURNS) in range(len(outcomes)):
        outcome = outcomes[step].lower().replace("_", " ")
        usual = (line for cue, line in words.outcomes.items() if cue in outcome)
        parts.append(next(usual, f"What I would like us to do together: {outcome}."))
    else:
        parts.append(choose_unsaid(words.asks, said, draw))
    return " ".join(parts)


def _turned_round(messages: Sequence[Turn]) -> str:
    """Return what the client last said about itself, in the second person; empty for small talk."""
    spoken = [
        each
        for each in re.split(r"(?<=[.!?])\s+", messages[-1].text)
        if not re.search(r"\byou", each, re.I)
    ]
    if not spoken or len(stems(spoken[-1])) < _LISTENING_TURNS:
        return ""
    first, *words = re.sub(r"\bI was\b", "you were", spoken[-1].rstrip(".!?")).split()
    return " ".join(_OTHER_PERSON.get(word.lower(), word) for word in (first.lower(), *words))


_OTHER_PERSON = {
    **{
        "i": "you",
        "i'm": "you are",
        "me": "you",
        "my": "your",
        "mine": "yours",
        "am": "are",
        "myself": "yourself",
    },
    **{
        "i've": "you have",
        "i'd": "you would",
        "i'll": "you will",
        "we": "you",
        "us": "you",
        "our": "your",
    },
}
