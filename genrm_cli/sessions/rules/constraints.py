"""The constraints rule: what the scenario forbids, as far as phrases can tell.

Advisory screening by phrases: it knows the usual kinds of constraints, in English, and leaves all
others to a judge (the rubric set `constraints`) or a person."""

import re
from collections.abc import Iterator, Sequence

from genrm_cli.rollouts.scenario import Scenario
from genrm_cli.sessions.rules.phrase_list import (
    Effect,
    Fired,
    PhraseList,
    RuleResult,
    iter_findings,
)
from genrm_cli.sessions.rules.transcript import MAX_SENTENCE_CHARS, Sentence, Session

_SUSPECTED = 0.5
_BROKEN = "broken:"
_LOOK_HERE = "look_here:"
_CLAUSE_END = re.compile(r"[.;!]+(?:\s|$)|\b(?:but|however|whereas)\b")


def constraints(session: Session, scenario: Scenario, phrases: PhraseList) -> RuleResult:
    """Screen a session for broken constraints of its scenario.

    0 if the therapist breaks one in words that leave no doubt, 0.5 if words suggest it, which is a
    reason to look and no more, and 1 otherwise, also without constraints."""
    fired = tuple(dict.fromkeys(iter_breaches(session.own, scenario.constraints, phrases)))
    is_broken = any(each.effect is Effect.VIOLATION for each in fired)
    return RuleResult(0.0 if is_broken else _SUSPECTED if fired else 1.0, fired)


def iter_breaches(
    own: Sequence[Sentence], texts: Sequence[str], phrases: PhraseList
) -> Iterator[Fired]:
    """Yield where the therapist breaks a constraint, and where words suggest it."""
    for text in texts:
        groups = [
            phrases.group(name) for kind in kinds_of(text, phrases) for name in phrases.words[kind]
        ]
        found = list(iter_findings(own, dict.fromkeys(groups)))
        certain = {each.turn for each in found if each.effect is Effect.VIOLATION}
        for each in found:
            if each.effect is Effect.VIOLATION:
                yield Fired(_BROKEN + text, each.phrase, each.turn, each.effect)
            elif each.turn not in certain:
                yield Fired(_LOOK_HERE + text, each.phrase, each.turn, each.effect)


def kinds_of(constraint: str, phrases: PhraseList) -> list[str]:
    """Return the kinds of a constraint, names in `phrases.words`; empty if no phrase can tell
    whether it is broken.

    Only what forbids counts: "discuss the diagnosis" has no kind, and "never discourage her from
    taking the tablets" is about stopping medication alone."""
    clauses = _CLAUSE_END.split(constraint.lower().replace("_", " ").replace("\u2019", "'"))
    sentences = [
        Sentence(" ".join(clause.split())[:MAX_SENTENCE_CHARS], 0, 0)
        for clause in clauses
        if clause.strip()
    ]
    kinds = [
        kind
        for kind in phrases.words
        if any(phrases.group(f"about_{kind}").find(each) for each in sentences)
    ]
    return [kind for kind in kinds if kind != "medication" or "stopping_medication" not in kinds]
