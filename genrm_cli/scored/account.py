"""The account of a run: what was asked and answered, what has a reward, and how far to trust it.

Summary, report, export and JSON take it from here, so they never differ.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Protocol

from msgspec import Struct

from genrm_cli.errors import counted
from genrm_cli.metrics.group_measures import RELIABILITY, reliability_word
from genrm_cli.metrics.half_plans import HalfPlanSummary
from genrm_cli.metrics.plan_reliability import LISTS, remedy_text, unknown_text, unmeasured_text
from genrm_cli.metrics.run_metrics import MOST_FAILING
from genrm_cli.scored.run_record import RunTotals, TrainOnIt
from genrm_cli.scored.trust import facts_of_totals, judge_trust

_NOT_ASKED = "not_asked"
_FAILING_FROM = 0.01  # share of failed requests from which texts are named


class ResultCounts(Protocol):
    """The counts of comparisons that a running and a finished run have."""

    @property
    def verdicts(self) -> int:
        """Comparisons that the judge answered in this run."""

    @property
    def journal_hits(self) -> int:
        """Comparisons that an earlier run knows."""

    @property
    def failures_by_kind(self) -> Mapping[str, int]:
        """Comparisons without a verdict, by cause."""


def results_text(counts: ResultCounts) -> str:
    """Return the results of comparisons. A comparison that was not asked is no failure."""
    failures = {**counts.failures_by_kind}
    not_asked = failures.pop(_NOT_ASKED, 0)
    parts = [counted(counts.verdicts, "verdict")]
    if counts.journal_hits:
        parts.append(f"{counts.journal_hits:,} reused from an earlier run")
    parts.append(counted(sum(failures.values()), "failure"))
    if not_asked:
        parts.append(f"{not_asked:,} not asked")
    return ", ".join(parts)


class RunAccount(Struct, frozen=True):
    """The account of a run over one input or many.

    Attributes:
        comparisons: with a verdict, a failure, or not asked; those that replaced failed ones are
            among them.
        answered: comparisons with a verdict, of this run or an earlier one.
        failed: comparisons without one, by cause.
        failing: the rollouts with most failed requests, with their cause; few texts with most of
            them have a cause of their own. None if hardly any request failed.
        replaced: comparisons beyond the plan, which replaced failed ones.
        unscored: rollouts without a reward, by reason.
        figure: what the judge's consistency is called: repeatability for lists.
        reliability: mean over groups; None if unknown. `interval` is that of 95 %.
        found: the reliability with its interval, as in `0.83 (0.78 to 0.87)`; `-` if unknown.
        halves: the reliability by the agreement of two halves of the verdicts, which assumes
            nothing of the judge; empty if unknown.
        word: `high`, `fair`, `low` or `unknown`.
        advice: why it is unknown, or what would make it high; empty for `high`.
        contradiction: what follows if the halves are surely lower; empty if they are not.
        train: whether to train on the rewards: `yes`, `with care`, `no` or `unknown`; `because`
            are the reasons for anything but yes.
    """

    comparisons: int
    answered: int
    failed: Mapping[str, int]
    failing: tuple[str, ...]
    not_asked: int
    replaced: int
    calls: int
    scored: int
    unscored: Mapping[str, int]
    figure: str
    reliability: float | None
    interval: tuple[float, float] | None
    found: str
    halves: str
    word: str
    advice: str
    contradiction: str
    train: TrainOnIt
    because: tuple[str, ...]

    @classmethod
    def of(cls, totals: RunTotals) -> "RunAccount":
        """Return the account of the totals of a run."""
        failed = {**totals.failures_by_kind}
        not_asked = failed.pop(_NOT_ASKED, 0)
        is_lists = totals.strategy == LISTS
        ends = totals.reliability_interval
        interval = None if ends is None else (ends[0], ends[1])
        mean = totals.reliability.mean
        word = reliability_word(interval, of_lists=is_lists)
        word = "unknown" if mean is None else word
        halves = totals.half_plans
        said = {
            "figure": "repeatability" if is_lists else "reliability",
            "found": RELIABILITY.text(mean, *(interval or (None, None))),
            "halves": "" if halves is None else f"by {halves.text()}",
            "word": word,
            "advice": _advice(totals, word),
            "contradiction": _contradiction(halves, interval),
        }
        facts = facts_of_totals(totals, said)
        trust = judge_trust(facts, has_comparisons=True)
        return cls(
            comparisons=totals.comparisons_planned,
            answered=totals.verdicts + totals.journal_hits,
            failed=failed,
            failing=tuple(_failing(totals)),
            not_asked=not_asked,
            replaced=totals.extra_comparisons,
            calls=totals.calls,
            scored=totals.scored + totals.single,
            unscored=totals.unscored_reasons,
            reliability=mean,
            interval=interval,
            **said,
            train=trust.word,
            because=trust.because,
        )

    @property
    def done_text(self) -> str:
        """The share of the comparisons that were asked, for a run that has not ended."""
        done = self.comparisons - self.not_asked
        share = done / self.comparisons if self.comparisons else 1.0
        # Rounded down: what is not all is never 100 %.
        percent = math.floor(1_000 * share) / 10
        return (
            f"this run has not ended: {done:,} of {self.comparisons:,} comparisons are judged "
            f"({percent:.1f} %)"
        )

    @property
    def failures(self) -> int:
        """Comparisons that failed, whatever the cause."""
        return sum(self.failed.values())


def _failing(totals: RunTotals) -> Iterator[str]:
    requests = totals.failed_requests
    if not requests.count or requests.count < _FAILING_FROM * requests.of:
        return
    ranked = sorted(totals.failing_texts.items(), key=lambda each: (-each[1].failed, each[0]))
    for name, text in ranked[:MOST_FAILING]:
        yield f"{name}: {text.failed} of {text.of} requests, {text.cause}"


def _contradiction(halves: HalfPlanSummary | None, interval: tuple[float, float] | None) -> str:
    if halves is None or interval is None or not halves.contradicts(interval):
        return ""
    return (
        "Two halves of the verdicts agree less than this reliability says: the errors of this "
        "judge are not independent, so believe the lower figure"
    )


def _advice(totals: RunTotals, word: str) -> str:
    mean = totals.reliability.mean
    if totals.goal != "rewards":
        return f"verdicts chose the pairs ({_flag_of('goal')} {totals.goal})"
    if mean is None:
        sizes = map(int, totals.group_sizes)
        return unmeasured_text(sizes, totals.strategy, totals.repeats, _flag_of)
    if word == "unknown":
        return unknown_text(totals.strategy, totals.ring_k, _flag_of)
    if word == "high":
        return ""
    if word == "fair" and totals.strategy == LISTS:
        return "it says how well the judge repeats itself, not whether it is right"
    is_panel = totals.panel is not None
    return remedy_text(totals.rings_needed, mean, _flag_of, is_panel=is_panel)


def _flag_of(name: str) -> str:
    # One form for all who read an account: summary, report, manifest, trackers and `--json`.
    return f"--{name.replace('_', '-')}"
