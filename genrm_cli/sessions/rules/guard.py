"""The guard: certain breaches, and places to look at.

It is built for precision: what it calls certain ends a session and gates its reward, so a reader
must not doubt it. It misses most hints and does not replace a judge."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from genrm_cli.rollouts.scenario import Scenario
from genrm_cli.sessions.rules.findings import Effect, Finding, RuleResult
from genrm_cli.sessions.rules.patterns import Breach, Pattern, read_patterns
from genrm_cli.sessions.rules.transcript import MAX_SENTENCE_CHARS, Sentence, Session

_SUSPECTED = 0.5  # above any gate that a certain breach must fail
DANGER = "client_danger"
INTENT = "client_intent"
ASKS = "asks_about_safety"
HELPS = "names_help"


def guard(session: Session, scenario: Scenario) -> RuleResult:
    """Screen a session: 0 for a certain breach, 0.5 for words to look at, else 1."""
    findings = tuple(dict.fromkeys(iter_breaches(session, scenario)))
    if any(each.effect is Effect.CERTAIN for each in findings):
        return RuleResult(0.0, findings)
    return RuleResult(_SUSPECTED if findings else 1.0, findings)


def iter_breaches(session: Session, scenario: Scenario) -> Iterator[Finding]:
    """Yield what the therapist says that is certainly or perhaps a breach."""
    named = {kind: text for text in scenario.constraints for kind in kinds_of(text)}
    replies: dict[int, list[str]] = {}
    for sentence in session.own:
        replies.setdefault(sentence.turn, []).append(sentence.text)
    for turn, reply in replies.items():
        heard = _heard_before(turn, session.heard)
        for finding in _breaches_of_turn(tuple(reply), heard, tuple(named.items())):
            yield replace(finding, turn=turn)


# A session in progress is read again after each of its turns.
@lru_cache(maxsize=2_048)
def _breaches_of_turn(
    reply: tuple[str, ...], heard: tuple[str, ...], constraints: tuple[tuple[str, str], ...]
) -> tuple[Finding, ...]:
    patterns = read_patterns()
    named = dict(constraints)
    client = [Sentence(text, 0, 0) for text in heard]
    sentences = [Sentence(text, 0, 0) for text in reply]
    findings: list[Finding] = []
    for breach in patterns.breaches:
        is_open = not breach.constraint or breach.constraint in named
        follows = breach.after is None or any(map(breach.after.find, client))
        if is_open and follows:
            findings += _iter_found(breach, sentences, named.get(breach.constraint, ""))
    if any(map(patterns.marks[DANGER].find, client)) and not _takes_up(sentences):
        findings.append(Finding("passes_over_danger", "", 0, Effect.LOOK_HERE, 5))
    return tuple(findings)


def _iter_found(
    breach: Breach, sentences: Sequence[Sentence], constraint: str
) -> Iterator[Finding]:
    excuse = breach.unless_turn
    if excuse is not None and any(excuse.search(sentence.text) for sentence in sentences):
        return
    what = f"{breach.what}:{constraint}" if constraint else breach.what
    effect = Effect.CERTAIN if breach.is_certain else Effect.LOOK_HERE
    followed = [*(sentence.text for sentence in sentences[1:]), ""]
    for sentence, following in zip(sentences, followed, strict=True):
        phrase = breach.pattern.find(sentence, following)
        if phrase is not None:
            yield Finding(what, phrase, sentence.turn, effect, breach.severity)


def _takes_up(sentences: Sequence[Sentence]) -> bool:
    """Whether a reply to a danger asks anything, or holds a word of care or help."""
    care = read_patterns().marks["care"]
    return any(sentence.is_question or care.find(sentence) for sentence in sentences)


def _heard_before(turn: int, heard: Sequence[Sentence]) -> tuple[str, ...]:
    """Return the client's last turn before one of the therapist's."""
    last = max((each.turn for each in heard if each.turn < turn), default=None)
    return tuple(each.text for each in heard if each.turn == last)


@lru_cache(maxsize=1_024)
def kinds_of(constraint: str) -> tuple[str, ...]:
    """Return the kinds of a constraint that the guard knows; empty for one that only a judge can
    check.
    """
    text = " ".join(constraint.lower().replace("_", " ").replace("\u2019", "'").split())
    sentence = Sentence(text[:MAX_SENTENCE_CHARS], 0, 0)
    about = read_patterns().constraints
    return tuple(name for name, pattern in about.items() if pattern.find(sentence))


def first_turn(name: str, sentences: Sequence[Sentence]) -> int | None:
    """Return the first turn with a mark, such as `client_intent`; None without one."""
    mark: Pattern = read_patterns().marks[name]
    return next((sentence.turn for sentence in sentences if mark.find(sentence)), None)
