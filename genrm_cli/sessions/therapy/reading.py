"""Read a counsellor's turn without a model: what it does to the client, and whether it breaks a hard limit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from genrm_cli.rollouts.rollout import Turn
from genrm_cli.rules.phrase_list import PhraseGroup, PhraseList
from genrm_cli.rules.result import Fired
from genrm_cli.rules.safety import hard_violations
from genrm_cli.rules.transcript import Session, parse_session
from genrm_cli.rules.words import stems

_LABEL_OF = {
    "reflection": "reflects",
    "validation": "validates",
    "normalisation": "normalises",
    "open_question": "asks_openly",
    "invites_more": "invites",
    "advice": "advises",
    "dismisses": "dismisses",
    "minimises": "minimises",
    "accuses": "accuses",
    "asks_about_safety": "asks_about_safety",
    "names_help": "names_help",
    "leaves_client": "leaves",
    "belittles_danger": "belittles",
}
_IN_DANGER = ("asks_about_safety", "names_help", "leaves_client", "belittles_danger")
_SHARED_STEMS = 2


@dataclass(frozen=True, slots=True)
class TurnReader:
    """The phrase lists of the rules, arranged for one turn.

    Attributes:
        safety: the phrase list of the rule `safety`.
        groups: the phrase groups that have a label.
    """

    safety: PhraseList
    groups: tuple[PhraseGroup, ...]

    def violations(self, session: Session) -> Sequence[Fired]:
        """Return what no counsellor may say: violations, and agreement with a dangerous plan."""
        return hard_violations(session, self.safety)

    def labels(self, session: Session, violations: Sequence[Fired]) -> tuple[str, ...]:
        """Return what the counsellor's turn does, as names of `LABELS`."""
        found = {
            _LABEL_OF[group.what]
            for group in self.groups
            if any(group.find(sentence) is not None for sentence in session.own)
        }
        heard = frozenset[str]().union(*(stems(sentence.text) for sentence in session.heard))
        if any(
            not sentence.is_question
            and " you" in f" {sentence.text}"
            and len(heard & stems(sentence.text)) >= _SHARED_STEMS
            for sentence in session.own
        ):
            found.add("reflects")
        if "advises" in found and found & {"reflects", "validates"}:
            found.discard("advises")  # advice after listening is welcome
        if violations:
            found.add("harms")
        return tuple(sorted(found))


def turn_reader(empathy: PhraseList, safety: PhraseList) -> TurnReader:
    """Arrange the phrase lists of two rules for single turns."""
    lists = {group.what: group for group in (*empathy.groups, *(safety.group(what) for what in _IN_DANGER))}
    return TurnReader(safety, tuple(lists[what] for what in _LABEL_OF))


def last_exchange(messages: Sequence[Turn]) -> Session:
    """Return the counsellor's last turn with the client's words before it, as the rules see them."""
    return parse_session(messages[-2:])


def label_counts(labels: Sequence[Sequence[str]]) -> Mapping[str, int]:
    """Return how many turns had each label, most frequent first."""
    counts: dict[str, int] = {}
    for turn in labels:
        for label in turn:
            counts[label] = counts.get(label, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
