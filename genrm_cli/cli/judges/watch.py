"""`genrm watch`: show the state of a judge over many runs."""

from collections.abc import Mapping
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
    from genrm_cli.report.watch_page import WatchedJudge
    from genrm_cli.watching.history import History, Timelines
    from genrm_cli.watching.timeline import DumpState
    from genrm_cli.watching.track import SignalState

# The signal in each column, and whether it is a share.
_COLUMNS = {
    "failed": ("failures", True),
    "flips": ("sentinel_flips", True),
    "errors": ("sentinel_errors", True),
    "audits": ("audits", True),
    "reliability": ("reliability", False),
    "length": ("length_effect", False),
}


@with_settings
def watch(
    prefixes: Annotated[
        list[str],
        argument("PREFIX", "Folders or s3://bucket/rl/.../ with the metrics of scored rollouts."),
    ],
    invocation: Invocation,
    page: Annotated[
        str | None, option("OUT.html", "Also write the figures over time as a page.", "--page")
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
    of_judge: Annotated[
        str | None,
        option(
            "JUDGE",
            "The judge whose alarm ends, as the command names it. Default: the only one.",
            "--of-judge",
        ),
    ] = None,
) -> int:
    """Show the state after each run over the rollouts of a prefix: is the judge the same, is it
    gamed?

    Reads the metrics files of `genrm score`. A [watch] table in its settings adds sentinels, audits
    and canaries; see `genrm guide watch`.

    Example: genrm watch s3://bucket/rl/env/scored/

    Example: genrm watch scored --acknowledge sentinel_flips --reason "new judge since Monday"
    """
    from genrm_cli.report.watch_page import write_page
    from genrm_cli.scored.json_form import to_json
    from genrm_cli.storage.store import Store
    from genrm_cli.watching.history import Timelines, read_history
    from genrm_cli.watching.history import acknowledge as write_acknowledgement
    from genrm_cli.watching.signals import SIGNALS

    settings = invocation.settings
    store = Store(settings.storage)
    if acknowledge is not None and (
        acknowledge not in SIGNALS or reason is None or len(prefixes) > 1
    ):
        known = ", ".join(SIGNALS)
        raise UsageError(
            f"--acknowledge takes one prefix, --reason, and one of these signals: {known}."
        )
    history = read_history(prefixes, store)
    if acknowledge is not None and reason is not None:
        judge = _judge_of(history, of_judge)
        uri = write_acknowledgement(prefixes[0], judge, acknowledge, reason, store)
        say(f"acknowledged  {uri}")
        history = read_history(prefixes, store)
    for note in history.notes:
        say_warning(note)
    timelines = Timelines(history)
    if not timelines.states:
        why = "".join(f" {text}." for text in history.problems)
        raise InputError(
            f"{', '.join(prefixes)}: no metrics files (*.metrics.json) of complete runs; `genrm "
            f"score` writes them.{why}"
        )
    if page is not None:
        judges = _watched_judges(timelines)
        shown = [(state.dump, state) for state in timelines.states]
        overwrite = settings.output.force
        write_page(page, timelines.worst.value, judges, shown, store, overwrite=overwrite)
        say(f"page  {page}")
    if settings.output.json_output:
        dumps = [to_json(state) for state in timelines.states]
        print_json({"format": 1, "state": timelines.worst, "dumps": dumps})
    else:
        _print(timelines)
    return WatchError.exit_code if timelines.worst in settings.output.refused_states else 0


def _watched_judges(timelines: "Timelines") -> "list[WatchedJudge]":
    """Return the judges as the page shows them."""
    from genrm_cli.report.watch_page import WatchedJudge
    from genrm_cli.watching.signals import SIGNALS

    by_judge: dict[str, list[DumpState]] = {}
    for state in timelines.states:
        by_judge.setdefault(state.judge, []).append(state)
    judges = []
    for name, last in timelines.latest.items():
        charts = {}
        for signal in SIGNALS:
            found = [(each.dump, each.signals[signal]) for each in by_judge[name]]
            usual = [each.usual for _, each in found if each.usual is not None]
            limit = f" (usual: {usual[-1]:.3g})" if usual else ""
            values = [(dump, each.value) for dump, each in found]
            if any(value is not None for _, value in values):
                charts[f"{signal.replace('_', ' ')}{limit}"] = values
        judges.append(WatchedJudge(name, last.dump, last, last.look_at, charts))
    return judges


def _judge_of(history: "History", named: str | None) -> str:
    from genrm_cli.watching.history import judge_identity

    judges = dict.fromkeys(judge_identity(record.judge) for record in history.records)
    if named is None and len(judges) == 1:
        return next(iter(judges))
    if named not in judges:
        known = ", ".join(repr(judge) for judge in judges) or "none"
        raise UsageError(f"--of-judge names the judge to acknowledge; the history has: {known}.")
    return named


def _print(timelines: "Timelines") -> None:
    several = len(timelines.latest) > 1
    table = Table([*names("dump", *["judge"] * several, "state"), *numbers(*_COLUMNS)])
    for state in timelines.states:
        values = [(state.signals[signal].value, is_share) for signal, is_share in _COLUMNS.values()]
        cells = (
            percent_text(value) if is_share else number_text(value, ".2f")
            for value, is_share in values
        )
        table.add(_short(state.dump), *[state.judge] * several, state.state.value, *cells)
    print_parts(table)
    for judge, state in timelines.latest.items():
        if sum(each.judge == judge for each in timelines.states) > 1:
            print_text(f"\n{judge}: figures of {_short(state.dump)}, with 95 % intervals")
            print_parts(_figures(state.signals))
        print_text(f"\nstate: {state.state.value}")
        for text in state.reasons:
            print_text(f"- {text}")
        if state.look_at:
            groups = ", ".join(state.look_at)
            print_text(f"groups on which the auditor disagrees most: {groups}")


def _figures(signals: "Mapping[str, SignalState]") -> Table:
    """Return the table of a dump's figures; a state stands only where it can be told."""
    from genrm_cli.watching.signals import SIGNALS

    table = Table([*names("figure"), *numbers("this dump", "usual"), *names("baseline", "state")])
    for name, signal in signals.items():
        if signal.value is None and signal.usual is None:
            continue
        is_share = SIGNALS[name].is_share
        baseline = f"{signal.learned} of {signal.needed}" if signal.needed else "-"
        table.add(
            name,
            _with_interval(signal.value, signal.interval, is_share),
            _with_interval(signal.usual, None, is_share),
            baseline,
            "-" if signal.state == "blind" else signal.state.value,
        )
    return table


def _with_interval(
    value: float | None, interval: "tuple[float, ...] | None", is_share: bool
) -> str:
    unit = 100 if is_share else 1
    form = ".1f" if is_share else ".2f"
    text = percent_text(value) if is_share else number_text(value, ".2f")
    if value is None or interval is None:
        return text
    low, high = (format(unit * each, form) for each in interval)
    return f"{text} ({low} to {high})"


def _short(dump: str) -> str:
    return dump.rpartition("/")[2].removesuffix(".scored.jsonl")
