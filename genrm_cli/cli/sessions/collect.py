"""`genrm collect`: play simulated sessions and write them as rollouts."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from genrm_cli.cli.console import counted, percent_text, print_json, say
from genrm_cli.cli.events import Events
from genrm_cli.cli.options import ALL_PANELS, Invocation, run_to_end, with_groups, with_settings
from genrm_cli.cli.scoring.score import run_score
from genrm_cli.cli.sessions.flags import ClientFlags, EpisodeFlags, PolicyFlags
from genrm_cli.errors import UsageError
from genrm_cli.settings import changed

if TYPE_CHECKING:
    from genrm_cli.sessions.collected_files import CollectOptions
    from genrm_cli.sessions.collection import CollectReport

_OMITTED = ("output", "dry_run", "use_journal", "only_failed")
_RUN_ID = "{run_id}"


@with_settings(*ALL_PANELS, omit=_OMITTED)
@with_groups(PolicyFlags, ClientFlags, EpisodeFlags)
def collect(
    scenarios: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIOS",
            help="Scenarios: .toml with [[scenario]] tables, or .jsonl; a path or s3://...; "
            "samples for those that come with genrm.",
        ),
    ],
    invocation: Invocation,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="OUT", help="A .jsonl file: a path or s3://bucket/rl/...; may hold {run_id}."
        ),
    ],
    policy: PolicyFlags,
    client: ClientFlags,
    which: EpisodeFlags,
    score: Annotated[
        bool, typer.Option("--score", help="Then score the sessions, with the judge of --base-url.")
    ] = False,
) -> int:
    """Play simulated sessions of a policy and write them as rollouts that `genrm score` reads.

    Scenarios must be synthetic or de-identified, and say so. A killed run continues in mid-session: run the same
    command again. Also writes <stem>.collect.json and, if any session is left out, <stem>_failures.jsonl.

    Example: genrm collect samples --policy-base-url http://localhost:8000/v1 --policy-model my-model -o run_01.jsonl

    Example: genrm collect samples --scripted-policy good -o demo.jsonl
    """
    which.check()
    policy.check(which.branch_at)
    options = _options(output, policy, client, which)
    if score:
        from genrm_cli.groups.check import check_settings

        check_settings(invocation.settings)  # before a session is paid for
    _collect(scenarios, which, options, invocation, policy.scripted_policy)
    if not score:
        return 0
    settings = changed(invocation.settings, output=None, min_age=0.0)
    return run_score([options.output], replace(invocation, settings=settings))


def _options(output: str, policy: PolicyFlags, client: ClientFlags, which: EpisodeFlags) -> "CollectOptions":
    from genrm_cli.sessions.collected_files import CollectOptions

    run_id = which.run_id or _named_by(output, policy.policy_role)
    return CollectOptions(
        output=output.replace(_RUN_ID, run_id),
        run_id=run_id,
        policy_name=policy.name,
        policy=policy.policy(),
        base_model=policy.base_model,
        role=policy.policy_role,
        trunk=policy.trunk(),
        client=client.roles(policy.policy_base_url),
        episodes=which.episodes,
        variants=which.variants,
        seed=which.client_seed,
        in_flight=which.sessions,
        branch_at=which.branch_at,
        keep_faulty=which.keep_client_faults,
    )


def _named_by(output: str, role: str) -> str:
    """Return the name of the output; a teacher's differs from the policy's, so that their rollouts do, too."""
    if _RUN_ID in output:
        raise UsageError(f"-o holds {_RUN_ID}; name the run with --run-id.")
    stem = output.rpartition("/")[2].removesuffix(".jsonl")
    return f"{role}-{stem}" if role == "teacher" and "teacher" not in stem else stem


def _collect(
    scenarios: str,
    which: EpisodeFlags,
    options: "CollectOptions",
    invocation: Invocation,
    counsellor: str | None,
) -> None:
    from genrm_cli.jobs.context import new_run
    from genrm_cli.sessions.collection import collect as run_collect
    from genrm_cli.sessions.scenario_files import read_scenario_tables
    from genrm_cli.sessions.therapy.environment import ENVIRONMENTS as BUILT
    from genrm_cli.sessions.therapy.environment import scripted_policy

    written = invocation.settings.output
    with Events(written.log_json, quiet=written.quiet, log_only=("judge",)) as events:
        run = new_run(invocation.settings, {}, None, events)
        tables = read_scenario_tables(scenarios, run.s3)
        built = BUILT[which.environment](scripted=not options.client, max_turns=which.max_turns)
        act = None if counsellor is None else scripted_policy(counsellor)
        report = run_to_end(run_collect(built, tables, scenarios, options, run, act))
    if written.json_output:
        print_json(dict(report.summary))
    if not written.quiet:
        _show(report, options)


def _show(report: "CollectReport", options: "CollectOptions") -> None:
    """Print what a run collected, for a person."""
    summary = report.summary
    if report.is_current:
        say(f"{options.output} is up to date (same scenarios and settings); use --force to collect it again")
        return
    say(f"{summary['environment']}: {counted(summary['episodes_written'], 'episode')} -> {options.output}")
    say(f"ends: {_counts(summary['ends'])}")
    if summary["client"].get("scripted"):
        say(f"client: {summary['client']['name']}, a stand-in without a model")
    if summary["client_faults"]:
        low, high = summary["client_fault_rate_interval"]
        say(
            f"client faults: {percent_text(summary['client_fault_rate'])} of the sessions (95 % interval "
            f"{percent_text(low)} to {percent_text(high)}): {_counts(summary['client_faults'])}; "
            + ("kept" if options.keep_faulty else "left out")
        )
    for reason, count in summary["failed"].items():
        say(f"failed: {count:,} × {reason} (for example {summary['failure_examples'][reason]})")
    if summary["ended_before_branch"]:
        say(f"left out: {counted(summary['ended_before_branch'], 'session')} that ended before --branch-at")
    means = (f"{name} {stats['mean']:.3f}" for name, stats in summary["components"].items())
    say(f"rules (mean, 1 is best): {', '.join(means)}")
    for role, counts in summary["roles"].items():
        if not counts["calls"] + counts["from_journal"]:
            continue  # scripted
        say(
            f"{role}: {counted(counts['calls'], 'call')}, {counts['from_journal']:,} turns from the journal, "
            f"{counts['prompt_tokens']:,} tokens in, {counts['completion_tokens']:,} out"
        )
    say("All sessions are simulated and all scores are advisory: let experts review them before training.")


def _counts(counts: dict[str, Any]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "none"
