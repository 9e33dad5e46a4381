"""`genrm show`: print the rollouts of groups, or the exact requests to the judge."""

from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from genrm_cli.cli.console import counted, print_json, print_text, say
from genrm_cli.cli.options import Invocation, option, switch, with_settings
from genrm_cli.cli.scoring.show_scored import show_scored
from genrm_cli.errors import UsageError
from genrm_cli.storage.location import is_scored_file

if TYPE_CHECKING:
    from genrm_cli.jobs.context import RunContext
    from genrm_cli.jobs.shown_groups import ShownGroup, ShownRequest

_OMITTED = ("min_age", "leases", "lease_expiry", "segment_calls", "segment_age", "only_failed")
_BEGINNING_CHARS = 80


@with_settings("Input", "Pairs", "Judge", "Journal", "Storage", omit=_OMITTED)
def show(
    rollouts: Annotated[
        list[str],
        typer.Argument(
            metavar="ROLLOUTS",
            help="A JSONL file (.gz, .zst too), s3://bucket/key, - for stdin, or a *.scored.jsonl. With --together, "
            "the files of a set.",
        ),
    ],
    invocation: Invocation,
    as_judge: Annotated[bool, switch("--as-judge", "Print the messages of the first request for each group.")] = False,
    group: Annotated[str | None, option("KEY", "Show this group only.")] = None,
    worst: Annotated[
        int | None, option("N", "For a scored file: show the N groups with the lowest reliability.")
    ] = None,
    failures: Annotated[bool, switch("--failures", "For a scored file: show groups with failed comparisons.")] = False,
    limit: Annotated[int, option("N", "Maximum number of groups.", min=1)] = 1,
    as_json: Annotated[
        bool,
        switch("--json", "Print JSON lines with the exact texts, including control characters."),
    ] = False,
) -> int:
    """Show the first group: its rollouts, or the exact request to the judge. Calls no judge.

    For an output of genrm score (*.scored.jsonl), show rewards, the matrix of verdicts and the judge's replies, from
    the journal if the comparisons lack them.

    --as-judge skips groups without comparisons. Accepts the settings of `genrm score`. Control
    characters are printed as escapes such as \\x1b; --json keeps them.

    Example: genrm show rollouts.jsonl --as-judge --group task:3 --model my-genrm

    Example: genrm show rollouts.scored.jsonl --worst 3
    """
    from genrm_cli.jobs.context import new_run
    from genrm_cli.jobs.shown_groups import ShownRequest, iter_shown_groups

    is_scored = any(map(is_scored_file, rollouts))
    if (worst is not None or failures) and (as_judge or not is_scored):
        raise UsageError("--worst and --failures show a scored file: name a *.scored.jsonl, without --as-judge.")
    if is_scored and not as_judge:
        show_scored(
            rollouts,
            invocation.settings,
            group=group,
            worst=worst,
            failures=failures,
            limit=limit,
            as_json=as_json,
        )
        return 0
    run = new_run(invocation.settings)
    found: Iterator[ShownRequest | ShownGroup] = (
        _iter_requests(rollouts, run, group) if as_judge else iter_shown_groups(rollouts, run, group)
    )
    for number, shown in enumerate(islice(found, limit)):
        if as_json:
            print_json(asdict(shown))
        else:
            text = _request_text(shown) if isinstance(shown, ShownRequest) else _group_text(shown)
            print_text(("\n" if number else "") + text)
    if run.metrics.rejects:
        say(f"{counted(run.metrics.rejects, 'line')} rejected; `genrm validate` says why")
    return 0


def messages_text(messages: list[dict[str, str]]) -> str:
    """Return messages as text, each below a line that names its role."""
    return "\n".join(f"--- message of role {message['role']}\n{message['content']}" for message in messages)


def _iter_requests(inputs: list[str], run: "RunContext", group: str | None) -> "Iterator[ShownRequest]":
    from genrm_cli.jobs.shown_groups import STAND_IN_PROFILE, iter_shown_requests

    judge = run.settings.judge
    if not (judge.model or judge.profile or run.settings.panel.judges):
        say(f"no --model or --profile given; showing the messages of profile {STAND_IN_PROFILE}")
    return iter_shown_requests(inputs, run, group)


def _request_text(request: "ShownRequest") -> str:
    shown = " and ".join(map(str, request.shown)) if len(request.shown) < 3 else ", ".join(map(str, request.shown))
    heading = f"=== group {request.group}: rollouts {shown}, profile {request.profile}"
    return f"{heading}\n{messages_text(request.messages)}"


def _group_text(group: "ShownGroup") -> str:
    view = f"view {group.view}" if group.view else "none of them can be compared"
    name = "no group" if group.key is None else f"group {group.key}"
    lines = [f"=== {name}: {counted(len(group.rollouts), 'rollout')}, {view}"]
    for index, rollout in enumerate(group.rollouts):
        status = (rollout.reason or "comparable") + (", truncated" if rollout.is_truncated else "")
        beginning = " ".join(rollout.text[: 4 * _BEGINNING_CHARS].split())[:_BEGINNING_CHARS]
        lines.append(f"{index:>4}  {len(rollout.text):>8,} characters  {status}  {beginning}".rstrip())
    return "\n".join(lines)
