"""`genrm watch`: show the state of a judge over many runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from genrm_cli.cli.console import (
    number_text,
    percent_text,
    print_json,
    print_text,
    say,
    say_warning,
)
from genrm_cli.cli.options import Invocation, argument, option, with_settings
from genrm_cli.cli.tables import Table, names, numbers, print_parts
from genrm_cli.errors import InputError, UsageError, WatchError

if TYPE_CHECKING:
    from genrm_cli.watching.course import Judgement

# The signal in each column, and whether it is a share.
_COLUMNS = {
    "failed": ("failures", True),
    "flips": ("sentinel_flips", True),
    "errors": ("sentinel_errors", True),
    "audits": ("audits", True),
    "reliability": ("reliability", False),
    "length": ("length_effect", False),
}


@with_settings(
    "Storage", names=("json_output", "quiet", "fail_on", "force"), omit=("leases", "lease_expiry")
)
def watch(
    prefixes: Annotated[
        list[str],
        argument("PREFIX", "Folders or s3://bucket/rl/.../ with the metrics of scored rollouts."),
    ],
    invocation: Invocation,
    page: Annotated[
        str | None, option("OUT.html", "Also write the course as a page.", "--page")
    ] = None,
    acknowledge: Annotated[
        str | None,
        option(
            "SIGNAL",
            "End the alarm of this signal, and take its baseline again; needs --reason.",
            "--acknowledge",
        ),
    ] = None,
    reason: Annotated[
        str | None, option("TEXT", "Why the alarm needs no action.", "--reason")
    ] = None,
) -> int:
    """Show the state after each run over the rollouts of a prefix: is the judge the same, is it
    gamed?

    Reads the metrics files of `genrm score`. A [watch] table in its settings adds sentinels, audits
    and canaries; see `genrm guide watch`.

    Example: genrm watch s3://bucket/rl/env/scored/

    Example: genrm watch scored --acknowledge sentinel_flips --reason "new judge since Monday"
    """
    from dataclasses import replace
    from datetime import UTC, datetime

    from genrm_cli.jobs.context import s3_options
    from genrm_cli.report.watch_page import write_page
    from genrm_cli.scored.json_form import to_json
    from genrm_cli.watching.course import State
    from genrm_cli.watching.history import acknowledge as write_acknowledgement
    from genrm_cli.watching.history import follow, moment_of, read_history
    from genrm_cli.watching.signals import SIGNALS

    settings = invocation.settings
    s3 = s3_options(settings)
    if acknowledge is not None:
        if acknowledge not in SIGNALS or reason is None or len(prefixes) > 1:
            known = ", ".join(SIGNALS)
            raise UsageError(
                f"--acknowledge takes one prefix, --reason, and one of these signals: {known}."
            )
        say(f"acknowledged  {write_acknowledgement(prefixes[0], acknowledge, reason, s3)}")
    history = read_history(prefixes, s3)
    now = datetime.now(UTC)
    for record in history.records:
        if record.partial:
            say_warning(f"{record.output} is partial, and left out")
        elif moment_of(record.time) > now:
            say_warning(f"{record.output} is dated in the future: {record.time}")
    found = follow(history)[1]
    judged = [judgement for _, judgement in found]
    if not judged:
        raise InputError(
            f"{', '.join(prefixes)}: no metrics files (*.metrics.json); `genrm score` writes them."
        )
    if history.unreadable:
        last_state = judged[-1].state
        judged[-1] = replace(
            judged[-1],
            state=State.BLIND if last_state is State.FINE else last_state,
            reasons=(
                *judged[-1].reasons,
                *(f"{uri} cannot be read as part of the history" for uri in history.unreadable),
            ),
        )
    last = found[-1][0].watch
    look_at = () if last is None else last.look_at
    if page is not None:
        write_page(page, judged, look_at, s3, overwrite=settings.output.force)
        say(f"page  {page}")
    if settings.output.json_output:
        print_json(
            {"format": 1, "state": judged[-1].state, "dumps": [to_json(each) for each in judged]}
        )
    else:
        _print(judged, look_at)
    return WatchError.exit_code if judged[-1].state in settings.output.refused_states else 0


def _print(judged: "Sequence[Judgement]", look_at: "Sequence[str]") -> None:
    table = Table([*names("dump", "state"), *numbers(*_COLUMNS)])
    for each in judged:
        values = [(each.signals[signal].value, is_share) for signal, is_share in _COLUMNS.values()]
        cells = (
            percent_text(value) if is_share else number_text(value, ".2f")
            for value, is_share in values
        )
        table.add(
            each.dump.rpartition("/")[2].removesuffix(".scored.jsonl"), each.state.value, *cells
        )
    print_parts(table)
    print_text(f"\nstate: {judged[-1].state.value}")
    for text in judged[-1].reasons:
        print_text(f"- {text}")
    if look_at:
        print_text(f"groups on which the auditor disagrees most: {', '.join(look_at)}")
