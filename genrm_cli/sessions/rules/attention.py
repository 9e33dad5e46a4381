"""The attention rule: the therapist answers what the client says, and takes up what must not be
passed over.

Advisory screening by words: it finds that the client's words are taken up, not that they are
understood. A paraphrase without a common word is missed, so compare values between rollouts of one
task only."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from genrm_cli.rollouts.scenario import Scenario
from genrm_cli.sessions.rules.phrase_list import Effect, Fired, PhraseList, RuleResult, within_unit
from genrm_cli.sessions.rules.transcript import Sentence, Session, stems

_REPETITION = 0.5
_ALIKE = 0.6
_PARROTED = 0.6
_WORD = re.compile(r"[\w']+")
_LEAST_STEMS = 3
_SHARED_STEMS = 2
_HEARD_TURNS = 2  # what the client said two turns ago is still answered
_REPLIES = 2
_TAKES_UP = "takes_up_"
_SHOWN_CHARS = 80
# Words that counsellors use whatever the client says: they take nothing up.
_STOCK_WORDS = """
    bad came come day days feel feelings find found good happen hard help keep life matter night people person talk time
    times today told tomorrow tonight understand week year
"""  # noqa: E501
_STOCK = stems(_STOCK_WORDS)


class Heed(NamedTuple):
    """What one turn of the therapist does with the client's words.

    Attributes:
        turn: index in the transcript, from 0.
        attends: whether it takes up a content word of the client's last two turns and does not
            repeat; None if those turns have no content words.
        repeats: whether it says what an earlier turn of the therapist said, in whatever order, or
            only what the client said.
    """

    turn: int
    attends: bool | None
    repeats: bool


def attention(session: Session, _scenario: Scenario, phrases: PhraseList) -> RuleResult:
    """Measure how far the therapist answers this client.

    value = attending - 0.5 * repeating, within 0 to 1, where `attending` is the share of the
    therapist's turns that take up the client's words, of those that had any to take up, and
    `repeating` the share that repeat an earlier turn. If the client names a means of suicide, a
    threat, a child in danger or the like, `attending` is the mean of that share and of the share of
    such sentences that one of the next two turns takes up. None if the client says nothing to take
    up."""
    heeds = list(iter_heeds(session))
    answered = [heed.attends for heed in heeds if heed.attends is not None]
    disclosed = list(iter_disclosures(session, phrases))
    if not answered and not disclosed:
        return RuleResult(None)
    shares = [sum(answered) / len(answered)] if answered else []
    if disclosed:
        shares.append(sum(each.effect is Effect.RAISES for each in disclosed) / len(disclosed))
    repeated = list(iter_repetitions(session, heeds))
    value = sum(shares) / len(shares) - _REPETITION * len(repeated) / len(session.turns)
    return RuleResult(
        within_unit(value), tuple(sorted([*disclosed, *repeated], key=lambda each: each.turn))
    )


def iter_heeds(session: Session) -> Iterator[Heed]:
    """Yield what each turn of the therapist does with the client's words, in order."""
    client = _by_turn(session.heard)
    earlier: list[_Said] = []
    for turn, said in _by_turn(session.own).items():
        recent = [heard for place, heard in client.items() if place < turn][-_HEARD_TURNS:]
        repeats = any(
            said.text == other.text or _alike(said.words, other.words) for other in earlier
        )
        repeats = repeats or _parrots(said.text, [heard.text for heard in recent])
        content = frozenset[str]().union(*(heard.words for heard in recent)) - _STOCK
        attends = None if not content else bool(said.words & content) and not repeats
        earlier.append(said)
        yield Heed(turn, attends, repeats)


def iter_repetitions(session: Session, heeds: Iterable[Heed]) -> Iterator[Fired]:
    """Yield the turns of the therapist that repeat an earlier one, or the client."""
    first = {sentence.turn: sentence.text for sentence in reversed(session.own)}
    for heed in heeds:
        if heed.repeats:
            yield Fired("repeats_itself", first[heed.turn][:_SHOWN_CHARS], heed.turn, Effect.LOWERS)


def iter_disclosures(
    session: Session, phrases: PhraseList, within_turns: int | None = _REPLIES
) -> Iterator[Fired]:
    """Yield each thing that must not be passed over, with whether one of the next turns takes it
    up.

    Args:
        within_turns: how many turns of the therapist have the time to; None for all that follow.
    """
    kinds = [group for group in phrases.groups if not group.what.startswith(_TAKES_UP)]
    turns = [*dict.fromkeys(sentence.turn for sentence in session.own)]
    for sentence in session.heard:
        for kind in kinds:
            if (phrase := kind.find(sentence)) is None:
                continue
            next_turns = [turn for turn in turns if turn > sentence.turn][:within_turns]
            if not next_turns:
                continue
            replies = [reply for reply in session.own if reply.turn in next_turns]
            takes_up = phrases.group(_TAKES_UP + kind.what)
            if any(
                takes_up.find(reply)
                or len(stems(sentence.text) & stems(reply.text)) >= _SHARED_STEMS
                for reply in replies
            ):
                yield Fired(f"takes_up:{kind.what}", phrase, next_turns[0], Effect.RAISES)
            else:
                yield Fired(f"passes_over:{kind.what}", phrase, next_turns[0], Effect.LOWERS)


def _parrots(text: str, recent: Sequence[str]) -> bool:
    """Whether most pairs of neighbouring words are the client's."""
    pairs = set(pairwise(_WORD.findall(text)))
    known = {pair for said in recent for pair in pairwise(_WORD.findall(said))}
    return len(pairs) >= _LEAST_STEMS and len(pairs & known) > _PARROTED * len(pairs)


def _alike(words: frozenset[str], others: frozenset[str]) -> bool:
    return len(words) >= _LEAST_STEMS and len(words & others) >= _ALIKE * len(words | others)


class _Said(NamedTuple):
    """What one turn says: its text, and the stems of its content words."""

    text: str
    words: frozenset[str]


def _by_turn(sentences: Sequence[Sentence]) -> dict[int, _Said]:
    texts: dict[int, list[str]] = defaultdict(list)
    for sentence in sentences:
        texts[sentence.turn].append(sentence.text)
    # The stems of sentences are remembered, and whole turns would fill that memory.
    return {
        turn: _Said(" ".join(each), frozenset[str]().union(*map(stems, each)))
        for turn, each in texts.items()
    }
