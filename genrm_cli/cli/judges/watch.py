"""`genrm watch`: show the state of a judge over many runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from genrm_cli.cli.console import say, say_warning
from genrm_cli.cli.options import Invocation, argument
from genrm_cli.cli.tables import print_result
from genrm_cli.errors import InputError, UsageError, WatchError
from genrm_cli.settings.declare import setting

if TYPE_CHECKING:
    from genrm_cli.storage.store import Store
    from genrm_cli.watching.history import History


def watch(
    invocation: Invocation,
    prefixes: list[str] = argument(
        "PREFIX", "Folders or s3://bucket/rl/.../ with the metrics of scored rollouts."
    ),
    page: str | None = setting("Also write the figures over time as a page.", metavar="OUT.html"),
    acknowledge: str | None = setting(
        "End the alarm of this signal, and take its baseline again; needs --reason.",
        metavar="SIGNAL",
    ),
    reason: str | None = setting("Why the alarm needs no action."),
    of_judge: str | None = setting(
        "The judge whose alarm ends, as the command names it. Default: the only one.",
        metavar="JUDGE",
    ),
) -> int:
    """Show the state after each run over the rollouts of a prefix: is the judge the same, is it
    gamed?

    Reads the metrics files of `genrm score`. A [watch] table in its settings adds sentinels, audits
    and canaries; see `genrm guide watch`.

    Example: genrm watch s3://bucket/rl/env/scored/

    Example: genrm watch scored --acknowledge sentinel_flips \\
      --reason "new judge since Monday"
    """
    from genrm_cli.cli.judges.watch_text import iter_history_parts, watched_judges
    from genrm_cli.products.report.watch_page import write_page
    from genrm_cli.scored.json_form import to_json
    from genrm_cli.storage.store import Store
    from genrm_cli.watching.history import Timelines, read_history

    output = invocation.settings.output
    store = Store(invocation.settings.storage)
    history = read_history(prefixes, store)
    if acknowledge is not None:
        _acknowledge(history, prefixes, acknowledge, reason, of_judge, store)
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
        states = [(state.dump, state) for state in timelines.states]
        judges_shown = watched_judges(timelines)
        worst = timelines.worst.value
        write_page(page, worst, judges_shown, states, store, overwrite=output.force)
        say(f"page  {page}")
    dumps = [to_json(state) for state in timelines.states]
    document = {"format": 1, "state": timelines.worst, "dumps": dumps}
    print_result(invocation.settings, document, *iter_history_parts(timelines))
    return WatchError.exit_code if timelines.worst in output.refused_states else 0


def _acknowledge(
    history: "History",
    prefixes: Sequence[str],
    signal: str,
    reason: str | None,
    judge: str | None,
    store: "Store",
) -> None:
    """Record that the alarm of a signal needs no action."""
    from genrm_cli.watching.history import acknowledge, judge_identity
    from genrm_cli.watching.signals import SIGNALS

    if signal not in SIGNALS or reason is None or len(prefixes) > 1:
        raise UsageError(
            "--acknowledge takes one prefix, --reason, and one of these signals: "
            f"{', '.join(SIGNALS)}."
        )
    judges = dict.fromkeys(judge_identity(record.judge) for record in history.records)
    if judge is None and len(judges) == 1:
        judge = next(iter(judges))
    if judge is None or judge not in judges:
        known = ", ".join(map(repr, judges)) or "none"
        raise UsageError(f"--of-judge names the judge to acknowledge; the history has: {known}.")
    say(f"acknowledged  {acknowledge(prefixes[0], judge, signal, reason, store)}")
