"""Warnings about the results of a run, the most serious first."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from genrm_cli.cli.console import rate_text, render_flag
from genrm_cli.errors import SettingRef, counted
from genrm_cli.metrics.group_measures import STRONG_LENGTH
from genrm_cli.verdicts import Reason

if TYPE_CHECKING:
    from genrm_cli.scored.run_record import RunTotals

BASELINE_NOTICE = (
    "judged by the built-in lexical baseline, not by a reward model: do not train on these rewards."
)
_FEW_FOR_CONSISTENCY = 8
_MANY_GROUPS = 500
_UNUSABLE_FROM = 0.2  # share of verdicts
_AGREES_FROM = 0.4  # Krippendorff's alpha; judges that share preferences reach more


def iter_warnings(metrics: "RunTotals") -> Iterator[str]:
    """Yield what the user should know before using the rewards, from the metrics of a run."""
    if metrics.judge.is_baseline:
        yield BASELINE_NOTICE
    if not metrics.rollouts:
        yield "the input contains no rollouts."
    elif not metrics.comparisons_planned and not metrics.components:
        yield "nothing to compare: no group has two rollouts that can be compared."
    yield from _judge_warnings(metrics)
    yield from _content_warnings(metrics)
    yield from _component_warnings(metrics)
    if metrics.min_reliability is not None and (unknown := metrics.groups_of_unknown_reliability):
        yield (
            f"--min-reliability kept {counted(unknown, 'group')} of unknown reliability: too "
            "few verdicts."
        )
    if metrics.min_reliability is not None and metrics.reliability.count < _MANY_GROUPS:
        yield (
            f"--min-reliability with {counted(metrics.reliability.count, 'group')}: fewer than "
            f"{_MANY_GROUPS} say little about the judge's noise, so only groups that are clearly "
            "below it are left out."
        )
    if count := metrics.neutralised:
        yield (
            f"{counted(count, 'rollout')} with text in the form of a verdict, a marker or a "
            "control token, broken up for the judge; see neutralised in the scored lines."
        )
    for name, count in metrics.redactions.items():
        yield f"{counted(count, 'match', 'matches')} of {name} masked in texts sent to the judge."
    if ids := metrics.contradicting_ids:
        yield (
            f"{counted(ids, 'task id')} of several prompts in these files: their rollouts are "
            "grouped by the prompt."
        )
    if spanning := metrics.groups_over_steps:
        yield steps_warning(spanning)
    if metrics.duplicate_rollouts:
        yield (
            f"{counted(metrics.duplicate_rollouts, 'duplicate rollout')} (same group and "
            "rollout index)."
        )
    if metrics.caused_failures:
        yield (
            f"{counted(metrics.caused_failures, 'rollout')} that make requests to the judge fail; "
            "--on-caused-failures sets their rewards. Read their texts: a policy may be learning "
            "this."
        )
    if metrics.rewards_on_defaults:
        yield (
            f"{counted(metrics.rewards_on_defaults, 'reward')} based on default scores "
            "(--compat nemo-gym)."
        )


def _judge_warnings(metrics: "RunTotals") -> Iterator[str]:
    """Yield warnings about verdicts that say little, or that follow length."""
    given = metrics.verdicts + metrics.journal_hits
    contradicting = metrics.contradiction_rate or 0.0
    echoing = metrics.echoed_ranking_rate or 0.0
    if contradicting > _UNUSABLE_FROM:
        yield (
            f"scores and ranking disagree in {rate_text(contradicting, given, 'verdict')}: this "
            "judge may not understand the ranking. Measure it with `genrm eval`, or try a profile "
            "that asks for labels."
        )
    if echoing > _UNUSABLE_FROM:
        yield (
            "the ranking only repeats the scores (such as 5, 5, 5) in "
            f"{rate_text(echoing, given, 'verdict')}: it says nothing about the pair."
        )
    alpha = None if metrics.panel is None else metrics.panel.krippendorff_alpha
    if alpha is not None and alpha < _AGREES_FROM:
        yield (
            f"the judges of the panel do not agree (Krippendorff's alpha {alpha:.2f}; 1 = always, "
            "0 = only by chance): "
            "their average may mean little. Compare the judges with `genrm eval`."
        )
    mean = metrics.length_effect.mean
    interval = metrics.length_effect_interval
    if (
        mean is not None
        and abs(mean) > STRONG_LENGTH
        and interval is not None
        and min(interval) * max(interval) > 0
    ):
        yield (
            f"{'longer' if mean > 0 else 'shorter'} responses win (correlation {mean:+.2f} within "
            "groups): a policy trained on these rewards changes its length, whether or not that "
            "is what makes responses better. `genrm eval` measures on labelled pairs whether the "
            "judge confuses the two."
        )


def _component_warnings(metrics: "RunTotals") -> Iterator[str]:
    """Yield warnings about components without values or meaning."""
    for name, component in metrics.components.items():
        if not component.count:
            yield f"the component {name} has no value in any rollout; check its table."
    if metrics.gated and metrics.gated == metrics.reward.count:
        yield "a gate sets every reward to 0; check the range of its component."
    for name, count in metrics.component_failures.items():
        yield (
            f"the component {name} failed in {counted(count, 'group')}; see component_failures "
            "in the scored lines."
        )
    made_of = metrics.reward_made_of
    names = (
        []
        if made_of is None
        else [name for name, source in made_of.components.items() if source == "responses"]
    )
    small = sum(
        count for size, count in metrics.group_sizes.items() if 1 < int(size) < _FEW_FOR_CONSISTENCY
    )
    if names and small:
        few = f"fewer than {_FEW_FOR_CONSISTENCY} rollouts"
        yield f"{names[0]} means little in groups of {few}; {counted(small, 'group')} of that size."
    if "win_rate" in metrics.components and metrics.strategy != "all_pairs":
        yield (
            f"win_rate is wins / comparisons judged; --strategy {metrics.strategy} does not "
            "judge all pairs."
        )


def steps_warning(groups: int) -> str:
    """Return the warning about groups of several training steps."""
    return (
        f"rollouts of several training steps are compared in {counted(groups, 'group')}: they "
        "come from different "
        "policies; keep the steps apart with --group-by, for example --group-by step,input."
    )


def nulls_text(count: int, first: str | None) -> str:
    """Return how many values are no finite numbers, and where the first is."""
    return (
        f"{counted(count, 'number')} NaN or infinite ({first}{', ...' if count > 1 else ''}) "
        "read as null"
    )


def _content_warnings(metrics: "RunTotals") -> Iterator[str]:
    """Yield warnings about rollouts that are not compared, and about content that the judge does
    not see.
    """
    if rejected := metrics.rejected_lines:
        yield f"{counted(rejected, 'line')} rejected: `genrm validate` says which and why."
    if blank := metrics.blank_responses:
        yield f"{counted(blank, 'blank response')}: nothing for the judge to see."
    if truncated := metrics.truncated_responses:
        yield f"{counted(truncated, 'response')} truncated by a token, turn or time limit."
    if shortened := metrics.shortened_rollouts:
        yield (
            f"{counted(shortened, 'rollout')} shortened to the context of the judge (shortened "
            "in the scored lines)."
        )
    if left_out := metrics.groups_left_out:
        yield (
            f"a trial (--limit {metrics.limit}): {counted(left_out, 'group')} not scored. "
            "Run the same command without --limit for the rest: its journal has these verdicts."
        )
    if nulls := metrics.not_numbers:
        yield f"{nulls_text(nulls, metrics.not_numbers_first)} and written back as null."
    for reason, count in metrics.unscored_reasons.items():
        if reason not in (Reason.BLANK, Reason.NOT_IN_TRIAL):
            detail = metrics.unscored_examples.get(reason)
            example = f", for example {detail}" if detail else ""
            advice = (
                "; give --images if the judge sees images, or --ignore-media"
                if reason == Reason.MEDIA
                else ""
            )
            yield f"{counted(count, 'rollout')} unscored: {Reason(reason).text}{example}{advice}."
    for name, count in metrics.missing_fields.items():
        yield (
            f"{counted(count, 'rollout')} judged without the field that "
            f"{render_flag(SettingRef(name))} names."
        )
    media = metrics.rollouts_with_media
    reasons = metrics.unscored_reasons
    if media and Reason.MEDIA not in reasons:
        yield f"{counted(media, 'rollout')} compared with media that the judge does not see."
