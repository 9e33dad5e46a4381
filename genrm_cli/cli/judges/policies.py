"""`genrm rank`: which policy is better, from pairwise verdicts on the same prompts."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from genrm_cli.cli.console import say_warning
from genrm_cli.cli.events import watched
from genrm_cli.cli.options import ROLLOUTS, Invocation, run_to_end
from genrm_cli.cli.scoring.preview_text import plan_lines
from genrm_cli.cli.scoring.run_warnings import BASELINE_NOTICE
from genrm_cli.cli.tables import Table, names, numbers, print_result
from genrm_cli.errors import counted
from genrm_cli.metrics.figures import STRENGTH, WINS
from genrm_cli.settings.declare import setting

if TYPE_CHECKING:
    from genrm_cli.products.ranking.rank_policies import Ranking

_MOST_PAIRS = 45  # of ten policies; more are no table that anybody reads
_option = partial(setting, is_common=True)


def rank(
    invocation: Invocation,
    rollouts: list[str] = ROLLOUTS,
    policy_field: str | None = _option(
        "Dotted path of the field that names the policy. Default: the file.", metavar="PATH"
    ),
    report: str | None = setting("Also write the ranking as a page.", metavar="OUT.html"),
) -> None:
    """Compare policies on the same prompts: win rates and strengths, with intervals that hold
    however often you look.

    Each file is a policy, or --policy-field names it. Scored rollouts are read as they are; others
    are scored first, with the journal of genrm score: a pairwise judge compares all pairs in both
    orders, and a judge that grades responses or lists of them ranks policies by its grades.

    Example: genrm rank old.jsonl new.jsonl --model my-genrm \\
      --base-url http://localhost:8000/v1

    Example: genrm rank rollouts.scored.jsonl --policy-field model --json
    """
    from genrm_cli.jobs.context import new_run
    from genrm_cli.products.ranking.rank_policies import (
        plan_ranking,
        rank_policies,
        rank_settings,
        refuse_partial,
    )
    from genrm_cli.storage.outputs import check_output

    given = invocation.settings
    own = rank_settings(given)
    if given.output.dry_run:
        plan = plan_ranking(rollouts, policy_field, new_run(own, invocation.api_keys))
        print_result(given, plan, *plan_lines(plan))
        return
    if report is not None:
        check_output(report, rollouts, given)
    with watched(own, invocation.api_keys) as run:
        ranking = run_to_end(rank_policies(rollouts, policy_field, run))
    if report is not None:
        from genrm_cli.products.report.figures_page import write_ranking_page

        write_ranking_page(report, ranking, ranking.inputs, given)
    print_result(given, ranking, *_iter_parts(ranking))
    if ranking.judged_by is not None and ranking.judged_by.is_baseline:
        say_warning(BASELINE_NOTICE)
    for warning in ranking.warnings:
        say_warning(warning)
    refuse_partial(ranking, given)


def _iter_parts(ranking: "Ranking") -> Iterator[str | Table]:
    """Yield the leaderboard, who beats whom, and the sentence."""
    heads = numbers("wins", "strength", "95 %", "prompts")
    table = Table([*names("policy"), *heads])
    for row in ranking.policies:
        table.add(
            row.name,
            _percent(row.win_rate),
            STRENGTH.number(row.strength),
            STRENGTH.ends(row.lo, row.hi),
            f"{row.prompts:,}",
        )
    yield table
    yield ""
    pairs = Table(
        [*names("pair"), *numbers("wins", "95 %", "prompts", "ties", "failed"), *names("")]
    )
    for pair in ranking.pairs[:_MOST_PAIRS]:
        pairs.add(
            f"{pair.a} against {pair.b}",
            _percent(pair.w),
            WINS.ends(pair.lo, pair.hi),
            f"{pair.n_prompts:,}",
            f"{pair.ties:,}",
            f"{pair.failed:,}",
            "differs" if pair.better else "",
        )
    yield pairs
    if len(ranking.pairs) > _MOST_PAIRS:
        more = counted(len(ranking.pairs) - _MOST_PAIRS, "more pair")
        yield f"{more}: see --json or --report"
    yield (
        "\nwins: share won against all others, both orders alike. strength: log odds of a win "
        "against the mean. Intervals hold for all pairs together, and however often you look.\n"
    )
    for what, count in ranking.left_out.items():
        yield f"left out: {count:,} × {what}"
    yield ranking.sentence


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{WINS.number(share)} %"
