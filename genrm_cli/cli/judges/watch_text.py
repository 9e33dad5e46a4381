"""Render the states of judges over many runs."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from genrm_cli.cli.console import number_text, percent_text, range_text
from genrm_cli.cli.tables import Table, names, numbers
from genrm_cli.products.report.watch_page import WatchedJudge
from genrm_cli.watching.history import Timelines
from genrm_cli.watching.signals import SIGNALS
from genrm_cli.watching.track import SignalState

# The signal in each column.
_COLUMNS = {
    "failed": "failures",
    "flips": "sentinel_flips",
    "errors": "sentinel_errors",
    "audits": "audits",
    "reliability": "reliability",
    "length": "length_effect",
}
# What the state of a dump or of a signal means where its name alone does not say it.
STATES = {"blind": "blind: whether the judge has changed cannot be told"}


def watched_judges(timelines: Timelines) -> list[WatchedJudge]:
    """Return the judges as the page shows them."""
    judges = []
    for name, last in timelines.latest.items():
        charts = {}
        for signal in SIGNALS:
            found = [
                (each.dump, each.signals[signal]) for each in timelines.states if each.judge == name
            ]
            values = [(dump, each.value) for dump, each in found]
            usual = [each.usual for _, each in found if each.usual is not None]
            limit = f" (usual: {usual[-1]:.3g})" if usual else ""
            if any(value is not None for _, value in values):
                charts[f"{signal.replace('_', ' ')}{limit}"] = values
        judges.append(WatchedJudge(name, last.dump, last, last.look_at, charts))
    return judges


def iter_history_parts(timelines: Timelines) -> Iterator[str | Table]:
    """Yield the table of all dumps, then the last figures and the state of each judge."""
    several = len(timelines.latest) > 1
    label_of = _labels([state.dump for state in timelines.states])
    table = Table([*names("dump", *["judge"] * several, "state"), *numbers(*_COLUMNS)])
    for state in timelines.states:
        table.add(
            label_of[state.dump],
            *[state.judge] * several,
            state.state.value,
            *(_value_text(name, state.signals[name].value) for name in _COLUMNS.values()),
        )
    yield table
    for judge, state in timelines.latest.items():
        if sum(each.judge == judge for each in timelines.states) > 1:
            yield f"\n{judge}: figures of {label_of[state.dump]}, with 95 % intervals"
            yield _figures(state.signals)
        yield f"\nstate: {STATES.get(state.state, state.state.value)}"
        yield from (f"- {text}" for text in state.reasons)
        if state.look_at:
            yield f"groups on which the auditor disagrees most: {', '.join(state.look_at)}"


def _figures(signals: Mapping[str, SignalState]) -> Table:
    """Return the table of a dump's figures; a state stands only where it can be told."""
    table = Table([*names("figure"), *numbers("this dump", "usual"), *names("baseline", "state")])
    for name, signal in signals.items():
        if signal.value is None and signal.usual is None:
            continue
        value = _value_text(name, signal.value)
        if signal.value is not None and signal.interval is not None:
            is_share = SIGNALS[name].is_share
            form = ".1f" if is_share else ".2f"
            low, high = signal.interval
            value += f" ({range_text(low, high, form, unit=100 if is_share else 1)})"
        table.add(
            name,
            value,
            _value_text(name, signal.usual),
            f"{signal.learned} of {signal.needed}" if signal.needed else "-",
            "-" if signal.state == "blind" else signal.state.value,
        )
    return table


def _value_text(signal: str, value: float | None) -> str:
    return percent_text(value) if SIGNALS[signal].is_share else number_text(value, ".2f")


def _labels(dumps: Sequence[str]) -> dict[str, str]:
    """Return the names of files without folders and suffix; those that share a name, whole."""
    short = {dump: dump.rpartition("/")[2].removesuffix(".scored.jsonl") for dump in dumps}
    counts = Counter(short.values())
    return {dump: name if counts[name] == 1 else dump for dump, name in short.items()}
