"""`genrm export`: turn scored rollouts into a data set for a trainer."""

from genrm_cli.catalog import explained
from genrm_cli.cli.console import percent_text, print_json, say, say_warning
from genrm_cli.cli.options import Invocation, argument
from genrm_cli.errors import Message, UsageError, counted
from genrm_cli.json_types import Record
from genrm_cli.products.export.export_options import ExportOptions
from genrm_cli.products.export.formats import FORMATS
from genrm_cli.settings.declare import setting

_ABOUT = {name: each.about for name, each in FORMATS.items()}


def export(
    invocation: Invocation,
    options: ExportOptions,
    scored: list[str] = argument(
        "SCORED",
        "Outputs of genrm score: *.scored.jsonl (.gz, .zst), folders, s3://..., patterns; - for "
        "stdin.",
    ),
    to: str = setting(
        f"{explained(_ABOUT)}.",
        choices=FORMATS,
        is_required=True,
    ),
    output: str = setting(
        "A path or s3://bucket/rl/...: .jsonl (.gz, .zst) or .parquet.",
        short_flag="-o",
        metavar="OUT",
        is_required=True,
    ),
) -> None:
    """Turn scored rollouts into a data set for a trainer, with a manifest next to it.

    Never exports unscored or single rollouts, defaulted verdicts, pairs of equal rewards or equal
    texts, or a chosen response that broke a gate. Counts everything that it drops by reason.

    Example: genrm export run.scored.jsonl --to trl-dpo -o dpo.jsonl --split 0.05

    Example: genrm export s3://bucket/rl/env/ --to trl-kto \\
      -o s3://bucket/rl/kto.parquet
    """
    from genrm_cli.products.export.write_export import export as run_export

    written = invocation.settings.output
    if written.json_output and output == "-":
        raise UsageError("--json and the rows both write to stdout; name an output file with -o.")
    manifest, usage = run_export(scored, output, FORMATS[to], options, invocation.settings)
    if written.json_output:
        print_json(manifest)
    _show(manifest, usage)


def _show(manifest: Record, usage: str) -> None:
    from genrm_cli.products.export.candidates import message_of

    rows = ", ".join(f"{count:,} {name}" for name, count in manifest["rows"].items())
    of = f"{counted(manifest['rollouts'], 'rollout')} in {counted(manifest['groups'], 'group')}"
    say(f"{manifest['to']}: rows: {rows}; from {of}")
    for reason, count in manifest["rejected_reasons"].items():
        say(f"  rejected lines: {count:,} × {reason}")
    for title in ("left out", "dropped"):
        for code, count in manifest[title.replace(" ", "_")].items():
            say(Message.of(f"  {title}: {count:,} × ", message_of(code)))
    for reason, count in manifest["unfit"].items():
        say(f"  unfit: {count:,} × {reason}")
    if "margins" in manifest:
        share = percent_text(manifest["longer_chosen_share"])
        say(f"longer answer chosen in {share} of the pairs of unequal length")
    for warning in manifest["warnings"]:
        say_warning(warning)
    say(manifest["advisory"])
    for uri in manifest["outputs"]:
        say(f"rows  {uri}")
    say("load it with:", *(f"  {line}" for line in usage.split("\n")))
