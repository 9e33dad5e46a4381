"""`genrm export`: turn scored rollouts into a data set for a trainer."""

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from genrm_cli.catalog import PAIR_SELECTIONS, REASONING_POLICIES, explained, listed
from genrm_cli.cli.console import counted, percent_text, print_json, say, say_warning
from genrm_cli.cli.options import Invocation, option, switch, with_settings
from genrm_cli.errors import Message, UsageError
from genrm_cli.export.formats import FORMATS
from genrm_cli.json_types import Record

if TYPE_CHECKING:
    from genrm_cli.export.candidates import ExportOptions
    from genrm_cli.export.chat_messages import ReasoningPolicy

_OMITTED = (
    *("output", "output_template", "dry_run", "keep_replies", "log_json", "min_age", "leases", "lease_expiry"),
    *("group_by", "view", "view_max_chars", "answer_field", "answer_tool", "ignore_media", "empty"),
)
_PAIRS, _OTHERS = "Pairs to train on", "Other data sets"


@with_settings("Input", "Output", "Storage", omit=_OMITTED)
def export(
    scored: Annotated[
        list[str],
        typer.Argument(
            metavar="SCORED",
            help="Outputs of genrm score: *.scored.jsonl (.gz, .zst), folders, s3://..., patterns; - for stdin.",
        ),
    ],
    invocation: Invocation,
    to: Annotated[str, option("FORMAT", f"{explained({name: each.about for name, each in FORMATS.items()})}.", "--to")],
    output: Annotated[
        str, option("OUT", "A path or s3://bucket/rl/...: .jsonl (.gz, .zst) or .parquet.", "--output", "-o")
    ],
    pairs: Annotated[str, option("NAME", f"{explained(PAIR_SELECTIONS)}.", panel=_PAIRS)] = "best-worst",
    top: Annotated[int, option("K", "top-bottom: number of responses at each end.", panel=_PAIRS, min=1)] = 2,
    min_gap: Annotated[
        float, option("NUMBER", "Minimum difference between the two rewards.", panel=_PAIRS, min=0)
    ] = 0.0,
    min_confidence: Annotated[
        float | None,
        option(
            "P",
            "Minimum probability that the judge truly prefers the chosen response. trl-sft: rank by the bound that "
            "the reward exceeds with this probability; --min-reward applies to the bound.",
            panel=_PAIRS,
        ),
    ] = None,
    max_length_ratio: Annotated[
        float | None, option("NUMBER", "Maximum ratio between the lengths of the two answers.", panel=_PAIRS, min=1)
    ] = None,
    balance_length: Annotated[
        bool,
        switch(
            "--balance-length",
            "Balance the pairs: the longer answer is chosen as often as the shorter, at each length difference.",
            panel=_PAIRS,
        ),
    ] = False,
    max_similarity: Annotated[
        float | None,
        option(
            "NUMBER",
            "Drop pairs of near-duplicates: maximum overlap of three-word sequences.",
            panel=_PAIRS,
            min=0,
            max=1,
        ),
    ] = None,
    max_pairs_per_prompt: Annotated[
        int | None, option("N", "Keep the N pairs of each prompt with the widest gap.", panel=_PAIRS, min=1)
    ] = None,
    best_of: Annotated[
        int, option("N", "trl-sft: number of responses to keep for each prompt.", panel=_OTHERS, min=1)
    ] = 1,
    min_reward: Annotated[float | None, option("NUMBER", "trl-sft: minimum reward.", panel=_OTHERS)] = None,
    threshold: Annotated[
        float | None,
        option(
            "NUMBER", "trl-kto: label rewards at or above this as true. Default: the group's median.", panel=_OTHERS
        ),
    ] = None,
    reasoning: Annotated[str, option("NAME", f"How to export reasoning. {explained(REASONING_POLICIES)}.")] = "keep",
    branch_at: Annotated[
        int | None,
        option(
            "N",
            "Export the policy's Nth turn, with everything before it as the prompt. Default: whole responses.",
            min=1,
        ),
    ] = None,
    split: Annotated[
        float, option("SHARE", "Share of prompts to put into OUT.validation.jsonl.", min=0, max=0.9)
    ] = 0.0,
    mixed_settings: Annotated[
        bool, switch("--mixed-settings", "Accept inputs that were scored with different settings.")
    ] = False,
    seed: Annotated[int, option("N", "Random seed for choices and splits.")] = 0,
) -> int:
    """Turn scored rollouts into a data set for a trainer, with a manifest next to it.

    Never exports ties, unscored or single rollouts, defaulted verdicts, equal texts, or a chosen response that broke a
    gate. Counts everything that it drops by reason.

    Example: genrm export run.scored.jsonl --to trl-dpo -o pairs.jsonl --min-gap 0.5 --split 0.05

    Example: genrm export s3://bucket/rl/env/ --to trl-kto -o s3://bucket/rl/kto.parquet
    """
    from genrm_cli.export.candidates import ExportOptions, PairOptions
    from genrm_cli.export.write_export import export as run_export

    _refuse_unknown("--to", to, FORMATS)
    _refuse_unknown("--pairs", pairs, PAIR_SELECTIONS)
    _refuse_unknown("--reasoning", reasoning, REASONING_POLICIES)
    chosen = PairOptions(pairs, top, min_gap, min_confidence, max_length_ratio, seed)
    spread = balance_length, max_similarity, max_pairs_per_prompt, best_of, min_reward, threshold
    how = cast("ReasoningPolicy", reasoning)
    options = ExportOptions(to, chosen, *spread, how, branch_at, split, mixed_settings, seed)
    if min_confidence is not None and not 0 < min_confidence < 1:
        raise UsageError(f"--min-confidence is {min_confidence:g}; expected a probability between 0 and 1.")
    _refuse_idle(options, FORMATS[to].unit)
    written = invocation.settings.output
    if written.json_output and output == "-":
        raise UsageError("--json and the rows both write to stdout; name an output file with -o.")
    report = run_export(scored, output, options, invocation.settings)
    if written.json_output:
        print_json(report.manifest)
    if not written.quiet:
        _show(report.manifest, report.usage)
    return 0


