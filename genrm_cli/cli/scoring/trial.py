"""`genrm score --quick`: what a trial on a few groups recommends for the whole run.

The trial asks in the mode that the user gave. A judge that could also be asked in the other mode is
asked about some of the groups in that one, too. The modes are compared by what they cost for the
same reliability: the trial shows the noise of both, not whether the judge is right."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from genrm_cli.cli.console import flag_of, range_text, say, text_of
from genrm_cli.cli.options import run_to_end
from genrm_cli.cli.scoring.summary import interval_text
from genrm_cli.errors import GenrmError, InputError, UsageError, counted
from genrm_cli.metrics.group_measures import reliability_word
from genrm_cli.metrics.plan_reliability import (
    LISTS,
    predicted_reliability,
    remedy_text,
    typical_size,
    unmeasured_text,
)
from genrm_cli.settings import Settings, changed

if TYPE_CHECKING:
    from genrm_cli.jobs.previews.preview import Preview
    from genrm_cli.scored.run_record import RunRecord

# Enough for an interval of the reliability that tells a good judge from a poor one.
_GROUPS = 30
# Of the other mode: its verdicts are lost if the mode is not chosen.
_OTHER_GROUPS = 10
# What the count of each setting is called in a recommendation.
_COUNTED = {"ring_k": "rings", "repeats": "repeats"}
# The fewest rings, or orders of a list, in which verdicts on a group repeat and so show noise.
_REPEATED = 2


def trial_settings(settings: Settings, groups: int = _GROUPS) -> Settings:
    """Return the settings of a trial, which asks often enough to measure the judge's noise."""
    if settings.output.dry_run:
        raise UsageError("--quick makes calls: omit --dry-run.")
    pairing = settings.pairing
    more: dict[str, float] = {"repeats": max(_REPEATED, pairing.repeats)}
    if settings.judge.judging == "pairwise":
        more = {"ring_k": max(_REPEATED, pairing.ring_k)}
    return changed(settings, limit=min(groups, settings.limits.limit or groups), **more)


@dataclass(frozen=True, slots=True)
class _ModeTrial:
    """One mode of the judge, tried on some groups.

    Attributes:
        settings: those of the whole run in this mode, with the expected count.
        counts: rings or repeats for reliable rewards: at best, as expected, at worst; empty where
            the trial does not tell.
    """

    settings: Settings
    record: "RunRecord"
    counts: tuple[float, ...] = ()

    @classmethod
    def of(cls, settings: Settings, record: "RunRecord") -> "_ModeTrial":
        """Read what a trial says about the whole run."""
        needed = record.rings_needed
        word = reliability_word(record.reliability_interval)
        is_counted = record.strategy in ("ring", LISTS)
        if needed is None or needed.expected is None or word == "unknown" or not is_counted:
            return cls(settings, record)
        # Infinite where all pairs, or the most repeats, would not be enough.
        ends = (needed.at_best or 1.0, needed.expected, needed.at_worst or float("inf"))
        counts = tuple(max(1.0, each) for each in ends)
        return cls(settings, record, counts).with_count(counts[1])

    def with_count(self, count: float) -> "_ModeTrial":
        """Return the trial with another expected count."""
        needed = self.record.rings_needed
        name = "ring_k" if needed is None else needed.setting
        value = int(count) if name == "repeats" else count
        counts = self.counts and (self.counts[0], count, self.counts[2])
        return replace(self, settings=changed(self.settings, **{name: value}), counts=counts)

    @property
    def mode(self) -> str:
        """The value of `judging`."""
        return self.settings.judge.judging

    @property
    def groups(self) -> str:
        """The number of groups tried, with its noun."""
        return counted(self.record.groups - self.record.groups_left_out, "group")

    def spent(self, uri: str, keys: Mapping[str, str]) -> list[float]:
        """Return the cost of the whole run for each of the counts; in tokens without prices."""
        plan = _preview(uri, changed(self.settings, use_journal=False), keys).plan
        expected = plan.tokens_in + plan.tokens_out if plan.cost is None else plan.cost
        # It grows with rings or repeats, so one estimate is enough.
        return [expected * count / self.counts[1] for count in self.counts]


def recommend(
    record: "RunRecord", uri: str, settings: Settings, keys: Mapping[str, str]
) -> dict[str, str]:
    """Say what the trial recommends for the whole run, and return the sentences by what they are
    about; blocks.

    Args:
        record: of the trial.
        settings: those of the whole run, as the user gave them.
    """
    trial = _ModeTrial.of(settings, record)
    advice = {"mode": f"{trial.mode}, as in the trial"}
    other_mode = _preview(uri, settings, keys).other_mode
    if other_mode is not None:
        trial, advice["mode"] = _choose_mode(trial, other_mode[0], uri, keys)
    needed = trial.record.rings_needed
    if needed is not None:
        expected = getattr(trial.settings.pairing, needed.setting)
        most = trial.counts[2] if trial.counts else expected
        tried = getattr(trial.record, needed.setting) or 0
        is_covered = not trial.record.groups_left_out and tried > expected
        if is_covered:
            # Verdicts on all groups are paid, and fewer may not show the judge's noise again.
            trial = trial.with_count(tried)
            expected = tried
        worst = "more than the most" if most == float("inf") else f"{most:g}"
        sure = "" if most <= expected else f" as expected, {worst} to be sure"
        if trial.counts or is_covered:
            advice[_COUNTED[needed.setting]] = f"{flag_of(needed.setting)} {expected:g}{sure}"
    advice["reliability"] = _reliability_text(trial)
    advice["cost"] = _preview(uri, trial.settings, keys).plan.text()
    lines = (f"  {name:<12} {text}" for name, text in advice.items())
    say("the trial recommends for the whole run:", *lines)
    return advice


