"""`genrm report`: write an HTML report about scored rollouts."""

from contextlib import ExitStack
from tempfile import TemporaryDirectory

from genrm_cli.cli.console import print_json, say, say_next, say_warning
from genrm_cli.cli.options import Invocation, argument, run_to_end
from genrm_cli.errors import counted
from genrm_cli.settings.declare import setting

_LARGE_BYTES = 150_000_000  # Chromium loads 110 MB in 2 s


def report(
    invocation: Invocation,
    scored: list[str] = argument(
        "SCORED",
        "Outputs of genrm score: *.scored.jsonl (.gz, .zst), folders, s3://..., patterns; or the "
        "output or journal of a run that has not ended.",
    ),
    output: str | None = setting(
        "Path of the page. Default: <stem>.report.html next to the input, report.html for several "
        "inputs.",
        short_flag="-o",
        metavar="OUT.html",
    ),
) -> None:
    """Write one HTML file about scored rollouts: how far to trust the rewards, and every group with
    its verdicts.

    The page needs no server and no network. Replies that the comparisons lack come from the
    journal. The page contains the texts of the rollouts; --redact-pattern masks them as it does for
    a judge. --json prints the figures.

    Example: genrm report run.scored.jsonl -o report.html
    """
    from genrm_cli.jobs.previews.so_far import conclude_so_far, open_unfinished
    from genrm_cli.products.report.write_report import write_report

    settings = invocation.settings
    finished = []
    unfinished = []
    with ExitStack() as opened:
        for name in scored:
            found = opened.enter_context(open_unfinished(name, settings))
            if isinstance(found, str):
                finished.append(found)
            else:
                folder = opened.enter_context(TemporaryDirectory(prefix="genrm-so-far-"))
                unfinished.append(run_to_end(conclude_so_far(found, folder)))
        written = write_report(finished, output, settings, unfinished)
    if invocation.settings.output.json_output:
        print_json(written.figures)
    for run in written.runs:
        of = f"{run.figures.uri}: " if len(written.runs) > 1 else ""
        if run.so_far:
            say(f"{of}{run.so_far}")
        say(f"{of}can I train on this? {run.trust.answer}")
        say(*(f"- {text}" for text in run.trust.because))
    if rejected := sum(run.rejected for run in written.runs):
        say_warning(f"{counted(rejected, 'line')} could not be read; the page counts them.")
    if written.groups_bytes > _LARGE_BYTES:
        size = f"{written.groups_bytes / 1_000_000:,.0f} MB"
        say_warning(
            f"the page has {size}, which browsers open slowly; report on fewer files at a time."
        )
    say(f"report  {written.output}")
    if len(written.runs) == 1 and not unfinished:
        [run] = written.runs
        uri = run.figures.uri
        if run.trust.word == "yes":
            say_next("genrm", "export", uri, "--to", "groups", "-o", "groups.jsonl")
        else:
            say_next("genrm", "show", uri, "--worst", "3")
