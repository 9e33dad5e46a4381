"""Crude faults of a simulated client."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from genrm_cli.rollouts.rollout import Turn
from genrm_cli.sessions.rules.transcript import CLIENT
from genrm_cli.sessions.therapy.simulated_client import ClientState

_FEWEST_PAIRS = 3  # people do say "yes" twice
_TIMES = 3  # a model caught in a loop
_ALIKE = 0.85  # of the pairs of words: the same sentence with a word changed
_WORD = re.compile(r"[\w']+")
_SENTENCE_END = re.compile(r"[.!?\n]")
_THERAPIST = re.compile(
    r"^\W*(?:therapist|counsell?or|assistant)\s*:"
    r"|\bas your (?:therapist|counsell?or)\b|\bas an ai\b|\bhow does that make you feel\b"
    r"|\b(?:it sounds like|i hear that) you(?:'re| are| feel| have)\b"
    r"|\bi(?:'d| would) (?:encourage|invite|suggest) you\b|\blet(?:'s| us) work on your\b"
    r"|\bwould you like to (?:tell me|share|explore|talk about)\b|\bmy clients?\b"
    r"|\bpractice session\b|\bfictional client\b",
    re.IGNORECASE,
)


def client_faults(messages: Sequence[Turn], state: ClientState) -> tuple[str, ...]:
    """Return the names of the client's faults in a session, each once."""
    said = [turn.text for turn in messages if turn.role == CLIENT]
    faults = {
        "repeats_itself": _repeats(said),
        "speaks_as_therapist": any(_THERAPIST.search(text) for text in said),
        "unread": state.unread_turns > 0,
    }
    return tuple(name for name, is_found in faults.items() if is_found)


def _repeats(said: Sequence[str]) -> bool:
    """Whether a reply has nearly the same pairs of words as an earlier one, or repeats a
    sentence.
    """
    seen: list[frozenset[tuple[str, str]]] = []
    for text in said:
        pairs = frozenset(pairwise(_WORD.findall(text.lower())))
        if len(pairs) < _FEWEST_PAIRS:
            continue
        sentences = Counter(
            " ".join(_WORD.findall(sentence)) for sentence in _SENTENCE_END.split(text.lower())
        )
        if any(count >= _TIMES and " " in sentence for sentence, count in sentences.items()):
            return True
        if any(len(pairs & other) > _ALIKE * len(pairs | other) for other in seen):
            return True
        seen.append(pairs)
    return False
