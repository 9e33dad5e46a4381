"""`genrm rank`: which policy is better, from pairwise verdicts on the same prompts."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING

from genrm_cli.cli.console import (
    number_text,
    percent_text,
    range_text,
    say_warning,
)
from genrm_cli.cli.events import watched
from genrm_cli.cli.options import ROLLOUTS, Invocation, run_to_end
from genrm_cli.cli.scoring.preview_text import plan_lines
from genrm_cli.cli.scoring.run_warnings import BASELINE_NOTICE
from genrm_cli.cli.tables import Table, names, numbers, print_result
from genrm_cli.errors import counted
from genrm_cli.settings import Settings
from genrm_cli.settings.declare import setting

if TYPE_CHECKING:
    from genrm_cli.products.ranking.board import PolicyRow
    from genrm_cli.products.ranking.people_labels import LabelledWinRate
    from genrm_cli.products.ranking.rank_policies import Ranking

_option = partial(setting, is_common=True)
# By the name that a ranking gives its intervals: what a reader may do with them.
_INTERVALS = {
    "anytime": "Intervals hold however often you look.",
    "one look": "Intervals hold for one look at a planned number of prompts.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOptions:
    """The policies, and how they are compared."""

    policy_field: str | None = _option(
        "Dotted path of the field that names the policy. Default: the file.", metavar="PATH"
    )
    over: str | None = _option(
        "Dotted path of a field whose numbers are the policies, for a curve, such as step.",
        metavar="PATH",
    )
    baseline: str | None = _option("Compare the other policies with this one only.", metavar="NAME")
    samples: int = _option("Responses of each policy per prompt.", 1, low=1, high=64)
    one_order: bool = _option("Ask for each pair in one random order: half the calls.", False)
    one_look: bool = _option(
        "The number of prompts was planned, and this is the only look: narrower intervals, which "
        "do not hold if you add prompts and look again.",
        False,
    )


def rank(
    invocation: Invocation,
    which: PolicyOptions,
    rollouts: list[str] = ROLLOUTS,
    labels: str | None = setting(
        "People's labels of some prompts, for win rates that hold whatever the judge.",
        metavar="LABELS.jsonl",
    ),
    report: str | None = setting(
        "Also write a page with all pairs and a chart.", metavar="OUT.html"
    ),
) -> None:
    """Compare policies on the same prompts: win rates and a leaderboard, with intervals.

    Each file is a policy, or --policy-field names it. Verdicts of genrm score on these files are
    used again. Before the first call, genrm says which difference the plan can show.

    Example: genrm rank old.jsonl new.jsonl --model my-genrm \\
      --base-url http://localhost:8000/v1

    Example: genrm rank steps.jsonl --over step --offline --json
    """
    from genrm_cli.jobs.context import new_run
    from genrm_cli.products.ranking.rank_policies import (
        plan_ranking,
        rank_policies,
        refuse_partial,
        split_options,
    )

    given = invocation.settings
    chosen = asdict(which)
    both_orders = not chosen.pop("one_order")
    options, own = split_options(given, both_orders=both_orders, **chosen)
    if given.output.dry_run:
        plan = plan_ranking(rollouts, options, new_run(own, invocation.api_keys))
        print_result(given, plan, plan.text(), *plan_lines(plan.estimate))
        return
    with watched(own, invocation.api_keys) as run:
        ranking = run_to_end(rank_policies(rollouts, options, run, labels))
    if report is not None:
        _write_page(ranking, report, given)
    print_result(given, ranking, *_iter_parts(ranking))
    if ranking.judged_by.is_baseline:
        say_warning(BASELINE_NOTICE)
    for warning in ranking.warnings:
        say_warning(warning)
    refuse_partial(ranking, given)


def _write_page(ranking: "Ranking", uri: str, settings: Settings) -> None:
    from genrm_cli.products.report.charts import Point
    from genrm_cli.products.report.write_report import PolicySection, write_report

    points = [
        Point(row.elo, row.band_lo, row.band_hi, f"{row.name}: {row.elo}")
        for row in (ranking.policies if ranking.over is not None else ())
    ]
    section = PolicySection(ranking, ranking.inputs, points)
    write_report([], uri, settings, policies=section)


def _iter_parts(ranking: "Ranking") -> Iterator[str | Table]:
    """Yield the leaderboard, who beats whom, and sentences."""
    heads = numbers("rank", "wins", "95 %", "Elo", "±", "adj.", "prompts", "verdicts", "chars")
    table = Table([*names("policy"), *heads])
    for row in ranking.policies:
        table.add(row.name, *_cells(row))
    yield table
    accounted = f"with {counted(ranking.comparisons_accounted, 'comparison')} accounted for"
    if len(ranking.policies) > 2:
        legend = f"Row beats column, in percent, ± half of the 95 % interval; * sure {accounted}."
        yield from ("", _matrix(ranking), "", legend)
    yield (
        f"\nwins: share won against {ranking.baseline or 'all others'}, both orders alike. rank: "
        f"ranks that remain {accounted}. {_INTERVALS[ranking.interval]} Elo: strength against "
        f"{ranking.baseline or 'the mean'}, ± half of the 95 % interval; adj.: if all responses "
        "were equally long.\n"
    )
    yield from ranking.findings
    yield from map(_labelled_text, ranking.labelled)


def _labelled_text(found: "LabelledWinRate") -> str:
    """Return a win rate from people's labels as a sentence."""
    pair = f"by people, {found.a} beats {found.b}"
    people = found.people
    if people is None:
        return f"{pair}: unknown from {counted(found.prompts, 'prompt')}; label four or more"
    source = "the labels alone"
    if not found.is_random:
        source += ", as nothing says that their prompts were drawn at random"
    elif people.narrower is not None:
        source = f"{people.narrower:.2f} times the width of the labels alone"
    interval = f"{range_text(people.low, people.high)}; {counted(found.prompts, 'labelled prompt')}"
    return (
        f"{pair} in {percent_text(people.mean)} ({interval}, {source}); the judge says "
        f"{percent_text(found.verdicts)}"
    )


def _cells(row: "PolicyRow") -> tuple[str, ...]:
    from genrm_cli.products.ranking.board import percent_won

    half = None if row.elo_hi is None or row.elo is None else row.elo_hi - row.elo
    interval = [percent_won(each) for each in (row.lo, row.hi) if each is not None]
    ranks = dict.fromkeys(str(rank) for rank in (row.rank_lo, row.rank_hi) if rank is not None)
    return (
        "-".join(ranks) or "-",
        "-" if row.win_rate is None else f"{percent_won(row.win_rate)} %",
        "-".join(interval) or "-",
        (row.bound or "").strip("=") + number_text(row.elo, "+.0f"),
        number_text(half, ".0f"),
        number_text(row.elo_length, "+.0f"),
        f"{row.prompts:,}",
        f"{row.verdicts:,}",
        number_text(row.chars, ",.0f"),
    )


def _matrix(ranking: "Ranking") -> Table:
    from genrm_cli.products.ranking.board import percent_won

    policies = [row.name for row in ranking.policies]
    table = Table([*names(""), *numbers(*policies)])
    for name in policies:
        cells = []
        for other in policies:
            cell = ""
            if (found := ranking.win_rate(name, other)) is not None:
                row, rate, (low, high) = found
                half = "" if low is None or high is None else f" ±{50 * (high - low):.0f}"
                cell = f"{percent_won(rate, 0)}{half}{'*' if row.better else ''}"
            cells.append(cell)
        table.add(name, *cells)
    return table
