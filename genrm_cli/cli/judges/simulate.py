"""`genrm simulate`: estimate reward accuracy for a call budget, by plan and by estimator."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.table import Table

from genrm_cli.catalog import ESTIMATORS
from genrm_cli.cli.console import (
    add_row,
    counted,
    new_table,
    percent_text,
    print_json,
    print_table,
    print_text,
    say_warning,
)
from genrm_cli.cli.judges.plan_options import (
    DEFAULT_ESTIMATORS,
    DEFAULT_STRATEGIES,
    CallsOption,
    EstimatorOption,
    SizeOption,
    StrategyOption,
    known_names,
    parse_integer,
    plans_of,
)
from genrm_cli.cli.judges.replay import replay_verdicts
from genrm_cli.cli.options import keyword_parameter, option, run_command, with_parameters
from genrm_cli.errors import UsageError
from genrm_cli.simulation.judge import JudgeModel, judge_fields

if TYPE_CHECKING:
    from genrm_cli.simulation.fit import Fit
    from genrm_cli.simulation.plans import Plan
    from genrm_cli.simulation.recorded_verdicts import KeptVerdicts

SIMULATION_EPILOG = (
    "The judge is simulated and nearly linear; the true qualities are generated. Differences between plans transfer "
    "to a real judge better than absolute values do. Use --fit to make the simulated judge more like yours."
)
_JUDGE_PANEL = "The simulated judge (--fit sets these from your judge's verdicts)"
_MIN_SIZE, _MAX_SIZE, _MAX_GROUPS = 2, 128, 1_000_000


def _with_judge_options(command: Callable[..., int]) -> Callable[..., None]:
    """Add an option for each number of the judge model to a command, which takes the given ones as `given`."""

    def run(**options: Any) -> None:
        given = {each.name: value for each in judge_fields() if (value := options.pop(each.name)) is not None}
        raise typer.Exit(run_command(lambda: command(**options, given=given)))

    return with_parameters(run, command, map(_parameter, judge_fields()), instead_of="given")


def _parameter(field: Any) -> inspect.Parameter:
    text, flag = f"{field.metadata['meaning']} Default: {field.default:g}.", f"--{field.name.replace('_', '-')}"
    # Text, so that errors about it are printed like all others.
    return keyword_parameter(field.name, str, option("NUMBER", text, flag, panel=_JUDGE_PANEL))


_GroupsOption = Annotated[str | None, option("N", "Groups to simulate. Default: 4000.")]
_SeedOption = Annotated[str, option("N", "Random seed; the same seed gives the same results.")]
_FitOption = Annotated[
    str | None,
    option(
        "FILE",
        "Fit the simulated judge to recorded verdicts: a *.comparisons.jsonl (best from a run with --both-orders and "
        "--repeats 2) or a *.journal.sqlite, which records less. The options below override the fit.",
    ),
]
_JudgeOption = Annotated[
    str | None, option("NAME", "With --fit or --replay: the judge whose verdicts to use, if the file has several.")
]
_ReplayOption = Annotated[
    str | None,
    option(
        "FILE",
        "Replay the plans on recorded verdicts instead of simulating: a *.comparisons.jsonl of a run with "
        "--strategy all_pairs --both-orders.",
    ),
]
_PriceOption = Annotated[
    list[str] | None,
    option(
        "JUDGE=PRICE",
        "With --replay: the price of one call of a judge. Repeatable. Shows what a cheaper judge on all pairs adds to "
        "a more expensive one.",
    ),
]
_JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@_with_judge_options
def simulate(
    given: dict[str, str],
    n: SizeOption = None,
    calls: CallsOption = None,
    strategy: StrategyOption = None,
    estimator: EstimatorOption = None,
    groups: _GroupsOption = None,
    seed: _SeedOption = "0",
    fit: _FitOption = None,
    judge: _JudgeOption = None,
    replay: _ReplayOption = None,
    price: _PriceOption = None,
    as_json: _JsonOption = False,
) -> int:
    """Estimate reward accuracy for a call budget.

    The simulated judge sees the true quality of each rollout with position bias, noise, ties and failures. The
    table shows how the rewards correlate with the truth, how often the best rollout ranks first, and whether a
    plan favours an index in the group (index bias).

    Example: genrm simulate

    Example: genrm simulate --n 8 --calls 16 --calls 28 --strategy ring --estimator combined

    Example: genrm simulate --failure-share 0.1 --position-bias 1 --strategy all_pairs

    Example: genrm simulate --fit rollouts.comparisons.jsonl --json > plan.json

    Example: genrm simulate --replay rollouts.comparisons.jsonl
    """
    start = parse_integer(seed, "--seed", 0, 2**63 - 1)
    if replay is not None:
        if given or fit or n or groups:
            raise UsageError("--replay uses recorded verdicts; omit --fit and the options of the simulation.")
        return replay_verdicts(replay, judge, strategy, calls, estimator, price, seed=start, as_json=as_json)
    if price:
        raise UsageError("--price needs --replay, with the verdicts of several judges.")
    size = parse_integer(n or "16", "--n", _MIN_SIZE, _MAX_SIZE)
    count = parse_integer(groups or "4000", "--groups", 2, _MAX_GROUPS)
    plans = plans_of(size, strategy or DEFAULT_STRATEGIES, calls)
    estimators = known_names(estimator or DEFAULT_ESTIMATORS, ESTIMATORS, "estimator")
    result = _simulated(_model(given, fit, judge), size, plans, estimators, groups=count, seed=start)
    if as_json:
        print_json(result)
    else:
        _print_result(result)
    for warning in [] if result["fit"] is None else result["fit"]["warnings"]:
        say_warning(warning)
    return 0


def _simulated(
    judge: "_FittedJudge", n: int, plans: "Sequence[Plan]", estimators: Sequence[str], *, groups: int, seed: int
) -> dict[str, Any]:
    """Return the judge and the figures of each plan with each estimator."""
    from genrm_cli.simulation.quality import describe_judge
    from genrm_cli.simulation.simulate import simulate as iter_metrics

    rows = iter_metrics(judge.model, n, plans, estimators, groups=groups, seed=seed)
    return {
        "n": n,
        "groups": groups,
        "seed": seed,
        "judge": asdict(judge.model),
        "judge_figures": asdict(describe_judge(judge.model, seed)),
        "fit": judge.record,
        "figures": [asdict(row) for row in rows],
    }


class _FittedJudge(NamedTuple):
    """A simulated judge, and what is told of its fit; None if it was not fitted."""

    model: JudgeModel
    record: dict[str, Any] | None = None


def _model(given: dict[str, str], uri: str | None, judge: str | None) -> _FittedJudge:
    """Return the judge: the defaults, overridden by the fit, overridden by the given options."""
    numbers = {name: _number(text, f"--{name.replace('_', '-')}") for name, text in given.items()}
    model = JudgeModel(**numbers)
    if uri is None:
        if judge is not None:
            raise UsageError("--judge selects the verdicts for --fit or --replay; give both.")
        return _FittedJudge(model)
    from genrm_cli.simulation.fit import fit_to_verdicts
    from genrm_cli.simulation.observe import MIN_VERDICTS
    from genrm_cli.simulation.recorded_verdicts import read_verdicts

    kept = read_verdicts(uri, judge)
    if kept.verdicts < MIN_VERDICTS:
        raise UsageError(f"{uri} contains {counted(kept.verdicts, 'verdict')}; --fit needs at least {MIN_VERDICTS}.")
    fitted = fit_to_verdicts(
        model, kept.groups, kept.failures, known_rollouts=kept.known_rollouts, fixed=frozenset(numbers)
    )
    return _FittedJudge(fitted.model, _fit_record(uri, kept, fitted))


def _number(text: str, flag: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{flag}: {text!r} is not a number.") from None


def _fit_record(uri: str, kept: "KeptVerdicts", fitted: "Fit") -> dict[str, Any]:
    names = [each.name for each in judge_fields()]
    return {
        "file": uri,
        "judge": kept.judge,
        "verdicts": kept.verdicts,
        "failures": kept.failures,
        "rollouts_known": kept.known_rollouts,
        "fitted": [name for name in names if name in fitted.parameters],
        "not_fitted": [name for name in names if name not in fitted.parameters],
        "observed": fitted.observed,
        "reached": fitted.reached,
        "warnings": list(_iter_misfits(fitted)),
    }


def _iter_misfits(fitted: "Fit") -> Iterator[str]:
    for name, value in fitted.observed.items():
        reached = fitted.reached.get(name)
        if reached is not None and abs(reached - value) > 0.1 * max(abs(value), 0.5):
            yield f"the simulated judge does not match yours in {name}: {reached:.3g} instead of {value:.3g}."


def _print_result(result: dict[str, Any]) -> None:
    print_table(_metrics_table(result["figures"]))
    print_text()
    print_text(_judge_text(result))
    if result["fit"] is None:
        return
    print_text()
    print_table(_judge_table(result))
    print_text()
    print_text(_fit_text(result["fit"]))


def _metrics_table(rows: list[dict[str, Any]]) -> Table:
    heads = ("calls", "correlation", "±", "Spearman", "best on top", "index bias", "unscored")
    table = new_table("strategy", "estimator", *heads, texts=2)
    for row in rows:
        numbers = (f"{row[name]:.3f}" for name in ("correlation", "correlation_error", "spearman"))
        bias = f"{row['index_bias']:+.3f}"
        shares = percent_text(row["top_1"]), bias, percent_text(row["unscored"])
        add_row(table, row["strategy"], row["estimator"], str(row["calls"]), *numbers, *shares)
    return table


def _judge_text(result: dict[str, Any]) -> str:
    share = {name: percent_text(value) for name, value in result["judge_figures"].items()}
    return (
        f"{result['groups']:,} groups of {result['n']}, seed {result['seed']}; ± is one standard error. The judge: "
        f"right on {share['accuracy']} of the pairs in one call, position 1 chosen in {share['first_place']}, "
        f"swapping flips {share['flips']}, scores tie in {share['ties']}, {share['failures']} of the calls fail."
    )


def _judge_table(result: dict[str, Any]) -> Table:
    table = new_table("judge", "value", "source")
    table.columns[-1].justify = "left"
    for each in judge_fields():
        value = result["judge"][each.name]
        if each.name in result["fit"]["fitted"]:
            source = "verdicts"
        else:
            source = "default" if value == each.default else "option"
        add_row(table, each.name.replace("_", "-"), f"{value:.3g}", source)
    return table


def _fit_text(fit: dict[str, Any]) -> str:
    by = f" by {fit['judge']}" if fit["judge"] else ""
    missing = (
        ""
        if fit["rollouts_known"]
        else (
            "A journal does not record which rollouts were compared, so flips, repeats, errors about pairs and bias by "
            "group keep their defaults; a comparisons file records more. "
        )
    )
    if fit["rollouts_known"] and "intransitivity" not in fit["fitted"]:
        missing = (
            "They cannot separate an error about a pair (intransitivity) from quality, so intransitivity keeps its "
            "default. "
        )
    return (
        f"Fitted to {counted(fit['verdicts'], 'verdict')} and {counted(fit['failures'], 'failure')}{by}. {missing}"
        "Verdicts cannot separate an error that all comparisons of a rollout share (misjudgement) from the truth: "
        "measure accuracy with `genrm eval`."
    )
