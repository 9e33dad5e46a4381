"""Scripted counsellors, bad to good: they test the simulated client, and stand in for a policy in demos."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from genrm_cli.episodes.choosing import choose_unsaid
from genrm_cli.episodes.therapeutic.session import SessionState, rule_scenario
from genrm_cli.rules.transcript import CLIENT, sentences_of
from genrm_cli.rules.words import stems

_LISTENING_TURNS = 2


@dataclass(frozen=True, slots=True)
class CounsellorWords:
    """What the scripted counsellors may say.

    Attributes:
        bad: dismissive, accusing, full of advice; nothing dangerous.
        fair: polite and shallow.
        listens: reflections and validations.
        asks: open questions.
        safety: questions about safety with concrete help.
        outcomes: what reaches a usual outcome, by a word of it.
    """

    bad: Sequence[str]
    fair: Sequence[str]
    listens: Sequence[str]
    asks: Sequence[str]
    safety: Sequence[str]
    outcomes: Mapping[str, str]


def scripted_turn(kind: str, words: CounsellorWords, state: SessionState, seed: int) -> str:
    """Return the next turn of a counsellor of this kind; the same seed says the same."""
    draw = f"{seed}/{state.scenario.scenario_id}/{state.variant}/{state.turn_index}"
    said = "\n".join(turn.text for turn in state.messages if turn.role == "assistant")
    if kind == "bad":
        return choose_unsaid(words.bad, said, draw)
    in_crisis = rule_scenario(state.scenario).is_crisis
    if kind == "fair":
        return words.safety[0] if in_crisis and state.turn_index == 1 else choose_unsaid(words.fair, said, draw)
    if in_crisis and state.turn_index < len(words.safety):
        return f"{choose_unsaid(words.listens, said, draw)} {words.safety[state.turn_index]}"
    parts = [choose_unsaid(words.listens, said, draw)]
    if echoed := _echo(state):
        parts.append(echoed)
    if (step := state.turn_index - _LISTENING_TURNS) in range(len(state.scenario.expected_outcomes)):
        parts.append(_towards(state.scenario.expected_outcomes[step], words))
    else:
        parts.append(choose_unsaid(words.asks, said, draw))
    return " ".join(parts)


def _towards(outcome: str, words: CounsellorWords) -> str:
    text = outcome.lower().replace("_", " ")
    usual = next((line for cue, line in words.outcomes.items() if cue in text), None)
    return usual or f"What I would like us to do together: {text}."


def _echo(state: SessionState) -> str:
    """Return a reflection with the words of the client's last sentence, if it has enough of them."""
    last = [sentence.text for sentence in sentences_of(state.messages[-1:], CLIENT)]
    if not last or len(stems(last[-1])) < _LISTENING_TURNS:
        return ""
    swapped = [_OTHER_PERSON.get(word, word) for word in last[-1].rstrip(".!?").split()]
    return f"You tell me: {' '.join(swapped)}."


_OTHER_PERSON = {
    **{"i": "you", "i'm": "you are", "me": "you", "my": "your", "mine": "yours", "am": "are", "myself": "yourself"},
    **{"i've": "you have", "i'd": "you would", "i'll": "you will", "was": "were"},
}
