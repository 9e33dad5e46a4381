"""`genrm score --quick`: what a trial on a few groups recommends for the whole run.

The trial asks in the mode that the user gave. A judge that could also be asked in the other mode is
asked about some of the groups in that one, too. The trial shows the noise of both and whether they
agree, not which of them is right. It ends with the command of the whole run."""

import shlex
from collections.abc import Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.cli.console import flag_of, say, text_of
from genrm_cli.cli.options import run_to_end
from genrm_cli.cli.scoring.next_command import next_command, score_command
from genrm_cli.errors import GenrmError, InputError, counted
from genrm_cli.metrics.group_measures import RELIABILITY
from genrm_cli.metrics.plan_reliability import (
    LISTS,
    predicted_reliability,
    remedy_text,
    typical_size,
    unmeasured_text,
)
from genrm_cli.metrics.running_stats import Estimated
from genrm_cli.rewards.estimators.calibration import MIN_DISJOINT_FOR_NOISE
from genrm_cli.rewards.estimators.mode_agreement import AGREEMENT, DISAGREE_BELOW, mode_agreement
from genrm_cli.settings import Settings, changed
from genrm_cli.settings.resolve import Origin

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
_TELLING = 1.5  # rings, of which small groups in small numbers show noise, too
# Another mode must cost less than this share: ten groups know its count poorly.
_WORTHWHILE = 2 / 3

Keys = Mapping[str, str]


def trial_settings(settings: Settings, groups: int = _GROUPS) -> Settings:
    """Return the settings of a trial, which asks often enough to measure the judge's noise."""
    pairing = settings.pairing
    more: dict[str, float] = {"repeats": max(_REPEATED, pairing.repeats)}
    if settings.judge.judging == "pairwise":
        more = {"ring_k": max(float(_REPEATED), pairing.ring_k)}  # 2 has another digest than 2.0
    return changed(settings, limit=min(groups, settings.limits.limit or groups), **more)


class _ModeTrial(Struct, frozen=True):
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
        if needed is None or needed.expected is None or record.strategy not in ("ring", LISTS):
            return cls(settings, record)
        # Infinite where all pairs, or the most repeats, would not be enough.
        ends = (needed.at_best or 1.0, needed.expected, needed.at_worst or float("inf"))
        counts = tuple(max(1.0, each) for each in ends)
        return cls(settings, record, counts).with_count(needed.setting, counts[1])

    def with_count(self, name: str, count: float) -> "_ModeTrial":
        """Return the trial with another expected count of rings or repeats."""
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

    def left_to_pay(self, uri: str, keys: Keys) -> float:
        """Return the cost of what the whole run has left to ask; in tokens without prices."""
        plan = _preview(uri, self.settings, keys).plan
        return plan.tokens_in + plan.tokens_out if plan.cost is None else plan.cost


def recommend(
    record: "RunRecord", uri: str, settings: Settings, flags: Sequence[Origin], keys: Keys
) -> dict[str, str]:
    """Say what the trial recommends for the whole run, and return the sentences by what they are
    about; blocks.

    Args:
        record: of the trial.
        settings: those of the whole run, as the user gave them.
        flags: what the user gave on the command line.
    """
    given = _ModeTrial.of(settings, record)
    advice = {"mode": f"{given.mode}, as in the trial"}
    other_mode = _preview(uri, settings, keys).other_mode
    trial = given
    if other_mode is not None:
        trial, advice["mode"] = _choose_mode(given, other_mode[0], uri, keys)
    setting = "repeats" if trial.mode == "listwise" else "ring_k"
    tried = getattr(record, setting) or 0
    has_all = not record.groups_left_out and trial.mode == given.mode
    # Verdicts that are paid count: with fewer, the same groups would be worse known.
    if not trial.counts or (has_all and tried > trial.counts[1]):
        trial = trial.with_count(setting, tried or _REPEATED)
    elif setting == "ring_k" and not _shows_noise(record, trial.counts[1]):
        trial = trial.with_count(setting, _TELLING)
    if record.strategy in ("ring", LISTS):
        expected = getattr(trial.settings.pairing, setting)
        most = trial.counts[2] if trial.counts else expected
        worst = "more than the most" if most == float("inf") else f"{most:g}"
        sure = "" if most <= expected else f" as expected, {worst} to be sure"
        advice[_COUNTED[setting]] = f"{flag_of(setting)} {expected:g}{sure}"
    advice["reliability"] = _reliability_text(trial)
    plan = _preview(uri, trial.settings, keys).plan
    advice["cost"] = plan.text()
    changes: dict[str, object] = {}
    if trial.mode != given.mode:
        changes["judging"] = trial.mode
    if record.strategy in ("ring", LISTS):
        changes[setting] = getattr(trial.settings.pairing, setting)
    if has_all and not plan.calls:
        advice["next"] = next(next_command(record, uri, flags), "done: nothing left to ask")
    else:
        advice["next"] = f"next: {shlex.join(score_command(uri, flags, changes))}"
    lines = (f"  {name:<12} {text}" for name, text in advice.items() if name != "next")
    say("the trial recommends for the whole run:", *lines)
    return advice


