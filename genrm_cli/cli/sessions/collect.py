"""`genrm collect`: play simulated sessions and write them as rollouts."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from typing import TYPE_CHECKING

from genrm_cli.cli.console import number_text, print_json, print_text, say, say_next
from genrm_cli.cli.events import Events
from genrm_cli.cli.options import Invocation, argument, run_to_end
from genrm_cli.cli.sessions.host import (
    SCRIPTED_CLIENT,
    ClientOptions,
    agent_config,
    open_environment,
)
from genrm_cli.errors import Message, SettingRef, UsageError, counted, naming
from genrm_cli.judging.pacing.judge_events import JudgeEvent
from genrm_cli.metrics.figures import DIFFERENCE, PERCENT
from genrm_cli.products.sessions.session_options import SAMPLES, TEACHER, SessionOptions
from genrm_cli.settings import Settings
from genrm_cli.settings.declare import setting
from genrm_cli.settings.sources.keys import find_api_keys

if TYPE_CHECKING:
    from genrm_cli.products.sessions.collected_files import CollectOptions
    from genrm_cli.products.sessions.collection import CollectReport
    from genrm_cli.products.sessions.session_agents import AgentConfig

# Those that a run over the sessions needs, to ask the same judge.
_JUDGE_FLAGS = ("config", "base_url", "model", "profile", "api_key_env")
_RUN_ID = "{run_id}"


def collect(
    invocation: Invocation,
    which: SessionOptions,
    client: ClientOptions,
    scenarios: str = argument(
        "SCENARIOS",
        "Scenarios: .toml with [[scenario]] tables, or .jsonl; a path or s3://... Default: "
        "samples, those that come with the environment.",
        SAMPLES,
    ),
    output: str | None = setting(
        "A .jsonl file: a path or s3://bucket/rl/...; may hold {run_id}.",
        short_flag="-o",
        metavar="OUT",
    ),
    list_: bool = setting(
        "Print the scenarios as lines of a .jsonl file instead of playing them.", False, key="list"
    ),
    judge_pairs: bool = setting(
        "Print labelled pairs of turns for genrm eval, which tell a judge of warm words or length "
        "before the run.",
        False,
    ),
) -> None:
    """Play simulated sessions of a policy and write them as rollouts that `genrm score` reads.

    Scenarios must be synthetic or de-identified, and say so. A killed run continues in mid-session:
    run the same command again. Also writes <stem>.collect.json and, if any session is left out,
    <stem>_failures.jsonl.

    A judge (--base-url, --model, or a panel in the settings file) compares the sessions of each
    scenario and grades them by the rubric set session. Without one, rewards only test the plumbing.

    Example: genrm collect samples -o r1.jsonl --policy-model my-policy \\
      --policy-base-url http://gpu:8000/v1

    Example: genrm collect samples --scripted-policy good -o demo.jsonl
    """
    from genrm_cli.jobs.context import new_run
    from genrm_cli.products.sessions.collection import collect as run_collect
    from genrm_cli.products.sessions.environments import choose_scenarios, read_scenarios
    from genrm_cli.products.sessions.session_judge import judge_settings

    if judge_pairs:
        pairs = files("genrm_cli.products.sessions").joinpath("session_pairs.jsonl")
        print_text(pairs.read_text(encoding="utf-8").rstrip("\n"))
        return
    settings = invocation.settings
    judge = judge_settings(settings, of_groups=True)
    keys = find_api_keys(judge or settings)
    environment, model = open_environment(which, client, which.policy_base_url, judge, keys)
    written = settings.output
    options = None
    if not list_:
        options = _collect_options(which, output, model, environment.scripted_policies, judge)
    with Events(written.log_json, JudgeEvent) as events:
        run = new_run(settings, keys, None, events)
        found = choose_scenarios(read_scenarios(scenarios, environment, run.store), which, run)
        if options is None:
            for each in found.scenarios:
                print_json(dict(found.tables[each.scenario_id]))
            return
        report = run_to_end(run_collect(environment, found, options, run))
    if written.json_output:
        print_json(report.summary)
    has_stand_in = environment.model_use is not None and model is None
    _show(report, options, has_stand_in=has_stand_in)
    from genrm_cli.cli.scoring.next_command import score_command

    has_judge = options.judge is not None
    flags = [each for each in invocation.given if has_judge and each.key in _JUDGE_FLAGS]
    say_next(*score_command(options.output, flags, {} if has_judge else {"judge": "lexical"}))


def _collect_options(
    which: SessionOptions,
    output: str | None,
    client: "AgentConfig | None",
    known: Sequence[str],
    judge: Settings | None,
) -> "CollectOptions":
    """Complete the options, and refuse those that contradict each other, or a scripted policy that
    is not `known`.
    """
    from genrm_cli.products.sessions.collected_files import CollectOptions

    if output is None:
        raise UsageError(
            naming("missing $output: the file of the sessions. $list prints the scenarios.")
        )
    scripted = which.scripted_policy
    if scripted is not None and scripted not in known:
        expected = f"expected one of {', '.join(known)}" if known else "this environment has none"
        raise UsageError(SettingRef("scripted_policy"), f": unknown {scripted!r}; {expected}.")
    if (scripted is None) is not bool(which.policy_base_url):
        raise UsageError(
            naming(
                "pass $policy_base_url and $policy_model, or $scripted_policy to try without a "
                "model."
            )
        )
    if len({text.partition("=")[0] for text in which.identity}) < len(which.identity):
        raise UsageError(SettingRef("identity"), ": two identities have one name; rename one.")
    if which.branch_at is not None and scripted is not None:
        raise UsageError(
            naming(
                "$branch_at needs a policy that answers differently each time; drop "
                "$scripted_policy."
            )
        )

    run_id = which.run_id
    stem = output.rpartition("/")[2].removesuffix(".jsonl")
    if not run_id and _RUN_ID in output:
        raise UsageError(naming("$output holds {run_id}; name the run with $run_id."))
    if not run_id:  # a teacher's rollouts differ from the policy's
        run_id = f"teacher-{stem}" if which.policy_role == TEACHER and TEACHER not in stem else stem
    named = {
        "run_id": run_id,
        "output": output.replace(_RUN_ID, run_id),
        "policy_name": which.policy_name
        or which.policy_model
        or f"scripted-{which.scripted_policy}",
    }
    return CollectOptions(
        **asdict(which) | named, policy=agent_config("policy", which), client=client, judge=judge
    )


def _show(report: "CollectReport", options: "CollectOptions", *, has_stand_in: bool) -> None:
    from genrm_cli.products.sessions.session_judge import SMOKE_TEST

    counts = report.counts
    if counts is None:
        how = naming(" is up to date (same scenarios and settings); use $force to collect it again")
        say(Message.of(options.output, how))
        return
    say(f"{options.environment}: {counted(counts.written, 'episode')} -> {options.output}")
    say(f"ends: {_counts(counts.ends)}")
    if has_stand_in:
        say(SCRIPTED_CLIENT)
    if options.judge is None:
        say(SMOKE_TEST)
    if counts.faults and (rate := counts.fault_rate) is not None:
        share, *ends = rate
        interval = f"95 % interval {PERCENT.ends(*ends)} %"
        sessions = f"{PERCENT.number(share)} % of the sessions ({interval})"
        say(f"client faults: {sessions}: {_counts(counts.faults)}; left out")
    for reason, count in counts.failed.most_common():
        say(f"failed: {count:,} × {reason} (for example {counts.details[reason]})")
    if counts.unparted:
        sessions = counted(counts.unparted, "session")
        say(Message.of(f"left out: {sessions}", naming(" that ended before $branch_at")))
    means = (f"{name} {stats.mean:.3f}" for name, stats in counts.components.items())
    say(f"components (mean): {', '.join(means)}")
    if (played := counts.sessions.summary()) is not None:
        for name in ("difficulty", "risk_level", "identity"):
            rewards = (
                f"{value} {number_text(of.mean)}" for value, of in played.by.get(name, {}).items()
            )
            if shown := ", ".join(rewards):
                say(f"reward by {name.replace('_', ' ')}: {shown}")
        for pair, difference in played.identities.items():
            say(f"reward of {pair}: {difference.text(DIFFERENCE)}")
    for role, of in counts.roles.items():
        if of.calls + of.from_journal:  # otherwise scripted
            reused = counted(of.from_journal, "turn")
            say(
                f"{role}: {counted(of.calls, 'call')}, {reused} from the journal, "
                f"{of.prompt_tokens:,} tokens in, {of.completion_tokens:,} out"
            )
    say(
        "All sessions are simulated and all scores are advisory: let experts review them before "
        "training."
    )


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "none"
