"""Tables of `genrm score --table`: rewards of the first groups, and the components of all."""

from itertools import groupby
from typing import Any

from genrm_cli.cli.console import add_row, counted, cut, new_table, number_text, say, show, terminal_width

_NAME_WIDTH = 24
_NUMBERS_WIDTH = 27
_WIDTHS = (7, 4, 9)


def show_groups(samples: list[dict[str, Any]], groups: int) -> None:
    """Show the rewards of the first groups, each under its prompt."""
    shown = 0
    for key, members in groupby(samples, key=lambda sample: sample["group"]):
        rollouts = list(members)
        size = rollouts[0]["size"]
        say(cut(f"“{cut(rollouts[0]['prompt'] or '(no prompt)', 60)}” {counted(size, 'rollout')}, {key}"))
        show(_rewards_table(rollouts))
        if size > len(rollouts):
            say(f"... and {counted(size - len(rollouts), 'more rollout')}")
        say("")
        shown += 1
    if groups > shown:
        say(f"... and {counted(groups - shown, 'more group')}")


def _rewards_table(rollouts: list[dict[str, Any]]) -> Any:
    table = new_table("reward", "rank", "advantage", "answer", texts=0)
    table.columns[-1].justify = "left"
    for column, width in zip(table.columns, _WIDTHS, strict=False):
        column.min_width = width
    for rollout in rollouts:
        numbers = ["-", "-", "-"]
        if rollout["reward"] is not None:
            numbers = [f"{rollout['reward']:.3f}", str(rollout["rank"]), f"{rollout['advantage']:+.2f}"]
        # Cut by hand: Rich would squeeze out the numbers instead of the texts.
        width = max(20, terminal_width() - _NUMBERS_WIDTH)
        add_row(table, *numbers, cut(rollout["reason"] or rollout["answer"], width))
    return table


def show_components(metrics: dict[str, Any]) -> None:
    """Show the spread of each component, and the share of groups in which it varies."""
    table = new_table("component", "mean", "std", "min", "max", "missing", "varies", "corr.")
    for name, component in metrics["components"].items():
        numbers = [number_text(component[key], ".2f") for key in ("mean", "std", "min", "max")]
        varies = number_text(component["discriminating_share"], ".0%")
        correlation = number_text(component["correlation_with_total"], ".2f")
        add_row(table, cut(name, _NAME_WIDTH), *numbers, str(component["missing"]), varies, correlation)
    show(table)
