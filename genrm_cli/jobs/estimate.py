"""Estimate the cost of a run before it is paid for, less what its journal holds."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import floor
from statistics import fmean
from typing import Any

from msgspec import Struct, to_builtins

from genrm_cli.errors import UsageError, counted
from genrm_cli.groups.asking.stages import count_requests
from genrm_cli.groups.check import judge_specs
from genrm_cli.groups.compile import compile_plan
from genrm_cli.groups.group import Group
from genrm_cli.groups.judge_group import recall_group
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.index import InputIndex, correct_plan, count_planned
from genrm_cli.jobs.journals import has_remote_judge, known_journal
from genrm_cli.json_types import Record
from genrm_cli.judging.engine import JudgeSet
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.lookup import ProfileSource, source_of_profile
from genrm_cli.judging.opening.judge_spec import JudgeSpec
from genrm_cli.judging.opening.open_judges import idle_judges
from genrm_cli.judging.pacing.policy import cost_of
from genrm_cli.judging.profiles.profile import GradingProfile, Profile, render_messages
from genrm_cli.judging.request_form import reply_limit
from genrm_cli.judging.requests import ListwisePrompt, PairwisePrompt, Prompt
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.settings import changed
from genrm_cli.settings.panel import judges_of

CHARS_PER_TOKEN = 4  # of English text; replaced by the mean tokens in the journal
ASSUMED_REPLY_TOKENS = 1_500  # of a reasoning judge; replaced by the journal's mean
# Prompts without texts: what they render to are the instructions of a profile.
_NOTHING_SHOWN: dict[type, Prompt] = {
    Profile: PairwisePrompt([("user", "")], "", ""),
    GradingProfile: ListwisePrompt([("user", "")], ("",)),
}


class RunEstimate(Struct, frozen=True):
    """The estimated needs of a run.

    Attributes:
        planned: requests, most of them comparisons.
        calls: calls to make, exact without retries. A judge with two turns takes two calls per
            comparison.
        cost: cost in the currency of the prices; None without prices.
        most_calls: calls to make if failed comparisons are replaced as often as `max_extra` allows.
    """

    planned: int = 0
    known: int = 0
    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_from: str = "nothing"
    cost: float | None = 0.0
    most_calls: int = 0

    def text(self) -> str:
        """Return the comparisons, calls, tokens and cost in one line."""
        known = f", {self.known:,} of them answered in an earlier run" if self.known else ""
        calls = counted(self.calls, "call")
        made = f"{counted(self.planned, 'comparison')}{known}: {calls} to make"
        if not self.calls:
            return made
        if self.most_calls > self.calls:
            made += f", at most {self.most_calls:,} if comparisons fail"
        cost = f", cost about {self.cost:,.2f}" if self.cost is not None else ""
        return (
            f"{made}, about {self.tokens_in:,} tokens in and {self.tokens_out:,} out (estimated "
            f"from {self.tokens_from}){cost}"
        )

    def as_dict(self) -> Record:
        """Return the estimate, JSON-ready."""
        estimate: Record = to_builtins(self)
        return estimate


def estimate_run(
    groups: Iterable[Group], plan: GroupPlan, run: RunContext, output_uri: str
) -> RunEstimate:
    """Estimate the needs of judging the groups of an input, from the metrics that its index
    filled, less what the journal of its output holds; blocks.
    """
    metrics = run.metrics
    settings = run.settings
    if not has_remote_judge(settings):
        return RunEstimate(metrics.comparisons_planned)
    # The key of a request names the model, which only the endpoint knows if the settings do not.
    path = known_journal(output_uri, settings) if judges_of(settings)[0].judge.model else None
    if path is None:
        _correct_counts(groups, plan, run)
        return estimate_rest(run, None)
    with Journal(str(path), read_only=True) as journal:
        judges, specs = idle_judges(judge_specs(settings), run.open_options, journal)
        correct_plan(metrics, add_known(groups, plan.with_judges(specs), judges, metrics))
        return estimate_rest(run, journal)


def _correct_counts(groups: Iterable[Group], plan: GroupPlan, run: RunContext) -> None:
    """Count requests that depend on texts: graders are not asked about responses without text, and
    lists that do not fit into the context of the judge are shorter.
    """
    plan = plan.with_judges(run.judge_specs())
    if plan.graders or (plan.is_listwise and plan.rooms):
        correct_plan(run.metrics, sum(count_requests(group, plan) for group in groups))


def estimate_other_mode(index: InputIndex, run: RunContext) -> tuple[str, RunEstimate] | None:
    """Return the other value of the setting `judging`, and the estimate of a run with it, without a
    journal; None if the judge's profile leaves no choice.
    """
    judge = run.settings.judge
    is_chosen = judge.judging == "listwise"
    configs = judges_of(run.settings)
    if judge.model is None or judge.judge is not None or len(configs) > 1:
        return None
    if not is_chosen and source_of_profile(configs[0]) is not ProfileSource.DEFAULT:
        return None
    mode = "pairwise" if is_chosen else "listwise"
    settings = changed(run.settings, judging=mode, both_orders=False, goal="rewards")
    try:
        other = replace(run, settings=settings, plan=compile_plan(settings), metrics=RunMetrics())
        count_planned(index, other.plan, other.metrics)
        _correct_counts((group for _, _, group in index.iter_groups()), other.plan, other)
    except UsageError:  # the context of the judge has no room for lists, for example
        return None
    return mode, estimate_rest(other, None)


def add_known(
    groups: Iterable[Group], plan: GroupPlan, judges: JudgeSet, metrics: RunMetrics
) -> int:
    """Count the requests about groups whose answers are known; return the number of all requests
    about them.
    """
    requests = 0
    for group in groups:
        counted = recall_group(group, plan, judges)
        requests += counted.requests
        metrics.known += counted.known
        metrics.known_calls += counted.known_calls
    return requests


def estimate_rest(run: RunContext, journal: Journal | None) -> RunEstimate:
    """Estimate what remains to be asked, from the counts of an input.

    Tokens are the means of the journal. Without one, four characters of the prompts are a token,
    and a reply has 1,500 tokens, or less where the settings or the profile limit it."""
    metrics = run.metrics
    limits = run.settings.limits
    planned = metrics.comparisons_planned
    left = planned - metrics.known
    calls = max(planned, metrics.planned_calls) - max(metrics.known, metrics.known_calls)
    means = journal.mean_tokens() if journal is not None else None
    if means is not None:
        tokens_in = means[0] * left
        tokens_out = means[1] * left
        source = "the journal"
    else:
        instruction_chars, reply_tokens = _lengths_of(run.judge_specs())
        chars = metrics.prompt_chars + metrics.planned_calls * instruction_chars
        tokens_in = chars / CHARS_PER_TOKEN * (left / planned if planned else 0.0)
        tokens_out = float(reply_tokens * calls)
        source = f"text lengths, {reply_tokens:,} a reply"
    # A cost without prices would be a made-up zero.
    has_price = bool(limits.price_in or limits.price_out)
    return RunEstimate(
        planned=planned,
        known=metrics.known,
        calls=calls,
        tokens_in=round(tokens_in),
        tokens_out=round(tokens_out),
        tokens_from=source,
        most_calls=calls + _most_extra(run),
        cost=round(cost_of(tokens_in, tokens_out, limits.price_in, limits.price_out), 4)
        if has_price
        else None,
    )


def _most_extra(run: RunContext) -> int:
    """Return how many calls may replace failed ones; none under `compat`."""
    settings = run.settings
    if settings.judge.compat is not None:
        return 0
    planned = max(run.metrics.comparisons_planned, run.metrics.planned_calls)
    return floor(settings.pairing.max_extra * planned)


def _lengths_of(specs: Iterable[JudgeSpec]) -> tuple[float, int]:
    """Return the characters that profiles add to a conversation and responses, and the assumed
    tokens of a reply, no more than a judge may write; the means over several judges.
    """
    chars = []
    tokens = []
    for spec in specs:
        if spec.profile is None:
            continue
        limit = reply_limit(spec.profile.request_fields, spec.config.judge)
        tokens.append(min(ASSUMED_REPLY_TOKENS, limit or ASSUMED_REPLY_TOKENS))
        # The frame of a prompt is measured by rendering one without texts.
        nothing = _NOTHING_SHOWN.get(type(spec.profile))
        if nothing is not None:
            messages = render_messages(spec.profile, nothing)
            chars.append(sum(len(message["content"]) for message in messages))
    mean_tokens = fmean(tokens) if tokens else ASSUMED_REPLY_TOKENS
    return fmean(chars) if chars else 0.0, round(mean_tokens)


def total_of(estimates: Sequence[RunEstimate]) -> RunEstimate:
    """Return the needs of several inputs together."""
    total: dict[str, Any] = {
        name: sum(getattr(each, name) for each in estimates)
        for name in ("planned", "known", "calls", "most_calls", "tokens_in", "tokens_out")
    }
    sources = sorted({each.tokens_from for each in estimates})
    costs = [each.cost for each in estimates if each.cost is not None]
    cost = round(sum(costs), 4) if len(costs) == len(estimates) else None
    return RunEstimate(**total, tokens_from="; ".join(sources) or "nothing", cost=cost)
