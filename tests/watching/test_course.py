"""The state of a judge over many dumps."""

import random
from collections.abc import Iterable, Iterator

import pytest

from genrm_cli.scored.run_record import WatchRecord
from genrm_cli.watching.course import Course, Judgement, Observation, State
from genrm_cli.watching.signals import LEARNED_DUMPS, SIGNALS

USUAL = "+" * 80 + "-" * 15 + "=" * 5


def sentinels(drawn: random.Random, share: float = 0.0) -> str:
    """Return what a judge says of 100 sentinels, with a share of answers by chance."""
    return "".join(drawn.choice("+-") if drawn.random() < share else usual for usual in USUAL)


def dumps(
    count: int, drawn: random.Random, share: float = 0.0, first: int = 0, again: bool = False
) -> Iterator[Observation]:
    """Yield dumps of a judge; the very first one has the baseline of the sentinels."""
    for number in range(first, first + count):
        asked = 5 if not number else 1
        yield Observation(
            dump=f"dump-{number}",
            counts={"failures": (1, 500)},
            means={"length_effect": drawn.gauss(0.1, 0.03)},
            watch=WatchRecord(
                sentinel_set="s",
                asked=str(number),
                sentinels=tuple(sentinels(drawn, share) for _ in range(asked)),
                sentinels_again=tuple(sentinels(drawn, share) for _ in range(2)) if again else (),
            ),
        )


def after(course: Course, seen: Iterable[Observation]) -> list[Judgement]:
    """Add dumps; return the states after them."""
    return [course.add(each) for each in seen]


def test_an_unchanged_judge_is_fine_from_the_first_day() -> None:
    """Sentinels that were asked about five times arm the watch at once; 60 dumps raise nothing."""
    judged = after(Course(), dumps(60, random.Random(1), 0.02))
    assert {each.state for each in judged} == {State.FINE}


def test_without_a_baseline_the_watch_says_blind() -> None:
    """Dumps without sentinels are fine only after the baseline of what costs nothing."""
    seen = [
        Observation(dump=str(n), counts={"failures": (0, 500)}, means={"spread": 1.0})
        for n in range(30)
    ]
    judged = after(Course(), seen)
    assert [each.state for each in judged] == [State.BLIND] * (LEARNED_DUMPS - 1) + [State.FINE] * (
        31 - LEARNED_DUMPS
    )
    assert judged[0].reasons == (f"no baseline yet: 1 of {LEARNED_DUMPS} dumps",)


def test_a_swapped_judge_is_a_look_until_fresh_calls_confirm_it() -> None:
    """A third of the verdicts by chance: evidence for a stop, which takes calls that were made to
    confirm it.
    """
    drawn = random.Random(2)
    course = Course()
    after(course, dumps(10, drawn))
    (doubted,) = after(course, dumps(1, drawn, 0.35, first=10))
    assert doubted.state is State.LOOK
    assert {"sentinel_flips", "sentinel_errors"} & doubted.wants_confirmation
    (confirmed,) = after(course, dumps(1, drawn, 0.35, first=11, again=True))
    assert confirmed.state is State.STOP
    assert confirmed.signals["sentinel_flips"].since == "dump-10"


def test_an_alarm_ends_when_later_dumps_refute_it() -> None:
    """The earlier judge is back: after some dumps the state is fine again."""
    drawn = random.Random(3)
    course = Course()
    after(course, dumps(10, drawn))
    after(course, dumps(2, drawn, 0.35, first=10, again=True))
    judged = after(course, dumps(30, drawn, first=12))
    assert judged[0].state is State.STOP
    assert judged[-1].state is State.FINE


def test_an_acknowledged_change_begins_a_new_baseline() -> None:
    """The new judge is meant: its own five runs are the baseline, and it is fine."""
    drawn = random.Random(4)
    course = Course()
    after(course, dumps(10, drawn))
    after(course, dumps(3, drawn, 1.0, first=10, again=True))
    course.acknowledge("sentinel_flips")
    said = sentinels(drawn, 1.0)
    new = [
        Observation(
            dump=f"n{n}",
            counts={"failures": (0, 500)},
            watch=WatchRecord(sentinel_set="s", asked=f"n{n}", sentinels=(said,) * 5),
        )
        for n in range(10)
    ]
    assert after(course, new)[-1].signals["sentinel_flips"].state is State.FINE


def test_a_history_without_its_first_dumps_is_read() -> None:
    """Dumps with verdicts that confirmed an alarm, but without the baseline of that alarm: nothing
    is raised.
    """
    judged = after(Course(), dumps(2, random.Random(8), 0.35, first=10, again=True))
    assert {each.state for each in judged} == {State.BLIND}


def test_dumps_of_one_run_count_its_sentinels_once() -> None:
    """Eight dumps share one pass over the sentinels: the evidence is that of one."""
    drawn = random.Random(5)
    alone = Course()
    many = Course()
    first = list(dumps(5, drawn))
    changed = next(dumps(1, drawn, 0.2, first=5))
    for course, times in ((alone, 1), (many, 8)):
        after(course, first)
        judged = after(course, [changed] * times)
        evidence = judged[-1].signals["sentinel_flips"].log_evidence
        assert evidence == judged[0].signals["sentinel_flips"].log_evidence


def test_failures_above_five_percent_stop_at_once() -> None:
    """Nobody waits for a baseline when a twentieth of the calls fail."""
    (judged,) = after(Course(), [Observation(dump="d", counts={"failures": (30, 500)})])
    assert judged.state is State.STOP


@pytest.mark.parametrize(
    "name", [name for name, signal in SIGNALS.items() if not signal.shifts and not signal.null]
)
def test_figures_that_an_honest_policy_changes_say_look_at_most(name: str) -> None:
    """However far a figure moves that costs nothing, it stops nothing."""
    drawn = random.Random(6)
    course = Course()
    worse = -0.5 if SIGNALS[name].falls else 0.5
    for number in range(60):
        value = 0.5 + drawn.gauss(0, 0.02) + (worse if number >= 40 else 0.0)
        judged = course.add(
            Observation(dump=str(number), counts={"failures": (0, 500)}, means={name: value})
        )
    assert judged.state is State.LOOK
    assert judged.signals[name].state is State.LOOK


def test_a_changed_auditor_is_not_the_policys_fault() -> None:
    """When the auditor departs from its own verdicts, its disagreement with the judge accuses
    nobody.
    """
    drawn = random.Random(7)
    course = Course()
    for number in range(60):
        share = 0.5 if number >= 40 else 0.0
        bad = sum(drawn.random() < 0.2 + share / 2 for _ in range(200))
        judged = course.add(
            Observation(
                dump=str(number),
                counts={"failures": (0, 500)},
                watch=WatchRecord(
                    audits=((bad, 200),),
                    sentinel_set="s",
                    asked=str(number),
                    sentinels=(USUAL,) * (1 if number else 5),
                    auditor_sentinels=tuple(
                        sentinels(drawn, share) for _ in range(1 if number else 5)
                    ),
                ),
            )
        )
    assert judged.signals["auditor_flips"].state is State.LOOK
    assert not any("policy" in reason for reason in judged.reasons)
