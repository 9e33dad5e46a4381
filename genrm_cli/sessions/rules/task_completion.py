"""The task rule: the outcomes and tasks that a scenario expects are met by the session.

Advisory screening by words: it finds that an outcome is mentioned, not that it is reached well.
"""

from collections.abc import Sequence

from genrm_cli.rollouts.scenario import Scenario
from genrm_cli.sessions.rules.attention import iter_heeds
from genrm_cli.sessions.rules.attribution import is_negated
from genrm_cli.sessions.rules.phrase_list import Effect, Fired, PhraseList, RuleResult
from genrm_cli.sessions.rules.transcript import Sentence, Session, stems

_ENOUGH_WORDS = 0.6
_IN_A_TURN = 2


def task_completion(session: Session, scenario: Scenario, phrases: PhraseList) -> RuleResult:
    """Return the share of the scenario's expected outcomes and tasks that the therapist's turns
    meet.

    If an outcome names a usual one ("safety plan", "psychoeducation", ...), a phrase of that group
    meets it, except in a negated sentence. Otherwise a turn of the therapist meets it whose
    sentences, without negated ones, have at least 0.6 of the outcome's content words (stems of
    words of three letters or more). Outcomes without content words do not count. A turn meets two
    at most, and none if it repeats an earlier one. None if no outcomes are expected."""
    wanted = [outcome for outcome in scenario.expected_outcomes if stems(outcome)]
    if not wanted:
        return RuleResult(None)
    spoken: dict[int, set[str]] = {}
    for sentence in session.own:
        words = spoken.setdefault(sentence.turn, set())
        if sentence.is_question or not is_negated(sentence.text, len(sentence.text)):
            words |= stems(sentence.text)
    room = {heed.turn: 0 if heed.repeats else _IN_A_TURN for heed in iter_heeds(session)}
    findings = [_judge(outcome, session.own, spoken, phrases, room) for outcome in wanted]
    met = sum(each.effect is Effect.RAISES for each in findings)
    return RuleResult(met / len(wanted), tuple(findings))


def _judge(
    outcome: str,
    own: Sequence[Sentence],
    spoken: dict[int, set[str]],
    phrases: PhraseList,
    room: dict[int, int],
) -> Fired:
    """Find where an outcome is met; `room` is how many each turn can still meet, and is updated."""
    text = outcome.lower().replace("_", " ")
    usual = [
        group
        for group in phrases.groups
        if any(cue in text for cue in phrases.words.get(group.what, ()))
    ]
    phrased = (
        (each.turn, phrase)
        for each in own
        for group in usual
        if (phrase := group.find(each)) is not None
    )
    needed = stems(text)
    shared = ((turn, needed & said) for turn, said in spoken.items())
    worded = (
        (turn, " ".join(sorted(words)))
        for turn, words in shared
        if len(words) >= _ENOUGH_WORDS * len(needed)
    )
    places = phrased if usual else worded
    found = next(((turn, phrase) for turn, phrase in places if room[turn]), None)
    if found is None:
        return Fired(f"missing:{outcome}", "", max(spoken, default=0), Effect.LOWERS)
    turn, phrase = found
    room[turn] -= 1
    return Fired(f"met:{outcome}", phrase, turn, Effect.RAISES)
