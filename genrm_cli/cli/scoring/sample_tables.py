"""Tables of `genrm score --table`: rewards of the first groups, and components of all groups."""

from collections.abc import Sequence
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from genrm_cli.cli.console import add_row, counted, cut, new_table, number_text, say, show, terminal_width

if TYPE_CHECKING:
    from genrm_cli.scored.run_record import RunTotals

_NAME_WIDTH = 24
_PROMPT_WIDTH = 54
_COLUMNS = (
    "reward     the number for the trainer; higher is better",
    "rank       1 is the best of the group",
    "advantage  (reward - mean of the group) / standard deviation of the group",
)
_NUMBERS_WIDTH = 27
_WIDTHS = (7, 4, 9)


def show_groups(samples: Sequence[dict[str, Any]], groups: int, limit: int) -> None:
    """Show the rewards of the first groups, each under its prompt, and what the columns mean."""
    members = groupby(samples, key=lambda sample: sample["group"])
    shown = [(key, list(rollouts)) for key, rollouts in islice(members, limit)]
    for key, rollouts in shown:
        size = rollouts[0]["size"]
        prompt = cut(rollouts[0]["prompt"] or "(no prompt)", _PROMPT_WIDTH)
        say(cut(f"“{prompt}” {counted(size, 'rollout')}, {key}"))
        show(_rewards_table(rollouts))
        if size > len(rollouts):
            say(f"... and {counted(size - len(rollouts), 'more rollout')}")
        say("")
    for line in _COLUMNS:
        say(line)
    if groups > len(shown):
        say(f"... and {counted(groups - len(shown), 'more group')}")


def _rewards_table(rollouts: list[dict[str, Any]]) -> Any:
    table = new_table("reward", "rank", "advantage", "answer", texts=0)
    table.columns[-1].justify = "left"
    for column, width in zip(table.columns, _WIDTHS, strict=False):
        column.min_width = width
    for rollout in rollouts:
        numbers = ["-", "-", "-"]
        if rollout["reward"] is not None:
            numbers = [f"{rollout['reward']:.3f}", str(rollout["rank"]), f"{rollout['advantage']:+.2f}"]
        # Cut here, because Rich would shorten the numbers instead of the texts.
        width = max(20, terminal_width() - _NUMBERS_WIDTH)
        add_row(table, *numbers, cut(rollout["reason_text"] or rollout["answer"], width))
    return table


def show_components(metrics: "RunTotals") -> None:
    """Show the spread of each component, and the share of groups in which it varies."""
    table = new_table("component", "mean", "std", "min", "max", "missing", "varies", "corr.")
    for name, component in (metrics.components or {}).items():
        numbers = [number_text(each, ".2f") for each in (component.mean, component.std, component.min, component.max)]
        varies = number_text(component.discriminating_share, ".0%")
        correlation = number_text(component.correlation_with_total, ".2f")
        add_row(table, cut(name, _NAME_WIDTH), *numbers, str(component.missing), varies, correlation)
    show(table)
