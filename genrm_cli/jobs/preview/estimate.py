"""Estimate what a run over an input would cost, less what its journal already holds."""

from collections.abc import Iterable
from typing import Any

from genrm_cli.groups.check import judge_specs
from genrm_cli.groups.judge_group import count_known, iter_prompts
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.cost import cost_of_run
from genrm_cli.jobs.index import InputIndex
from genrm_cli.jobs.journaling.journals import asks_anybody, known_journal
from genrm_cli.jobs.judge_input import correct_plan
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.open_judges import idle_judges
from genrm_cli.settings.panel import judges_of

_COUNTS = ("planned", "known", "calls", "tokens_in", "tokens_out")


def estimate_run(index: InputIndex, run: RunContext, scored_uri: str) -> dict[str, Any]:
    """Return the calls that scoring an input needs, exactly, and their tokens and cost, see `cost_of_run`.

    Args:
        index: of the input.
        run: settings, and the metrics that the index was made with.
        scored_uri: where its scored lines go: beside it lies the journal.

    Raises:
        StorageError: the journal cannot be read.
    """
    metrics, settings = run.metrics, run.settings
    if not asks_anybody(settings):
        return cost_of_run(metrics, settings, None) | dict.fromkeys(("calls", "tokens_in", "tokens_out", "cost"), 0)
    path = known_journal(scored_uri, settings) if judges_of(settings)[0].judge.model else None
    if path is None:
        if index.plan.graders:  # which are not asked about responses without text
            correct_plan(
                metrics, sum(1 for _, _, group in index.iter_groups() for _ in iter_prompts(group, index.plan))
            )
        return cost_of_run(metrics, settings, None)
    with Journal(str(path), read_only=True) as journal:
        judges = idle_judges(judge_specs(settings), run.open_options, journal)
        requests = 0
        for _, _, group in index.iter_groups():
            counted = count_known(group, index.plan, judges)
            requests += counted.requests
            metrics.known += counted.known
            metrics.known_calls += counted.known_calls
        correct_plan(metrics, requests)
        return cost_of_run(metrics, settings, journal)


def total_of(plans: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the sum of what several inputs would cost; the cost is null if one is."""
    total: dict[str, Any] = dict.fromkeys(_COUNTS, 0)
    costs, sources = [], set()
    for plan in plans:
        for name in _COUNTS:
            total[name] += plan[name]
        costs.append(plan["cost"])
        sources.add(plan["tokens_from"])
    return total | {
        "tokens_from": "; ".join(sorted(sources)) or "nothing",
        "cost": None if None in costs else round(sum(costs), 4),
    }
