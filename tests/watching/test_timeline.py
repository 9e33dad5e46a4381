"""The state of a judge over many dumps."""

import random
from collections.abc import Iterable, Iterator

import pytest

from genrm_cli.metrics.verdict_counts import GroupedCount
from genrm_cli.watching.sentinels import BASELINE_RUNS
from genrm_cli.watching.signals import LEARNED_DUMPS, SIGNALS
from genrm_cli.watching.timeline import DumpFigures, DumpState, Timeline
from genrm_cli.watching.track import State
from genrm_cli.watching.watched_records import WatchRecord

USUAL = "+" * 80 + "-" * 15 + "=" * 5
ASKED = GroupedCount(1, 500)


def answers(drawn: random.Random, share: float = 0.0) -> str:
    """Return what a judge says of 100 sentinels, with a share of answers by chance."""
    return "".join(drawn.choice("+-") if drawn.random() < share else usual for usual in USUAL)


def watched(name: object, said: str | None) -> WatchRecord:
    """Return what watching found in one run."""
    return WatchRecord(sentinel_set="s", asked=str(name), sentinels=said)


def dumps(
    count: int, drawn: random.Random, share: float = 0.0, first: int = 0
) -> Iterator[DumpFigures]:
    """Yield dumps of a judge."""
    for number in range(first, first + count):
        yield DumpFigures(
            dump=f"dump-{number}",
            counts={"failures": ASKED},
            means={"length_effect": drawn.gauss(0.1, 0.03)},
            watch=watched(number, answers(drawn, share)),
        )


def grouped(bad: int, of: int, groups: int) -> GroupedCount:
    """Return equal groups."""
    counts = GroupedCount()
    for _ in range(groups):
        counts.add(bad, of)
    return counts


def after(timeline: Timeline, seen: Iterable[DumpFigures]) -> list[DumpState]:
    """Add dumps; return the states after them."""
    return [timeline.add(each) for each in seen]


def repeated(name: str, counts: GroupedCount, times: int) -> list[DumpFigures]:
    """Return dumps with the same counts of one signal."""
    return [
        DumpFigures(dump=str(number), counts={"failures": ASKED, name: counts})
        for number in range(times)
    ]


def test_an_unchanged_judge_is_blind_for_ten_runs_and_then_fine() -> None:
    """The baseline of sentinels is one answer of each of the first runs; until then, figures have
    no state.
    """
    judged = after(Timeline(), dumps(60, random.Random(1), 0.04))
    states = [each.state for each in judged]
    assert states == [State.BLIND] * (BASELINE_RUNS - 1) + [State.FINE] * (61 - BASELINE_RUNS)
    early = judged[1].signals["sentinel_flips"]
    assert early.state is State.BLIND
    assert early.usual is not None
    assert judged[0].reasons == ("no baseline yet: 1 of 10 runs of the sentinels, 1 of 20 dumps",)


def test_without_a_baseline_the_watch_says_blind() -> None:
    """Dumps without sentinels are fine only after the baseline of what costs nothing."""
    seen = [
        DumpFigures(dump=str(n), counts={"failures": ASKED}, means={"spread": 1.0 + n % 2})
        for n in range(30)
    ]
    judged = after(Timeline(), seen)
    told = LEARNED_DUMPS - 1
    assert [each.state for each in judged] == [State.BLIND] * told + [State.FINE] * (30 - told)
    spread = judged[1].signals["spread"]
    assert (spread.usual, spread.learned, spread.state) == (1.5, 2, State.BLIND)


def test_the_next_dumps_confirm_a_swapped_judge() -> None:
    """A third of the verdicts by chance is a look that names its start; dumps that say the same
    make it a stop.
    """
    drawn = random.Random(2)
    timeline = Timeline()
    after(timeline, dumps(12, drawn))
    judged = after(timeline, dumps(4, drawn, 0.35, first=12))
    pending = next(each for each in judged if each.signals["sentinel_flips"].is_pending)
    assert pending.state is State.LOOK
    assert any("becomes a stop" in reason for reason in pending.reasons)
    assert judged[-1].state is State.STOP
    assert judged[-1].signals["sentinel_flips"].since == "dump-12"


