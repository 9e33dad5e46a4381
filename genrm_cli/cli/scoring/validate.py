"""`genrm validate`: check inputs and show the planned requests, without calling a judge."""

from genrm_cli.cli.console import print_json, say_error
from genrm_cli.cli.events import watched
from genrm_cli.cli.options import ROLLOUTS, Invocation
from genrm_cli.cli.scoring.preview_text import plan_lines, preview_lines, short_lines
from genrm_cli.cli.tables import print_parts
from genrm_cli.errors import counted, worst_exit_code


def validate(invocation: Invocation, rollouts: list[str] = ROLLOUTS) -> int:
    """Check rollouts without calling a judge: input formats, groups, problems, calls, tokens and
    cost.

    Exits with code 3 if nothing in an input can be scored; with --strict, also if a line is invalid
    or a rollout is duplicated.

    Example: genrm validate rollouts.jsonl --price-in 0.5 --price-out 2
    """
    from genrm_cli.jobs.due.inputs import is_one_input
    from genrm_cli.jobs.estimate import total_of
    from genrm_cli.jobs.previews.preview import Preview, iter_previews
    from genrm_cli.rollouts.row_groups import TornPrompts

    settings = invocation.settings
    as_json = settings.output.json_output
    torn = TornPrompts()
    alone = is_one_input(rollouts) or settings.input.together
    previews: list[Preview] = []
    codes: list[int] = []
    with watched(settings) as run:
        for found in iter_previews(rollouts, run, torn):
            error = found.error if isinstance(found, Preview) else found
            codes.append(0 if error is None else error.exit_code)
            if isinstance(found, Preview):
                previews.append(found)
                if not as_json and alone:
                    print_parts(*preview_lines(found))
                elif not as_json:
                    print_parts(found.input, *short_lines(found))
            elif alone:
                raise found
            if error is not None:
                say_error(error)
    code = worst_exit_code(codes)
    total = total_of([preview.plan for preview in previews])
    if alone and as_json:
        print_json(previews[0].as_dict())
    elif as_json:
        report = {
            "files": len(codes),
            "prompts_in_several_files": torn.count(),
            "exit_code": code,
            "plan": total.as_dict(),
            "inputs": [preview.as_dict() for preview in previews],
        }
        print_json(report)
    elif not alone:
        heading = f"{counted(len(codes), 'file')}, {sum(map(bool, codes)):,} with errors"
        print_parts("", heading, *plan_lines(total))
        if count := torn.count():
            print_parts(
                f"{counted(count, 'prompt')} in several files: if the files are shards of one "
                "collection, add --together, so that rollouts are compared across files."
            )
    return code