def _shows_noise(record: "RunRecord", rings: float) -> bool:
    """Return whether the whole run would know its reliability: on one ring, that takes verdicts on
    a group that share no rollout, n (n - 3) / 2 in a ring of n.
    """
    sizes = {int(size): count for size, count in record.group_sizes.items()}
    disjoint = sum(count * n * (n - 3) // 2 for n, count in sizes.items() if n > 3)
    return rings >= _TELLING or disjoint >= MIN_DISJOINT_FOR_NOISE


def _choose_mode(trial: _ModeTrial, mode: str, uri: str, keys: Keys) -> tuple[_ModeTrial, str]:
    """Try the other mode, too; return the trial of the mode to take, and why."""
    say(f"trying --judging {mode} on up to {counted(_OTHER_GROUPS, 'group')}")
    as_given = f"{trial.mode}, as in the trial"
    try:
        other, agreement = _try_mode(trial, mode, uri, keys)
    except GenrmError as error:
        return trial, f"{as_given}; {mode} failed: {text_of(error)}"
    if agreement.value is None or agreement.high is None:
        return trial, f"{as_given}; whether {mode} agrees is unknown from {other.groups}"
    beyond = f"rewards of both modes correlate by {agreement.text(AGREEMENT)} beyond their noise"
    if agreement.high < DISAGREE_BELOW:
        return trial, (
            f"{as_given}; {beyond}: the modes disagree, and only labels can tell which is right "
            "(genrm eval --compare-modes)"
        )
    if agreement.value < DISAGREE_BELOW:
        return trial, f"{as_given}; {beyond}: too few groups to tell whether the modes agree"
    for each in (other, trial):
        if not each.counts:
            return trial, f"{as_given}; {beyond}; what {each.mode} needs is unknown"
    here, there = (each.left_to_pay(uri, keys) for each in (trial, other))
    if there >= _WORTHWHILE * here:  # or both cost nothing any more
        return trial, f"{as_given}; {beyond}, and {mode} does not cost clearly less"
    limits = trial.settings.limits
    has_prices = limits.price_in or limits.price_out
    form, unit = (",.2f", "") if has_prices else (",.0f", " tokens")
    return other, (
        f"--judging {mode}: {beyond}, and it takes {there:{form}}{unit} more where {trial.mode} "
        f"takes {here:{form}}; genrm eval --compare-modes measures which is right more often"
    )


def _try_mode(trial: _ModeTrial, mode: str, uri: str, keys: Keys) -> tuple[_ModeTrial, Estimated]:
    """Ask about some groups in another mode; return its trial, and its agreement with the first one
    about these groups. Only its verdicts are kept, in the same journal.
    """
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
            raise InputError("nothing was scored; `genrm validate` says why.")
        record = report.last.record
        scores = [_base_scores(each.output, tried) for each in (trial.record, record)]
    means = (trial.record.reliability.mean or 0.0, record.reliability.mean or 0.0)
    return _ModeTrial.of(settings, record), mode_agreement(scores[0], scores[1], means)


def _base_scores(output: str, settings: Settings) -> dict[str, list[float | None]]:
    """Return the base scores that a trial wrote, by group."""
    from genrm_cli.scored.files import find_scored
    from genrm_cli.scored.groups import ScoredRun
    from genrm_cli.storage.store import Store

    store = Store(settings.storage)
    [found] = find_scored([output], settings, store)
    with ScoredRun(found, settings) as run:
        run.read(store, comparisons=False)
        return {
            group.key: [each.line.base_score for each in group.members]
            for group in run.iter_groups()
        }


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
    found = f"{RELIABILITY.text(mean, *interval)} in {trial.groups} of the trial"
    named = f"{'repeatability ' if record.strategy == LISTS else ''}{found}"
    if needed is None or n is None or not trial.counts:
        remedy = remedy_text(needed, mean, flag_of, is_panel=record.panel is not None)
        return f"{named}: {remedy}"
    if needed.setting == "repeats":
        # Source: Spearman and Brown, as for `repeats_needed`.
        factor = trial.counts[1] / record.repeats
        ends = [factor * each / (1 + (factor - 1) * each) for each in (mean, *interval)]
    else:
        plan = compile_plan(trial.settings).pairing
        tried = replace(plan, ring_k=record.ring_k or plan.ring_k)
        ends = [predicted_reliability(tried, plan, n, each) for each in (mean, *interval)]
    return f"{RELIABILITY.text(*ends)} expected; {named}"


def _preview(uri: str, settings: Settings, keys: Keys) -> "Preview":
    """Return what a whole run would ask, less what its journal has."""
    from genrm_cli.groups.check import check_settings
    from genrm_cli.jobs.context import new_run
    from genrm_cli.jobs.previews.preview import iter_previews

    check_settings(settings)
    [found] = iter_previews([uri], new_run(settings, keys))
    if isinstance(found, GenrmError):
        raise InputError(found.message)
    return found
