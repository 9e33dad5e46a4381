"""`genrm score --quick`: what a trial on a few groups recommends for the whole run."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from genrm_cli.cli.console import flag_of, number_text
from genrm_cli.cli.scoring.summary import interval_text
from genrm_cli.errors import GenrmError, InputError, UsageError
from genrm_cli.metrics.group_measures import RELIABLE_FROM, reliability_word
from genrm_cli.metrics.plan_reliability import remedy_text, unmeasured_text
from genrm_cli.settings import Settings, changed

if TYPE_CHECKING:
    from genrm_cli.scored.run_record import RunRecord

# Enough for an interval of the reliability that tells a good judge from a poor one.
_GROUPS = 30
# What the count of each setting is called in a recommendation.
_COUNTED = {"ring_k": "rings", "repeats": "repeats"}
# The fewest rings, or orders of a list, in which verdicts on a group repeat and so show noise.
_REPEATED = 2


def trial_settings(settings: Settings) -> Settings:
    """Return the settings of a trial, which asks often enough to measure the judge's noise."""
    pairing = settings.pairing
    more: dict[str, float] = {"repeats": max(_REPEATED, pairing.repeats)}
    if settings.judge.judging == "pairwise":
        more = {"ring_k": max(_REPEATED, pairing.ring_k)}
    return changed(settings, limit=min(_GROUPS, settings.limits.limit or _GROUPS), **more)


def recommend(
    trial: "RunRecord", uri: str, settings: Settings, keys: Mapping[str, str]
) -> dict[str, str]:
    """Return sentences about the whole run, by what they are about; blocks.

    Args:
        settings: those of the whole run, as the user gave them.
    """
    mean = trial.reliability.mean
    needed = trial.rings_needed
    advice = {"mode": f"{settings.judge.judging}, as in the trial"}
    count = None if needed is None else needed.expected
    interval = trial.reliability_interval
    found = f"{number_text(mean, '.2f')}{interval_text(interval)} in the trial"
    if mean is None:
        sizes = map(int, trial.group_sizes)
        why = unmeasured_text(sizes, trial.strategy, trial.repeats, flag_of)
        advice["reliability"] = f"unknown: {why}"
    elif interval is None or reliability_word(interval) == "unknown":
        advice["reliability"] = f"unknown: {found} says little"
    elif needed is None or count is None:
        is_panel = trial.panel is not None
        remedy = remedy_text(needed, mean, flag_of, is_panel=is_panel)
        advice["reliability"] = f"{found}: {remedy}"
    else:
        name = needed.setting
        count = max(1.0, count)
        most = count if needed.at_worst is None else max(1.0, needed.at_worst)
        settings = changed(settings, **{name: int(count) if name == "repeats" else count})
        at_most = "" if most == count else f"; at most {most:g}"
        advice[_COUNTED[name]] = f"{flag_of(name)} {count:g}{at_most}"
        advice["reliability"] = f"{RELIABLE_FROM:.2f} or more expected; {found}"
    advice["cost"] = _cost_text(uri, settings, keys)
    if settings.judge.judging == "pairwise":
        lists = changed(settings, judging="listwise", repeats=_REPEATED, ring_k=1.0)
        try:
            calls = _cost_text(uri, lists, keys)
        except UsageError:  # its profile cannot show lists
            return advice
        advice["mode"] += f"; lists in two orders: {calls}. --judging listwise --quick tries them"
    return advice


def _cost_text(uri: str, settings: Settings, keys: Mapping[str, str]) -> str:
    """Return the calls and the cost of the whole run, less the verdicts of the trial."""
    from genrm_cli.groups.check import check_settings
    from genrm_cli.jobs.context import new_run
    from genrm_cli.jobs.previews.preview import iter_previews

    check_settings(settings)
    [found] = iter_previews([uri], new_run(settings, keys))
    if isinstance(found, GenrmError):
        raise InputError(found.message)
    return found.plan.text()