def _refuse_unknown(flag: str, name: str, known: Any) -> None:
    if name not in known:
        raise UsageError(f"{flag}: unknown {name!r}; expected one of {listed(known)}.")


def _refuse_idle(options: "ExportOptions", unit: str) -> None:
    """Refuse options that the format would ignore."""
    pairs = options.pairs
    uses = (
        ("--threshold", options.threshold, ("label",)),
        ("--min-reward", options.min_reward, ("sample",)),
        ("--min-confidence", pairs.min_confidence, ("pair", "sample")),
        ("--min-gap", pairs.min_gap or None, ("pair",)),
        ("--max-length-ratio", pairs.max_length_ratio, ("pair",)),
        ("--balance-length", options.balance_length or None, ("pair",)),
        ("--max-similarity", options.max_similarity, ("pair",)),
        ("--max-pairs-per-prompt", options.max_pairs_per_prompt, ("pair",)),
    )
    for flag, value, units in uses:
        if value is not None and unit not in units:
            raise UsageError(f"{flag} has no effect with --to {options.to}; omit it.")


def _show(manifest: Record, usage: str) -> None:
    """Print the manifest for the user, and the code that loads the rows."""
    from genrm_cli.export.candidates import message_of

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
        say(f"longer answer chosen in {percent_text(manifest['longer_chosen_share'])} of the pairs of unequal length")
    for warning in manifest["warnings"]:
        say_warning(warning)
    say(manifest["advisory"])
    for uri in manifest["outputs"]:
        say(f"rows  {uri}")
    say("load it with:")
    for line in usage.split("\n"):
        say(f"  {line}")