def test_one_bad_day_is_a_look_and_no_stop() -> None:
    """However far a single dump departs, the following ones withdraw the alarm."""
    drawn = random.Random(3)
    timeline = Timeline()
    after(timeline, dumps(12, drawn, 0.02))
    (bad,) = after(timeline, dumps(1, drawn, 1.0, first=12))
    judged = after(timeline, dumps(10, drawn, 0.02, first=13))
    assert bad.signals["sentinel_flips"].is_pending
    assert {each.state for each in judged} <= {State.LOOK, State.FINE}
    assert judged[-1].state is State.FINE


def test_a_stop_ends_when_later_dumps_refute_it() -> None:
    """The earlier judge is back after a long absence: after some dumps the state is fine again."""
    drawn = random.Random(4)
    timeline = Timeline()
    after(timeline, dumps(12, drawn))
    assert after(timeline, dumps(40, drawn, 0.35, first=12))[-1].state is State.STOP
    assert after(timeline, dumps(20, drawn, first=52))[-1].state is State.FINE


def test_an_acknowledged_change_begins_a_new_baseline() -> None:
    """The new judge is meant: its own runs are the baseline, and nothing is raised."""
    drawn = random.Random(5)
    timeline = Timeline()
    after(timeline, dumps(12, drawn))
    after(timeline, dumps(4, drawn, 1.0, first=12))
    timeline.acknowledge("sentinel_flips")
    said = answers(drawn, 1.0)
    new = (
        DumpFigures(dump=f"n{n}", counts={"failures": ASKED}, watch=watched(f"n{n}", said))
        for n in range(15)
    )
    judged = after(timeline, new)
    states = [each.signals["sentinel_flips"].state for each in judged]
    assert states == [State.BLIND] * BASELINE_RUNS + [State.FINE] * (15 - BASELINE_RUNS)
    assert judged[-1].state is State.FINE


def test_other_sentinels_begin_a_new_baseline() -> None:
    """A longer file of sentinels, with which the first run fails, compares nothing with the old
    verdicts.
    """
    timeline = Timeline()
    after(timeline, dumps(10, random.Random(10)))
    for number, said in enumerate(["?" * 120, USUAL + "+" * 20]):
        watch = WatchRecord(sentinel_set="longer", asked=f"n{number}", sentinels=said)
        judged = timeline.add(DumpFigures(dump="d", counts={"failures": ASKED}, watch=watch))
        flips = judged.signals["sentinel_flips"]
        assert (flips.learned, flips.value, judged.state) == (number, None, State.BLIND)


def test_dumps_of_one_run_count_its_sentinels_once() -> None:
    """Eight dumps share one pass over the sentinels: the evidence is that of one."""
    drawn = random.Random(6)
    timeline = Timeline()
    after(timeline, dumps(10, drawn))
    (changed,) = dumps(1, drawn, 0.2, first=10)
    judged = after(timeline, [changed] * 8)
    evidence = [each.signals["sentinel_flips"].log_evidence for each in judged]
    assert evidence[-1] == evidence[0] is not None


def test_a_floor_is_a_test_and_no_point_estimate() -> None:
    """15 of 20 first places may be chance. Three of four in 100 groups are not, on either side."""
    for first in (15, 5):
        (few,) = after(Timeline(), repeated("position", grouped(first, 20, 1), 1))
        assert few.signals["position"].state is State.FINE
        many = after(Timeline(), repeated("position", grouped(first, 20, 100), 1))[-1]
        position = many.signals["position"]
        assert (position.state, position.value) == (State.LOOK, 0.75)
        assert position.interval == pytest.approx((0.73, 0.77), abs=0.01)


