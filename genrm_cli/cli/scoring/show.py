"""`genrm show`: print groups as rollouts, or exactly what a judge would be sent about them."""

import sys
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from genrm_cli.cli.console import counted, escaped, say
from genrm_cli.cli.options import Invocation, with_settings

if TYPE_CHECKING:
    from genrm_cli.jobs.context import RunContext
    from genrm_cli.jobs.preview.show import ShownGroup, ShownRequest

_OMITTED = ("min_age", "leases", "lease_expiry", "lock")
_BEGINNING_CHARS = 80


@with_settings("Input", "Pairs", "Judge", "Storage", omit=_OMITTED)
def show(
    rollouts: Annotated[
        str,
        typer.Argument(metavar="ROLLOUTS", help="A JSONL file (.gz, .zst too), s3://bucket/key, or - for stdin."),
    ],
    invocation: Invocation,
    as_judge: Annotated[
        bool, typer.Option("--as-judge", help="Print the messages of the first request about a group.")
    ] = False,
    group: Annotated[str | None, typer.Option(metavar="KEY", help="Show this group only.")] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="Maximum number of groups.")] = 1,
) -> int:
    """Show the first group as rollouts, or exactly what a judge would be sent about it, without calling one.

    With --as-judge, groups about which nothing is asked are skipped. The settings are those of `genrm score`.

    Example: genrm show rollouts.jsonl --as-judge --group task:3 --model my-genrm
    """
    from genrm_cli.jobs.context import new_run

    run = new_run(invocation.settings)
    texts = _request_texts(rollouts, run, group) if as_judge else _group_texts(rollouts, run, group)
    for number, text in enumerate(islice(texts, limit)):
        # `color`: otherwise Click removes escape sequences from the text in a pipe.
        typer.echo(("\n" if number else "") + (escaped(text) if sys.stdout.isatty() else text), color=True)
    if run.metrics.rejects:
        say(f"{counted(run.metrics.rejects, 'line')} rejected; `genrm validate` says why")
    return 0


def messages_text(messages: list[dict[str, str]]) -> str:
    """Return messages as text, each below a line that names its role."""
    return "\n".join(f"--- message of role {message['role']}\n{message['content']}" for message in messages)


def _request_texts(uri: str, run: "RunContext", group: str | None) -> Iterator[str]:
    from genrm_cli.jobs.preview.show import STAND_IN_PROFILE, iter_shown_requests

    judge = run.settings.judge
    if not (judge.model or judge.profile or run.settings.panel.judges):
        say(f"no model or profile is given: the messages are those of the profile {STAND_IN_PROFILE}")
    yield from map(_request_text, iter_shown_requests(uri, run, group))


def _request_text(request: "ShownRequest") -> str:
    shown = " and ".join(map(str, request.shown)) if len(request.shown) < 3 else ", ".join(map(str, request.shown))
    heading = f"=== group {request.group}: rollouts {shown}, profile {request.profile}"
    return f"{heading}\n{messages_text(request.messages)}"


def _group_texts(uri: str, run: "RunContext", group: str | None) -> Iterator[str]:
    from genrm_cli.jobs.preview.show import iter_shown_groups

    yield from map(_group_text, iter_shown_groups(uri, run, group))


def _group_text(group: "ShownGroup") -> str:
    view = f"view {group.view}" if group.view else "none of them can be compared"
    lines = [f"=== group {group.key}: {counted(len(group.rollouts), 'rollout')}, {view}"]
    for index, rollout in enumerate(group.rollouts):
        status = (rollout.reason or "comparable") + (", truncated" if rollout.is_truncated else "")
        beginning = escaped(" ".join(rollout.text[: 4 * _BEGINNING_CHARS].split())[:_BEGINNING_CHARS])
        lines.append(f"{index:>4}  {len(rollout.text):>8,} characters  {status}  {beginning}".rstrip())
    return "\n".join(lines)
