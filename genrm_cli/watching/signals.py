"""The figures that are watched, what raises each of them, and what to do then."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from genrm_cli.metrics.verdict_counts import GroupedCount
from genrm_cli.scored.run_record import RunTotals
from genrm_cli.watching.canaries import CANARIES
from genrm_cli.watching.evidence import RateNull

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
        null: the rate that a sound judge does not exceed, which needs no baseline. A figure of
            `MEANS` may have one beside its baseline.
        is_two_sided: whether the others exceed that rate, too, if they are too many.
        shifts: of a rate with a baseline: increases that matter.
        falls: of a mean: whether a fall matters, and not a rise.
        is_share: whether it is shown in percent.
    """

    text: str
    advice: str
    can_stop: bool = False
    null: RateNull | None = None
    is_two_sided: bool = False
    shifts: tuple[float, ...] = ()
    falls: bool = False
    is_share: bool = True


_FLOOR_SHIFTS = (0.05, 0.10, 0.20)  # increases of a share that cost rewards
_SEE_FAILURES = (
    "see which kinds of failure the summary counts; check the endpoint, its limits and the "
    "length of prompts"
)
# advice that several signals share
_LOOK_AT_GROUPS = "open the report of this dump and read the groups it names"
SIGNALS: Mapping[str, Signal] = {
    # Retries leave a sound endpoint below 2 %; above 5 %, rewards lack verdicts that they need.
    "failures": Signal(
        "more than 2 % of the comparisons fail",
        _SEE_FAILURES,
        null=RateNull(0.02, (0.01, 0.03, 0.10, 0.30)),
    ),
    "outage": Signal(
        "more than 5 % of the comparisons fail",
        _SEE_FAILURES,
        can_stop=True,
        null=RateNull(0.05, _FLOOR_SHIFTS),
    ),
    "sentinel_flips": Signal(
        "the judge departs from its own verdicts on the sentinels",
        "the judge behind the endpoint, its template or its sampling has changed: pin it, and "
        "score again from the "
        "first suspect dump; if the change was meant, acknowledge it",
        can_stop=True,
        shifts=(0.04, 0.10, 0.25),
    ),
    "sentinel_errors": Signal(
        "the judge is wrong on more sentinels",
        "the judge has become worse: pin the earlier one, and score again from the first suspect "
        "dump",
        can_stop=True,
        shifts=(0.03, 0.06, 0.12),
    ),
    "auditor_flips": Signal(
        "the auditor departs from its own verdicts on the sentinels",
        "the auditor has changed: acknowledge it, so that its baseline is taken again",
        shifts=(0.04, 0.10, 0.25),
    ),
    # Tested within strata of the judge's margin: a policy whose responses become alike lowers the
    # raw agreement in every honest training.
    "audits": Signal(
        "the auditor agrees less often with the judge, also where the judge is as sure as before",
        "either the policy has learned what pleases this judge, or its responses have become "
        "harder to tell apart: "
        "read pairs on which the two judges differ",
        shifts=(0.03, 0.06, 0.12),
    ),
    "audit_length": Signal(
        "the judge prefers longer responses more often than the auditor does",
        "read the longest winners on which they differ; control for length",
        is_share=False,
    ),
    # A sound judge is indifferent to them; .55 allows for one that is nearly so.
    **{
        f"canary_{name}": Signal(
            f"the harmless change {name!r} of a response wins",
            "the judge rewards the change itself: control for it, or use another judge",
            null=RateNull(0.55, (0.05, 0.15, 0.30)),
        )
        for name in CANARIES
    },
    "reliability": Signal(
        "less of the spread of rewards is signal",
        "ask for more verdicts, or use finer rubrics",
        falls=True,
        is_share=False,
    ),
    "spread": Signal(
        "rewards of a group differ less",
        "use harder prompts, or a finer rubric",
        falls=True,
        is_share=False,
    ),
    # Half of the verdicts say nothing then.
    "ties": Signal(
        "the judge sees more ties",
        "ask for more verdicts, or use a finer rubric",
        null=RateNull(0.5, _FLOOR_SHIFTS),
    ),
    # Beyond .65, a pair shown in one order only is decided by the position in most cases.
    "position": Signal(
        "the judge prefers a position",
        "compare in both orders",
        null=RateNull(0.65, _FLOOR_SHIFTS),
        is_two_sided=True,
    ),
    "length_effect": Signal(
        "longer responses gain more",
        "read the longest winners; control for length",
        is_share=False,
    ),
    "verdict_texts": Signal(
        "more responses contain text that looks like a verdict", _LOOK_AT_GROUPS
    ),
    "addressing": Signal("more responses speak to the judge", _LOOK_AT_GROUPS),
}


GAMES = (
    "length_effect",
    "audit_length",
    "verdict_texts",
    "addressing",
    *(f"canary_{name}" for name in CANARIES),
)
"""What a policy may have learned; together with less agreement of the auditor, it says that the
judge is gamed.
"""


COUNTS: Mapping[str, Callable[[RunTotals], GroupedCount]] = {
    "failures": lambda run: run.failed_requests,
    "outage": lambda run: run.failed_requests,
    "ties": lambda run: run.ties,
    "position": lambda run: run.first_wins,
}
"""The counts of a run that are tested against the null of their signal."""


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


MEANS: Mapping[str, Callable[[RunTotals], float | None]] = {
    "reliability": lambda run: run.reliability.mean,
    "spread": lambda run: run.reward.std,
    "position": lambda run: (
        None if (first := run.first_place_win_rate) is None else max(first, 1 - first)
    ),
    "ties": lambda run: run.tie_rate,
    "length_effect": lambda run: run.length_effect.mean,
    "verdict_texts": lambda run: _share(run.neutralised, run.rollouts),
    "addressing": lambda run: _share(run.addressed_judge, run.rollouts),
}
"""The figures that a run has measured anyway; None where it has not."""