def test_groups_that_differ_weaken_the_evidence_for_a_floor() -> None:
    """The same share from groups that all tie or never do says less than from equal groups."""
    split = GroupedCount()
    for group in range(10):
        split.add(20 if group % 10 < 7 else 0, 20)
    equal, uneven = (
        after(Timeline(), repeated("ties", counts, 1))[-1].signals["ties"]
        for counts in (grouped(14, 20, 10), split)
    )
    assert equal.value == uneven.value == 0.7
    assert (equal.state, uneven.state) == (State.LOOK, State.FINE)


@pytest.mark.parametrize(
    ("name", "bad", "worse"), [("position", 15, 19), ("ties", 13, 17), ("outage", 5, 12)]
)
def test_an_acknowledged_floor_is_silent_until_the_share_grows(
    name: str, bad: int, worse: int
) -> None:
    """An acknowledgement accepts the share that the judge has, and no larger one."""
    timeline = Timeline()
    counts = grouped(bad, 20, 100)
    assert after(timeline, repeated(name, counts, 3))[-1].state.is_alarm
    timeline.acknowledge(name)
    quiet = after(timeline, repeated(name, counts, 100))
    assert {each.signals[name].state for each in quiet} == {State.FINE}
    again = after(timeline, repeated(name, grouped(worse, 20, 100), 2))
    assert again[-1].signals[name].state.is_alarm


def test_failures_stop_when_they_exceed_five_percent_beyond_chance() -> None:
    """Half of 500 comparisons fail: a stop at once. 30 of 500 are a look, as 3 % may be the
    truth.
    """
    for failed, state in ((250, State.STOP), (30, State.LOOK), (5, State.BLIND)):
        counts = {name: GroupedCount(failed, 500) for name in ("failures", "outage")}
        (judged,) = after(Timeline(), [DumpFigures(dump="d", counts=counts)])
        assert judged.state is state


def test_an_outlier_dump_raises_nothing() -> None:
    """A figure that is ten deviations off in every tenth dump has no new mean."""
    drawn = random.Random(7)
    seen = [
        DumpFigures(
            dump=str(n),
            counts={"failures": ASKED},
            means={"length_effect": drawn.gauss(0.1, 0.05) + 0.5 * (n >= 30 and n % 10 == 0)},
        )
        for n in range(100)
    ]
    judged = after(Timeline(), seen)
    assert {each.signals["length_effect"].state for each in judged[30:]} == {State.FINE}


@pytest.mark.parametrize("name", [name for name, signal in SIGNALS.items() if not signal.shifts])
def test_figures_that_an_honest_policy_changes_say_look_at_most(name: str) -> None:
    """However far a figure moves that costs nothing, it stops nothing."""
    drawn = random.Random(8)
    timeline = Timeline()
    worse = -0.5 if SIGNALS[name].falls else 0.5
    for number in range(80):
        value = 0.5 + drawn.gauss(0, 0.02) + (worse if number >= 40 else 0.0)
        judged = timeline.add(
            DumpFigures(dump=str(number), counts={"failures": ASKED}, means={name: value})
        )
    assert judged.state is State.LOOK
    assert judged.signals[name].state is State.LOOK


def test_a_changed_auditor_is_not_the_policys_fault() -> None:
    """When the auditor departs from its own verdicts, its disagreement with the judge accuses
    nobody.
    """
    drawn = random.Random(9)
    timeline = Timeline()
    for number in range(60):
        share = 0.5 if number >= 40 else 0.0
        bad = sum(drawn.random() < 0.2 + share / 2 for _ in range(200))
        judged = timeline.add(
            DumpFigures(
                dump=str(number),
                counts={"failures": ASKED},
                watch=WatchRecord(
                    audits=((bad, 200),),
                    sentinel_set="s",
                    asked=str(number),
                    sentinels=USUAL,
                    auditor_sentinels=answers(drawn, share),
                ),
            )
        )
    assert judged.signals["auditor_flips"].state is State.LOOK
    assert not any("policy" in reason for reason in judged.reasons)
