"""`genrm compare`: a few responses on the command line, or one compare request."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from genrm_cli.cli.console import number_text, print_json, say_warning
from genrm_cli.cli.events import watched
from genrm_cli.cli.options import Invocation, argument, run_to_end
from genrm_cli.cli.scoring.run_warnings import BASELINE_NOTICE
from genrm_cli.cli.tables import Table, beginning, excerpts, names, numbers, print_parts
from genrm_cli.errors import InputError, UsageError, counted
from genrm_cli.settings import Settings, changed
from genrm_cli.settings.declare import setting

if TYPE_CHECKING:
    from genrm_cli.groups.group import Group
    from genrm_cli.groups.results import GroupRewards

# The responses come from arguments or one JSON object; `genrm score` takes larger groups.
MAX_RESPONSES = 64


def compare(
    invocation: Invocation,
    responses: list[str] = argument(
        "RESPONSES",
        "2 to 64 responses: texts, @FILE, or - for stdin. A single - reads a compare request as "
        "JSON. --compat allows any number.",
    ),
    prompt: str | None = setting(
        "Prompt of the responses: text, @FILE, or - for stdin.", short_flag="-p"
    ),
) -> None:
    """Compare a few responses to one prompt and print their rewards.

    Example: genrm compare --prompt "What is 2 + 2?" "4" "5" --offline

    Example: genrm compare - --offline --json < compare-request.json
    """
    from genrm_cli.group_scorer import GroupScorer
    from genrm_cli.groups.check import check_settings
    from genrm_cli.groups.compile import compile_plan
    from genrm_cli.jobs.compare_request import compare_reply
    from genrm_cli.jobs.due.refusals import refuse_unscored
    from genrm_cli.scored.describe_run import run_totals

    settings = changed(invocation.settings, use_journal=False)
    check_settings(settings)
    group = _read_group(responses, prompt, settings)
    count = len(group.rollouts)
    if settings.judge.compat is None and not 2 <= count <= MAX_RESPONSES:
        raise InputError(f"{counted(count, 'response')} given; expected 2 to {MAX_RESPONSES}.")
    if count < 2:
        settings = changed(settings, probe=False)  # no call to a judge
    with watched(settings, invocation.api_keys) as run:
        scorer = GroupScorer(settings, run.api_keys, run.progress, run.on_event)
        result = run_to_end(scorer.score_once(group))
    if settings.judge.judge is not None:
        say_warning(BASELINE_NOTICE)
    for comparison in result.failures:
        if comparison.failure is not None:
            of = comparison.component or "comparison"
            shown = ", ".join(map(str, comparison.indices))
            say_warning(f"{of} of {shown} failed: {comparison.failure.detail}")
    if settings.output.json_output:
        print_json(compare_reply(result, result.rewards))
    else:
        _print_tables(group, result)
    totals = run_totals(settings, scorer.metrics, compile_plan(settings), (), 0.0)
    refuse_unscored(scorer.metrics, totals, settings)


def _read_group(responses: list[str], prompt: str | None, settings: Settings) -> "Group":
    from genrm_cli.groups.compile import compile_plan
    from genrm_cli.groups.group import Group
    from genrm_cli.jobs.compare_request import KEY, parse_request
    from genrm_cli.rollouts.rollout import Rollout, Text, Turn

    if responses == ["-"]:
        if prompt is not None:
            raise UsageError(
                "a compare request on stdin contains its own conversation; omit --prompt."
            )
        plan = compile_plan(settings)
        required = settings.input.require_metadata
        return parse_request(sys.stdin.buffer.read(), "stdin", plan, required)
    if [prompt, *responses].count("-") > 1:
        raise UsageError("stdin can be read only once; use - for the prompt or for one response.")
    if prompt is None:
        raise UsageError(
            "missing --prompt TEXT; to read a compare request, pass - alone and the file on stdin."
        )
    turns = (Turn("user", _text_of(prompt)),)
    texts = enumerate(map(_text_of, responses))
    return Group(KEY, [Rollout(turns, (Text(text),), index=index) for index, text in texts])


def _text_of(argument: str) -> str:
    """Return the text that an argument stands for: stdin for `-`, a file for `@FILE`, or itself."""
    if argument == "-":
        return sys.stdin.buffer.read().decode("utf-8", "replace")
    if argument.startswith("@"):
        try:
            return Path(argument[1:]).read_bytes().decode("utf-8", "replace")
        except OSError as error:
            raise InputError(
                f"{argument[1:]}: cannot be read: {error.strerror}; check the path."
            ) from error
    return os.fsencode(argument).decode("utf-8", "replace")  # whatever the locale is


def _print_tables(group: "Group", result: "GroupRewards") -> None:
    heads = numbers("reward", "base", "rank", "advantage", *result.columns)
    table = Table([*names("response"), *heads, *excerpts("text")])
    for index, (rollout, score) in enumerate(zip(group.rollouts, result.scores, strict=True)):
        values = [column.values[index] for column in result.columns.values()]
        figures = (score.reward, score.base_score, score.rank, score.advantage, *values)
        table.add(str(index), *map(number_text, figures), beginning(rollout.answer or "", 60))
    print_parts(table)
    if not result.comparisons:
        return
    heads = numbers("score 1", "score 2", "ranking")
    table = Table([*names("shown", "judge"), *heads, *names("grades", "failure")])
    for comparison in result.comparisons:
        figures = (comparison.score_1, comparison.score_2, comparison.ranking)
        table.add(
            ", ".join(map(str, comparison.indices)),
            comparison.judge,
            *map(number_text, figures),
            ", ".join(map(number_text, comparison.grades or ())),
            "" if comparison.failure is None else comparison.failure.kind,
        )
    print_parts("", table)
