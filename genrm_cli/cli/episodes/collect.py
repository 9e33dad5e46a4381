"""`genrm collect`: play simulated sessions and write them as rollouts."""

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from genrm_cli.catalog import COUNSELLORS, ENVIRONMENTS, explained, listed
from genrm_cli.cli.console import counted, percent_text, print_json, say
from genrm_cli.cli.events import Events
from genrm_cli.cli.options import ALL_PANELS, Invocation, option, run_to_end, with_settings
from genrm_cli.cli.scoring.score import run_score
from genrm_cli.errors import UsageError
from genrm_cli.settings import changed
from genrm_cli.settings.judge_settings import JudgeSettings
from genrm_cli.settings.sources.keys import find_api_key

if TYPE_CHECKING:
    from genrm_cli.episodes.agents import AgentConfig
    from genrm_cli.episodes.collect import CollectReport
    from genrm_cli.episodes.collect_options import CollectOptions

_OMITTED = ("output", "dry_run", "use_journal", "only_failed")
_POLICY, _CLIENT, _EPISODES = "Policy", "Simulated client", "Episodes"
_RUN_ID = "{run_id}"


@with_settings(*ALL_PANELS, omit=_OMITTED)
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
    policy_base_url: Annotated[
        list[str] | None, option("URL", "OpenAI-compatible endpoint of the policy. Repeatable.", panel=_POLICY)
    ] = None,
    policy_model: Annotated[str | None, option("NAME", "Its model name on the server.", panel=_POLICY)] = None,
    policy_temperature: Annotated[float, option("NUMBER", "Default: 1.", panel=_POLICY)] = 1.0,
    policy_top_p: Annotated[float | None, option("NUMBER", "Default: the server's.", panel=_POLICY)] = None,
    policy_max_tokens: Annotated[int, option("N", "Most tokens of a turn. Default: 512.", panel=_POLICY)] = 512,
    policy_api_key_env: Annotated[
        str | None,
        option("NAME", "Variable with its key. Default: GENRM_API_KEY, then OPENAI_API_KEY.", panel=_POLICY),
    ] = None,
    policy_name: Annotated[
        str | None, option("NAME", "Name of the policy in the records. Default: its model.", panel=_POLICY)
    ] = None,
    base_model: Annotated[str | None, option("NAME", "What the policy was trained from.", panel=_POLICY)] = None,
    policy_role: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="policy, or teacher for sessions to imitate, which go below a folder named teacher.",
            rich_help_panel=_POLICY,
        ),
    ] = "policy",
    trunk_base_url: Annotated[
        list[str] | None,
        option("URL", "Endpoint of another policy, which has the turns before --branch-at.", panel=_POLICY),
    ] = None,
    trunk_model: Annotated[
        str | None,
        option("NAME", "Its model name; with its --journal, its turns are not asked again.", panel=_POLICY),
    ] = None,
    scripted_policy: Annotated[
        str | None,
        option("NAME", f"A counsellor without a model, for demos and tests: {explained(COUNSELLORS)}.", panel=_POLICY),
    ] = None,
    client_base_url: Annotated[
        list[str] | None,
        option(
            "URL",
            "Endpoint of the model that plays the client. Default: the embedded scripted client, a stand-in.",
            panel=_CLIENT,
        ),
    ] = None,
    client_model: Annotated[str | None, option("NAME", "Its model name on the server.", panel=_CLIENT)] = None,
    client_temperature: Annotated[float, option("NUMBER", "Default: 0.7.", panel=_CLIENT)] = 0.7,
    client_max_tokens: Annotated[int, option("N", "Most tokens of a reply. Default: 256.", panel=_CLIENT)] = 256,
    client_api_key_env: Annotated[
        str | None,
        option("NAME", "Variable with its key. Default: the policy's, at the same endpoint.", panel=_CLIENT),
    ] = None,
    keep_client_faults: Annotated[
        bool,
        typer.Option(
            "--keep-client-faults",
            help="Write sessions in which the simulated client was at fault, too.",
            rich_help_panel=_CLIENT,
        ),
    ] = False,
    environment: Annotated[
        str, typer.Option(metavar="NAME", help=f"{explained(ENVIRONMENTS)}.", rich_help_panel=_EPISODES)
    ] = next(iter(ENVIRONMENTS)),
    episodes: Annotated[
        int, typer.Option(metavar="N", min=1, max=1_000_000, help="Sessions of a group.", rich_help_panel=_EPISODES)
    ] = 4,
    variants: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            max=1_000_000,
            help="Variants of the client in each scenario, each a group.",
            rich_help_panel=_EPISODES,
        ),
    ] = 1,
    client_seed: Annotated[
        int, typer.Option(metavar="N", min=0, max=2**31, help="Random seed of clients.", rich_help_panel=_EPISODES)
    ] = 0,
    max_turns: Annotated[
        int | None, option("N", "Most turns of the policy. Default: the scenario's.", panel=_EPISODES)
    ] = None,
    branch_at: Annotated[
        int | None,
        option("N", "Let the sessions of a group share one history up to the policy's Nth turn.", panel=_EPISODES),
    ] = None,
    run_id: Annotated[
        str | None, option("NAME", "Name of the run. Default: the name of the output.", panel=_EPISODES)
    ] = None,
    sessions: Annotated[
        int, typer.Option(metavar="N", min=1, help="Sessions in flight.", rich_help_panel=_EPISODES)
    ] = 512,
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
    from genrm_cli.episodes.collect_options import CollectOptions
    from genrm_cli.episodes.therapeutic.model_client import READER, SPEAKER

    if environment not in ENVIRONMENTS:
        raise UsageError(f"--environment: unknown {environment!r}; expected one of {listed(ENVIRONMENTS)}.")
    if policy_role not in ("policy", "teacher"):
        raise UsageError(f"--policy-role: {policy_role!r} is neither policy nor teacher.")
    if scripted_policy is not None and scripted_policy not in COUNSELLORS:
        raise UsageError(f"--scripted-policy: unknown {scripted_policy!r}; expected one of {listed(COUNSELLORS)}.")
    for flag, number, most in (("--max-turns", max_turns, 200), ("--branch-at", branch_at, 200)):
        if number is not None and not 1 <= number <= most:
            raise UsageError(f"{flag} is {number}; expected 1 to {most}.")
    if (scripted_policy is None) is not bool(policy_base_url):
        raise UsageError("pass --policy-base-url and --policy-model, or --scripted-policy to try without a model.")
    if branch_at is not None and scripted_policy is not None:
        raise UsageError("--branch-at needs a policy that answers differently each time; drop --scripted-policy.")
    if bool(trunk_base_url) and (branch_at is None or scripted_policy is not None):
        raise UsageError("--trunk-base-url needs --branch-at and a policy of its own at --policy-base-url.")
    policy = client = trunk = None
    if policy_base_url:
        policy = _agent("policy", policy_base_url, policy_model, policy_api_key_env, only_named=False)
        policy = replace(policy, temperature=policy_temperature, top_p=policy_top_p, max_tokens=policy_max_tokens)
    if client_base_url:
        shares_key = policy is None or set(client_base_url) <= set(policy.base_url)
        client = _agent("client", client_base_url, client_model, client_api_key_env, only_named=not shares_key)
        client = replace(client, temperature=client_temperature, max_tokens=client_max_tokens)
    if trunk_base_url and policy is not None:
        shares_key = set(trunk_base_url) <= set(policy.base_url)
        trunk = _agent("trunk", trunk_base_url, trunk_model, policy_api_key_env, only_named=not shares_key)
        trunk = replace(trunk, temperature=policy_temperature, top_p=policy_top_p, max_tokens=policy_max_tokens)
    name = run_id or _stem(output)
    options = CollectOptions(
        output=output.replace(_RUN_ID, name),
        run_id=name,
        policy_name=policy_name or (policy.model if policy else f"scripted-{scripted_policy}"),
        policy=policy,
        base_model=base_model,
        role=policy_role,
        trunk=trunk,
        client={} if client is None else {READER: replace(client, temperature=0.0), SPEAKER: client},
        episodes=episodes,
        variants=variants,
        seed=client_seed,
        in_flight=sessions,
        branch_at=branch_at,
        keep_faulty=keep_client_faults,
    )
    _collect(scenarios, environment, options, invocation, max_turns, scripted_policy)
    if not score:
        return 0
    settings = changed(invocation.settings, output=None, min_age=0.0)
    return run_score([options.output], replace(invocation, settings=settings))


