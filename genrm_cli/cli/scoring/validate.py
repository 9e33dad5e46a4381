"""`genrm validate`: check inputs and show the planned requests, without calling a judge."""

from genrm_cli.cli.console import print_json, say_error
from genrm_cli.cli.events import watched
from genrm_cli.cli.options import Invocation, Rollouts, with_settings
from genrm_cli.cli.scoring.preview_text import plan_lines, preview_lines, short_lines
from genrm_cli.cli.tables import print_parts
from genrm_cli.errors import counted, worst_exit_code

_OMITTED = (
    *(
        "min_age",
        "parallel_files",
        "segment_calls",
        "segment_age",
        "force",
        "dry_run",
        "keep_replies",
    ),
    *(
        "leases",
        "lease_expiry",
        "only_failed",
        "conclude",
        "log_json",
        "api_key_env",
        "ca_bundle",
        "http_client",
    ),
    *(
        "probe",
        "connect_timeout",
        "call_timeout",
        "comparison_timeout",
        "give_up_after",
        "retries",
        "reask",
    ),
    *("deadline", "max_calls", "max_total_tokens", "max_cost"),
)


@with_settings("Input", "Pairs", "Judge", "Limits", "Journal", "Output", "Storage", omit=_OMITTED)
def validate(rollouts: Rollouts, invocation: Invocation) -> int:
    """Check rollouts without calling a judge: input formats, groups, problems, calls, tokens and
    cost.

    Exits with code 3 if nothing in an input can be scored; with --strict, also if a line is invalid
    or a rollout is duplicated.

    Example: genrm validate rollouts.jsonl --strategy all_pairs --price-in 0.5 --price-out 2
    """
    from genrm_cli.jobs.context import new_run
    from genrm_cli.jobs.due.inputs import is_one_input
    from genrm_cli.jobs.estimate import total_of
    from genrm_cli.jobs.previews.preview import Preview, iter_previews
    from genrm_cli.rollouts.row_groups import TornPrompts

    settings = invocation.settings
    torn = TornPrompts()
    alone = is_one_input(rollouts) or settings.input.together
    previews: list[Preview] = []
    codes: list[int] = []
    as_json = settings.output.json_output
    with watched(settings) as (progress, events):
        for found in iter_previews(
            rollouts, new_run(settings, progress=progress, on_event=events), torn
        ):
            error = found.error if isinstance(found, Preview) else found
            codes.append(0 if error is None else error.exit_code)
            if isinstance(found, Preview):
                previews.append(found)
                if alone and as_json:
                    print_json(found.as_dict())
                elif not as_json:
                    lines = preview_lines(found) if alone else short_lines(found)
                    print_parts(*([] if alone else [found.input]), *lines)
            if error is not None and alone:
                raise error
            if error is not None:
                say_error(error)
    code = worst_exit_code(codes)
    total = total_of([preview.plan for preview in previews])
    if not alone and as_json:
        of_all = {"files": len(codes), "prompts_in_several_files": torn.count(), "exit_code": code}
        print_json(
            {
                **of_all,
                "plan": total.as_dict(),
                "inputs": [preview.as_dict() for preview in previews],
            }
        )
    elif not alone:
        heading = f"{counted(len(codes), 'file')}, {sum(map(bool, codes)):,} with errors"
        print_parts("", heading, *plan_lines(total))
        if count := torn.count():
            print_parts(
                f"{counted(count, 'prompt')} in several files: if the files are shards of one "
                "collection, add --together, so that rollouts are compared across files."
            )
    return code
