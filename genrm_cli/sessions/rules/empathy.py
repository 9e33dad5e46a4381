"""The empathy rule: reflective listening, validation and open questions against dismissal and
interrogation.

Advisory screening by phrases: it counts forms of speech, which a policy can learn without empathy.
Use it alongside a judge, never alone."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence

from genrm_cli.rollouts.scenario import Scenario
from genrm_cli.sessions.rules.attention import iter_heeds, iter_repetitions
from genrm_cli.sessions.rules.phrase_list import (
    Effect,
    Fired,
    PhraseList,
    RuleResult,
    iter_findings,
    within_unit,
)
from genrm_cli.sessions.rules.transcript import Sentence, Session, stems

_NEUTRAL = 0.25
_BREADTH = 0.375
_DENSITY = 0.375
_HARM = 0.5
_FULL_BREADTH = 3
_CLOSED_IN_A_ROW = 3
_ADVICE_IN_A_TURN = 3
_SHARED_STEMS = 2
_KINDS_IN_A_TURN = (
    2  # a turn that holds every kind of listening listens no more than one that holds two
)
_STOCK_TURNS = 2
_WEARINESS = 0.5
_SHOWN_CHARS = 80


def empathy(session: Session, _scenario: Scenario, phrases: PhraseList) -> RuleResult:
    """Weigh signs of listening against signs of dismissal.

    value = 0.25 + 0.375 * min(1, kinds / 3) + 0.375 * raised / turns - 0.5 * min(1, lapses /
    turns), within 0 to 1, where `kinds` counts the kinds of listening shown (reflection,
    validation, normalisation, open_question, invites_more), at most two of a turn, `raised` the
    turns that show any, `lapses` the findings that lower, and `turns` the turns of the therapist. A
    session with neither has 0.25. Of turns that take up nothing that the client said only two are
    raised, and each other is half a lapse; one that repeats an earlier turn is a whole lapse.

    Besides phrases, a statement to the client with two content words of the client's last turn is a
    reflection; three closed questions in a row, except safety questions, are an interrogation;
    three pieces of advice in a turn without listening or a request for advice are unsolicited
    advice."""
    turns, own, heard = session
    raising = list(iter_findings(own, phrases.with_effect(Effect.RAISES)))
    lowering = list(iter_findings(own, phrases.with_effect(Effect.LOWERS)))
    raising += _reflected_words(own, heard, phrases)
    heeds = list(iter_heeds(session))
    repeated = list(iter_repetitions(session, heeds))
    raised = {each.turn for each in raising}
    stock = [
        heed.turn
        for heed in heeds
        if heed.attends is False and not heed.repeats and heed.turn in raised
    ]
    worthless = {each.turn for each in repeated}.union(stock[_STOCK_TURNS:])
    raising = [each for each in raising if each.turn not in worthless]
    listened = {each.turn for each in raising}
    lowering += repeated
    lowering += _interrogations(own, phrases)
    lowering += _unsolicited_advice(own, heard, listened, phrases)
    fired = sorted(dict.fromkeys(raising + lowering), key=lambda each: each.turn)
    shown = {
        turn: dict.fromkeys(each.what for each in raising if each.turn == turn) for turn in listened
    }
    kinds = {kind for each in shown.values() for kind in [*each][:_KINDS_IN_A_TURN]}
    breadth = min(1.0, len(kinds) / _FULL_BREADTH)
    weary = _WEARINESS * len(stock[_STOCK_TURNS:])
    lapses = min(1.0, (sum(each.effect is Effect.LOWERS for each in fired) + weary) / len(turns))
    value = _NEUTRAL + _BREADTH * breadth + _DENSITY * len(listened) / len(turns) - _HARM * lapses
    return RuleResult(within_unit(value), tuple(fired))


def _reflected_words(
    own: Sequence[Sentence], heard: Sequence[Sentence], phrases: PhraseList
) -> Iterator[Fired]:
    """Yield statements that repeat words of the client to the client."""
    advice = phrases.group("advice")
    said: dict[int, set[str]] = defaultdict(set)
    for sentence in heard:
        said[sentence.turn] |= stems(sentence.text)
    turns = sorted(said)
    for sentence in own:
        before = bisect_left(turns, sentence.turn)
        if (
            before == 0
            or sentence.is_question
            or " you" not in f" {sentence.text}"
            or advice.find(sentence)
        ):
            continue
        if len(said[turns[before - 1]] & stems(sentence.text)) >= _SHARED_STEMS:
            yield Fired("reflection", sentence.text[:_SHOWN_CHARS], sentence.turn, Effect.RAISES)


def _interrogations(own: Sequence[Sentence], phrases: PhraseList) -> Iterator[Fired]:
    """Yield each run of closed questions once; runs may span turns, and any statement ends them."""
    opened = phrases.group("open_question")
    safety = phrases.group("safety_question")
    run = 0
    for sentence in own:
        closed = sentence.is_question and opened.find(sentence) is None
        run = run + 1 if closed and safety.find(sentence) is None else 0
        if run == _CLOSED_IN_A_ROW:
            yield Fired("interrogation", sentence.text[:_SHOWN_CHARS], sentence.turn, Effect.LOWERS)


def _unsolicited_advice(
    own: Sequence[Sentence], heard: Sequence[Sentence], listened: set[int], phrases: PhraseList
) -> Iterator[Fired]:
    """Yield turns with much advice, no listening and no preceding request for advice."""
    advice = phrases.group("advice")
    asked = phrases.group("asks_for_advice")
    requests = {sentence.turn for sentence in heard if asked.find(sentence) is not None}
    given: dict[int, list[str]] = defaultdict(list)
    for sentence in own:
        if (phrase := advice.find(sentence)) is not None:
            given[sentence.turn].append(phrase)
    for turn, pieces in given.items():
        if len(pieces) >= _ADVICE_IN_A_TURN and turn not in listened and turn - 1 not in requests:
            yield Fired("unsolicited_advice", ", ".join(pieces)[:_SHOWN_CHARS], turn, Effect.LOWERS)
