"""Warnings about the results of a run, the most serious first."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from genrm_cli.cli.console import flag_of, rate_text
from genrm_cli.errors import counted
from genrm_cli.metrics.figures import FigureForm
from genrm_cli.verdicts import Reason

if TYPE_CHECKING:
    from genrm_cli.scored.run_record import RunTotals

# Repeated by every command that shows rewards: they look like those of a judge.
BASELINE_NOTICE = (
    "judged by the built-in lexical baseline, not by a reward model: do not train on these rewards."
)
# A judge that follows the instructions contradicts itself in a few percent of its verdicts.
_UNUSABLE_FROM = 0.2
_AGREES_FROM = 0.4  # Krippendorff's alpha; judges that share preferences reach more
_ALPHA = FigureForm(2, (_AGREES_FROM,))
# Counts of a run that the user should know if they are not 0: the noun, and what follows it.
COUNTS = {
    "rejected_lines": ("line", "rejected: `genrm validate` says which and why."),
    "blank_responses": ("blank response", "with nothing for the judge to see."),
    "truncated_responses": ("response", "truncated by a token, turn or time limit."),
    "shortened_rollouts": ("rollout", "shortened to the context of the judge."),
    "not_numbers": ("number", "NaN or infinite, read and written back as null."),
    "neutralised": (
        "rollout",
        "with text in the form of a verdict, a marker or a control token, broken up for the "
        "judge; see neutralised in the scored lines.",
    ),
    "contradicting_ids": (
        "task id",
        "of several prompts in these files: their rollouts are grouped by the prompt.",
    ),
    "groups_over_steps": (
        "group",
        "with rollouts of several training steps, which come from different policies: keep the "
        "steps apart with --group-by, for example --group-by step,input.",
    ),
    "duplicate_rollouts": ("duplicate rollout", "(same group and rollout index)."),
    "rewards_on_defaults": ("reward", "based on default scores (--compat nemo-gym)."),
}


def count_warning(field: str, count: int) -> str:
    """Return the warning about a count of a run."""
    noun, text = COUNTS[field]
    return f"{counted(count, noun)} {text}"


def masked_text(pattern: str, count: int) -> str:
    """Return the warning about texts that were masked, or about a regular expression of the user's
    that masked none.
    """
    if not count:
        return (
            f"no text sent to the judge matches {pattern}: {flag_of('redact_pattern')} takes the "
            "whole of it as one regular expression."
        )
    return f"{counted(count, 'match', 'matches')} of {pattern} masked in texts sent to the judge."


def iter_warnings(totals: "RunTotals") -> Iterator[str]:
    """Yield what the user should know before using the rewards, from the totals of a run."""
    if totals.judge.is_baseline:
        yield BASELINE_NOTICE
    if not totals.rollouts:
        yield "the input contains no rollouts."
    elif not totals.comparisons_planned and not totals.components:
        yield "nothing to compare: no group has two rollouts that can be compared."
    yield from _judge_warnings(totals)
    yield from _unscored_warnings(totals)
    yield from _component_warnings(totals)
    for field in COUNTS:
        count = getattr(totals, field)
        if count:
            yield count_warning(field, count)
    for name, count in totals.redactions.items():
        yield masked_text(name, count)


def _judge_warnings(totals: "RunTotals") -> Iterator[str]:
    """Yield warnings about verdicts that say little, or that follow length."""
    from genrm_cli.metrics.group_measures import EFFECT, STRONG_LENGTH

    contradicting = totals.contradiction_rate or 0.0
    if contradicting > _UNUSABLE_FROM:
        given = totals.verdicts + totals.journal_hits
        verdicts = rate_text(contradicting, given, "verdict")
        yield (
            f"scores and ranking disagree in {verdicts}: this "
            "judge may not understand the ranking. Measure it with `genrm eval`, or try a profile "
            "that asks for labels."
        )
    alpha = None if totals.panel is None else totals.panel.krippendorff_alpha
    if alpha is not None and alpha < _AGREES_FROM:
        yield (
            "the judges of the panel do not agree (Krippendorff's alpha "
            f"{_ALPHA.number(alpha)}; 1 = always, 0 = only by chance): their average may mean "
            "little. Compare the judges with `genrm eval`."
        )
    mean = totals.length_effect.mean or 0.0
    interval = totals.length_effect_interval
    is_certain = interval is not None and min(interval) * max(interval) > 0
    if abs(mean) > STRONG_LENGTH and is_certain:
        yield (
            f"{'longer' if mean > 0 else 'shorter'} responses win (correlation "
            f"{EFFECT.number(mean)} within groups): a policy trained on these rewards changes its "
            "length, whether or not that is what makes responses better. `genrm eval` measures on "
            "labelled pairs whether the judge confuses the two."
        )
    unknown = totals.groups_of_unknown_reliability
    if totals.min_reliability is not None and unknown:
        yield (
            f"--min-reliability kept {counted(unknown, 'group')} of unknown reliability: too "
            "few verdicts."
        )


def _unscored_warnings(totals: "RunTotals") -> Iterator[str]:
    """Yield warnings about rollouts without a reward, and about content that the judge does not
    see.
    """
    left_out = totals.groups_left_out
    if left_out:
        yield (
            f"a trial (--limit {totals.limit}): {counted(left_out, 'group')} not scored. "
            "Run it without --limit or --quick for the rest: the journal has these verdicts."
        )
    for reason, count in totals.unscored_reasons.items():
        if reason in (Reason.BLANK, Reason.NOT_IN_TRIAL):
            continue
        text = f"{counted(count, 'rollout')} unscored: {Reason(reason).text}"
        detail = totals.unscored_examples.get(reason)
        if detail:
            text += f", for example {detail}"
        if reason == Reason.MEDIA:
            text += "; give --images if the judge sees images, or --ignore-media"
        yield f"{text}."
    for name, count in totals.missing_fields.items():
        rollouts = counted(count, "rollout")
        yield f"{rollouts} judged without the field that {flag_of(name)} names."
    if totals.rollouts_with_media and Reason.MEDIA not in totals.unscored_reasons:
        media = counted(totals.rollouts_with_media, "rollout")
        yield f"{media} compared with media that the judge does not see."


def _component_warnings(totals: "RunTotals") -> Iterator[str]:
    """Yield warnings about components without values."""
    for name, component in totals.components.items():
        if not component.count:
            yield f"the component {name} has no value in any rollout; check its table."
    if totals.gated and totals.gated == totals.reward.count:
        yield "a gate sets every reward to 0; check the range of its component."
    for name, count in totals.component_failures.items():
        yield (
            f"the component {name} failed in {counted(count, 'group')}; see component_failures "
            "in the scored lines."
        )