def _agent(
    role: str, base_url: list[str], model: str | None, api_key_env: str | None, *, only_named: bool
) -> "AgentConfig":
    from genrm_cli.episodes.agents import AgentConfig
    from genrm_cli.judging.client import chat_url

    if not model:
        raise UsageError(f"missing --{role}-model: the name of the model at --{role}-base-url.")
    try:
        for url in base_url:
            chat_url(url)
        key = find_api_key(JudgeSettings(api_key_env=api_key_env), os.environ, only_named=only_named)
    except UsageError as error:
        message = str(error).replace("--base-url", f"--{role}-base-url")
        raise UsageError(message.replace("--api-key-env", f"--{role}-api-key-env")) from error
    return AgentConfig(tuple(base_url), model, api_key=key)


def _stem(output: str) -> str:
    if _RUN_ID in output:
        raise UsageError(f"-o holds {_RUN_ID}; name the run with --run-id.")
    return output.rpartition("/")[2].removesuffix(".jsonl")


def _collect(
    scenarios: str,
    environment: str,
    options: "CollectOptions",
    invocation: Invocation,
    max_turns: int | None,
    counsellor: str | None,
) -> None:
    from genrm_cli.episodes.collect import collect as run_collect
    from genrm_cli.episodes.environments import ENVIRONMENTS as BUILT
    from genrm_cli.episodes.environments import scripted_policy
    from genrm_cli.episodes.scenario_file import read_scenario_tables
    from genrm_cli.jobs.context import new_run

    written = invocation.settings.output
    with Events(written.log_json, quiet=written.quiet, log_only=("judge",)) as events:
        run = new_run(invocation.settings, {}, None, events)
        tables = read_scenario_tables(scenarios, run.s3)
        built = BUILT[environment](scripted=not options.client, max_turns=max_turns)
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
    say(f"rules (mean): {', '.join(means)}")
    for role, counts in summary["roles"].items():
        say(
            f"{role}: {counted(counts['calls'], 'call')}, {counts['from_journal']:,} turns from the journal, "
            f"{counts['prompt_tokens']:,} tokens in, {counts['completion_tokens']:,} out"
        )
    say("All sessions are simulated and all scores are advisory: let experts review them before training.")


def _counts(counts: dict[str, Any]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "none"