def _choose_mode(
    trial: _ModeTrial, mode: str, uri: str, keys: Mapping[str, str]
) -> tuple[_ModeTrial, str]:
    """Try the other mode, too; return the trial of the mode to take, and why."""
    say(f"trying --judging {mode} on up to {counted(_OTHER_GROUPS, 'group')}")
    as_given = f"{trial.mode}, as in the trial"
    try:
        other = _try_mode(trial, mode, uri, keys)
    except GenrmError as error:
        return trial, f"{as_given}; {mode} failed: {text_of(error)}"
    for each in (other, trial):
        if not each.counts:
            return trial, f"{as_given}; what {each.mode} needs is unknown from {each.groups}"
    (of_cheaper, cheaper), (of_dearer, dearer) = sorted(
        ((each.spent(uri, keys), each) for each in (trial, other)), key=lambda pair: pair[0][1]
    )
    if of_cheaper[2] >= of_dearer[0]:
        return trial, f"{as_given}; {other.groups} do not show whether {mode} costs less"
    limits = trial.settings.limits
    unit = "" if limits.price_in or limits.price_out else " tokens"
    return cheaper, (
        f"--judging {cheaper.mode}, at most {of_cheaper[2]:,.4g}{unit} for reliable rewards, where "
        f"{dearer.mode} takes {of_dearer[0]:,.4g} or more; genrm eval --compare-modes measures "
        "which is right more often"
    )


def _try_mode(trial: _ModeTrial, mode: str, uri: str, keys: Mapping[str, str]) -> _ModeTrial:
    """Ask about some groups in another mode. Only its verdicts are kept, in the same journal."""
    from genrm_cli.jobs.context import new_run
    from genrm_cli.jobs.input_batch import BatchReport, score_inputs

    settings = changed(
        trial.settings, judging=mode, both_orders=False, goal="rewards", ring_k=1.0, repeats=1
    )
    with TemporaryDirectory(prefix="genrm-trial-") as folder:
        tried = changed(
            trial_settings(settings, _OTHER_GROUPS),
            output=f"{folder}/trial.scored.jsonl",
            journal=trial.record.journal,
            probe=False,
            max_unscored=1.0,
        )
        report = BatchReport(alone=True)
        run_to_end(score_inputs([uri], new_run(tried, keys), report=report))
    if report.only_error is not None:
        raise report.only_error
    if report.last is None or report.last.record is None:
        raise InputError("nothing was scored.")
    return _ModeTrial.of(settings, report.last.record)


def _reliability_text(trial: _ModeTrial) -> str:
    """Return the reliability that the whole run is expected to have, or why it is unknown."""
    from genrm_cli.groups.compile import compile_plan

    record = trial.record
    mean = record.reliability.mean
    interval = record.reliability_interval
    needed = record.rings_needed
    n = typical_size({int(size): count for size, count in record.group_sizes.items()})
    if mean is None or interval is None:
        sizes = map(int, record.group_sizes)
        return f"unknown: {unmeasured_text(sizes, record.strategy, record.repeats, flag_of)}"
    found = f"{mean:.2f}{interval_text(interval)} in {trial.groups} of the trial"
    if reliability_word(interval) == "unknown":
        return f"unknown: {found} says little"
    if needed is None or n is None or not trial.counts:
        remedy = remedy_text(needed, mean, flag_of, is_panel=record.panel is not None)
        return f"{found}: {remedy}"
    if needed.setting == "repeats":
        # Source: Spearman and Brown, as for `repeats_needed`.
        factor = trial.counts[1] / record.repeats
        ends = [factor * each / (1 + (factor - 1) * each) for each in (mean, *interval)]
    else:
        plan = compile_plan(trial.settings).pairing
        tried = replace(plan, ring_k=record.ring_k or plan.ring_k)
        ends = [predicted_reliability(tried, plan, n, each) for each in (mean, *interval)]
    expected, low, high = ends
    return f"{expected:.2f} ({range_text(low, high, '.2f', unit=1)}) expected; {found}"


def _preview(uri: str, settings: Settings, keys: Mapping[str, str]) -> "Preview":
    """Return what a whole run would ask, less what its journal has."""
    from genrm_cli.groups.check import check_settings
    from genrm_cli.jobs.context import new_run
    from genrm_cli.jobs.previews.preview import iter_previews

    check_settings(settings)
    [found] = iter_previews([uri], new_run(settings, keys))
    if isinstance(found, GenrmError):
        raise InputError(found.message)
    return found
