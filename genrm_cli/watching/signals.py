"""The figures that are watched, what raises each of them, and what to do then."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from genrm_cli.metrics.verdict_counts import GroupedCount
from genrm_cli.scored.run_record import RunTotals
from genrm_cli.watching.canaries import CANARIES
from genrm_cli.watching.watched_records import WatchRecord

LEARNED_DUMPS = 20
"""Dumps whose figures are the baseline of signals without sentinels."""


@dataclass(frozen=True, slots=True)
class Signal:
    """A watched figure.

    Attributes:
        text: what has changed when it is raised, as a sentence without a full stop.
        advice: what to do then.
        can_stop: whether an honest policy cannot change it, so that it may say stop; others say
            look at most.
        count: takes the metrics of a run and what its watch found; returns the bad ones and all,
            which are tested against `floor`.
        mean: likewise, the value that is tested against that of the first dumps; None if it was
            not measured.
        floor: the rate that a sound judge does not exceed, which needs no baseline.
        is_two_sided: whether the others exceed that rate, too, if they are too many.
        shifts: of a rate: increases that matter.
        falls: of a mean: whether a fall matters, and not a rise.
        is_share: whether it is shown in percent.
    """

    text: str
    advice: str
    can_stop: bool = False
    count: Callable[[RunTotals, WatchRecord], GroupedCount] = lambda *_: GroupedCount()
    mean: Callable[[RunTotals, WatchRecord], float | None] = lambda *_: None
    floor: float | None = None
    is_two_sided: bool = False
    shifts: tuple[float, ...] = ()
    falls: bool = False
    is_share: bool = True


_FLOOR_SHIFTS = (0.05, 0.10, 0.20)  # increases of a share that cost rewards
_FLIP_SHIFTS = (0.04, 0.10, 0.25)
_ERROR_SHIFTS = (0.03, 0.06, 0.12)
_SEE_FAILURES = (
    "see which kinds of failure the summary counts; check the endpoint, its limits and the "
    "length of prompts"
)
# advice that several signals share
_LOOK_AT_GROUPS = "open the report of this dump and read the groups it names"


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _position(run: RunTotals) -> float | None:
    first = run.first_place_win_rate
    return None if first is None else max(first, 1 - first)


def _canary(name: str) -> Signal:
    return Signal(
        f"the harmless change {name!r} of a response wins",
        "the judge rewards the change itself: control for it, or use another judge",
        count=lambda _, watch: GroupedCount(*watch.canaries.get(name, ())),
        # A sound judge is indifferent to them; .55 allows for one that is nearly so.
        floor=0.55,
        shifts=(0.05, 0.15, 0.30),
    )


_CANARIES = {f"canary_{name}": _canary(name) for name in CANARIES}

SIGNALS: Mapping[str, Signal] = {
    # Retries leave a sound endpoint below 2 %; above 5 %, rewards lack verdicts that they need.
    "failures": Signal(
        "more than 2 % of the comparisons fail",
        _SEE_FAILURES,
        count=lambda run, _: run.failed_requests,
        floor=0.02,
        shifts=(0.01, 0.03, 0.10, 0.30),
    ),
    "outage": Signal(
        "more than 5 % of the comparisons fail",
        _SEE_FAILURES,
        can_stop=True,
        count=lambda run, _: run.failed_requests,
        floor=0.05,
        shifts=_FLOOR_SHIFTS,
    ),
    "sentinel_flips": Signal(
        "the judge departs from its own verdicts on the sentinels",
        "the judge behind the endpoint, its template or its sampling has changed: pin it, and "
        "score again from the first suspect dump; if the change was meant, acknowledge it",
        can_stop=True,
        shifts=_FLIP_SHIFTS,
    ),
    "sentinel_errors": Signal(
        "the judge is wrong on more sentinels",
        "the judge has become worse: pin the earlier one, and score again from the first suspect "
        "dump",
        can_stop=True,
        shifts=_ERROR_SHIFTS,
    ),
    "auditor_flips": Signal(
        "the auditor departs from its own verdicts on the sentinels",
        "the auditor has changed: acknowledge it, so that its baseline is taken again",
        shifts=_FLIP_SHIFTS,
    ),
    # Tested within strata of the judge's margin: a policy whose responses become alike lowers the
    # raw agreement in every honest training.
    "audits": Signal(
        "the auditor agrees less often with the judge, also where the judge is as sure as before",
        "either the policy has learned what pleases this judge, or its responses have become "
        "harder to tell apart: read pairs on which the two judges differ",
        shifts=_ERROR_SHIFTS,
    ),
    "audit_length": Signal(
        "the judge prefers longer responses more often than the auditor does",
        "read the longest winners on which they differ; control for length",
        mean=lambda _, watch: watch.audit_length,
        is_share=False,
    ),
    **_CANARIES,
    "reliability": Signal(
        "less of the spread of rewards is signal",
        "ask for more verdicts, or use finer rubrics",
        mean=lambda run, _: run.reliability.mean,
        falls=True,
        is_share=False,
    ),
    "spread": Signal(
        "rewards of a group differ less",
        "use harder prompts, or a finer rubric",
        mean=lambda run, _: run.reward.std,
        falls=True,
        is_share=False,
    ),
    # Half of the verdicts say nothing then.
    "ties": Signal(
        "the judge sees more ties",
        "ask for more verdicts, or use a finer rubric",
        count=lambda run, _: run.ties,
        mean=lambda run, _: run.tie_rate,
        floor=0.5,
        shifts=_FLOOR_SHIFTS,
    ),
    # Beyond .65, a pair shown in one order only is decided by the position in most cases.
    "position": Signal(
        "the judge prefers a position",
        "compare in both orders",
        count=lambda run, _: run.first_wins,
        mean=lambda run, _: _position(run),
        floor=0.65,
        is_two_sided=True,
        shifts=_FLOOR_SHIFTS,
    ),
    "length_effect": Signal(
        "longer responses gain more",
        "read the longest winners; control for length",
        mean=lambda run, _: run.length_effect.mean,
        is_share=False,
    ),
    "verdict_texts": Signal(
        "more responses contain text that looks like a verdict",
        _LOOK_AT_GROUPS,
        mean=lambda run, _: _share(run.neutralised, run.rollouts),
    ),
    "addressing": Signal(
        "more responses speak to the judge",
        _LOOK_AT_GROUPS,
        mean=lambda run, _: _share(run.addressed_judge, run.rollouts),
    ),
}

GAMES = {"length_effect", "audit_length", "verdict_texts", "addressing", *_CANARIES}
"""What a policy may have learned; together with less agreement of the auditor, it says that the
judge is gamed.
"""
