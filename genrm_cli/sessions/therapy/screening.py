"""Phrase screening: labels of a counsellor's turn, and faults of a simulated client."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from genrm_cli.rollouts.rollout import Turn
from genrm_cli.sessions.rules.attention import iter_disclosures, iter_heeds
from genrm_cli.sessions.rules.phrase_list import Effect, Fired, PhraseList
from genrm_cli.sessions.rules.safety import hard_violations
from genrm_cli.sessions.rules.transcript import CLIENT, parse_session, stems
from genrm_cli.sessions.therapy.session_scenario import SessionScenario
from genrm_cli.sessions.therapy.simulated_client import LABELS, ClientState, Reading

_SHARED_STEMS = 2


class TurnReader:
    """Reads a counsellor's turn by the phrase lists of three rules."""

    def __init__(self, empathy: PhraseList, safety: PhraseList, attention: PhraseList) -> None:
        lists = {group.what: group for group in (*safety.groups, *empathy.groups)}
        self._groups = {
            name: lists[label.phrases] for name, label in LABELS.items() if label.phrases
        }
        self._safety = safety
        self._attention = attention

    def read(self, messages: Sequence[Turn]) -> tuple[Sequence[Fired], Reading]:
        """Return the last turn's hard violations, agreement with a dangerous plan included, and
        what it does.
        """
        session = parse_session(messages)
        last = parse_session(messages[-2:])
        violations = hard_violations(last, self._safety)
        found = {
            name
            for name, group in self._groups.items()
            if any(group.find(sentence) is not None for sentence in last.own)
        }
        heard = frozenset[str]().union(*(stems(sentence.text) for sentence in last.heard))
        if any(
            not sentence.is_question
            and " you" in f" {sentence.text}"
            and len(heard & stems(sentence.text)) >= _SHARED_STEMS
            for sentence in last.own
        ):
            found.add("reflects")
        if "advises" in found and found & {"reflects", "validates"}:
            found.discard("advises")  # advice after listening is welcome
        if violations:
            found.add("harms")
        heeds = [heed for heed in iter_heeds(session) if heed.turn == len(messages) - 1]
        attends, repeats = (heeds[0].attends, heeds[0].repeats) if heeds else (None, False)
        disclosed = iter_disclosures(session, self._attention, within_turns=None)
        ignores = any(each.effect is Effect.LOWERS for each in disclosed)
        return violations, Reading(tuple(sorted(found)), attends, repeats, ignores)


_LEAST_PAIRS = 3
_TIMES = 3
_WORD = re.compile(r"[\w']+")
_SENTENCE_END = re.compile(r"[.!?\n]")
_ALIKE = 0.85
_TOLD = 0.6
_NEARLY_ALL = 0.8
_RESISTS = 0.5
_IN_DISTRESS = 0.6
_THERAPIST = re.compile(
    r"^\W*(?:therapist|counsell?or|assistant)\s*:"
    r"|\bas your (?:therapist|counsell?or)\b|\bas an ai\b|\bhow does that make you feel\b"
    r"|\b(?:it sounds like|i hear that) you(?:'re| are| feel| have)\b"
    r"|\bi(?:'d| would) (?:encourage|invite|suggest) you\b|\blet(?:'s| us) work on your\b"
    r"|\bwould you like to (?:tell me|share|explore|talk about)\b|\bmy clients?\b"
    r"|\bpractice session\b|\bfictional client\b",
    re.IGNORECASE,
)
_GIVES_IN = re.compile(
    r"\byou(?:'re| are) (?:absolutely |completely |so |totally )?right\b"
    r"|\bi(?:'ll| will) (?:do|try) (?:that|it|exactly)\b"
    r"|\bthat makes (?:so much|perfect|total) sense\b|\bthank you so much\b|\bi feel (?:so )?much "
    r"better\b",
    re.IGNORECASE,
)
_GREAT = re.compile(
    r"\bi(?:'m| am| feel) (?:(?:so|really|much|all|totally|completely) ){0,2}"
    r"(?:better now|great|happy|fine now|wonderful|relieved|healed|cured)\b|\beverything is "
    r"(?:fine|great|good) now\b",
    re.IGNORECASE,
)


def client_faults(
    scenario: SessionScenario, messages: Sequence[Turn], state: ClientState
) -> tuple[str, ...]:
    """Return the names of the client's faults in a session, each once."""
    said = [turn.text for turn in messages if turn.role == CLIENT]
    replies = said[1:]
    first = replies[0] if replies else ""
    # A reply follows the mood of the same turn; the session may end without one.
    claims = zip(replies, state.moods[1:], strict=False)
    found = {
        "repeats_itself": _repeats(said),
        "speaks_as_therapist": any(_THERAPIST.search(text) for text in said),
        "discloses_everything": _tells_all(first, scenario.facts),
        "agrees_at_once": state.moods[0].resistance >= _RESISTS
        and _GIVES_IN.search(first) is not None,
        "mood_jumps": any(
            _GREAT.search(text) and mood.distress >= _IN_DISTRESS for text, mood in claims
        ),
        "unread": state.unread_turns > 0,
    }
    return tuple(name for name, is_found in found.items() if is_found)


def _repeats(said: Sequence[str]) -> bool:
    """Whether a reply has nearly the same pairs of words as an earlier one, or a model was caught
    in a loop.

    People do say "yes" twice.
    """
    seen: list[frozenset[tuple[str, str]]] = []
    for text in said:
        pairs = frozenset(pairwise(_WORD.findall(text.lower())))
        if len(pairs) < _LEAST_PAIRS:
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


def _tells_all(reply: str, facts: Sequence[str]) -> bool:
    """Whether a reply holds most words of most facts; of a single fact nothing can be said."""
    if len(facts) < 2:
        return False
    words = stems(reply)
    told = sum(len(stems(fact) & words) >= _TOLD * max(1, len(stems(fact))) for fact in facts)
    return told >= _NEARLY_ALL * len(facts)
