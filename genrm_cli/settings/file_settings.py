"""Settings of what is read and written: input, journal, output and storage."""

from dataclasses import dataclass

from genrm_cli.catalog import DIALECTS, listed
from genrm_cli.settings.declare import declare


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSettings:
    """Inputs and how their lines are read."""

    dialect: str | None = declare(
        None,
        "Input",
        f"Read every line as this dialect: {listed(DIALECTS)}. Default: recognise each line by its shape.",
        choices=DIALECTS,
        changes_rewards=True,
    )
    group_by: str | None = declare(
        None,
        "Input",
        "Dotted path of the field that identifies the group, for example metadata.task. "
        "Default: task index, prompt id, example or scenario id, or the prompt, whichever exists first.",
        changes_rewards=True,
    )
    max_line_bytes: int = declare(64_000_000, "Input", "Reject longer lines without reading them.", low=1_000)
    strict: bool = declare(
        False, "Input", "Stop with exit code 3 before any call if a line is bad or a rollout occurs twice."
    )
    min_age: float = declare(
        60.0,
        "Input",
        "Skip files in a folder, prefix or pattern that are younger than this: they may still be being written.",
        low=0,
        is_duration=True,
    )
    require_metadata: tuple[str, ...] = declare(
        (),
        "Input",
        "Reject rollouts that do not declare FIELD=VALUE, for example synthetic=true. FIELD is a dotted path in the "
        "record or in its metadata. Repeatable.",
        changes_rewards=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSettings:
    """The journal of verdicts."""

    journal: str | None = declare(
        None,
        "Journal",
        "File that records every verdict; later runs ask only for verdicts that it lacks. With s3://bucket/rl/.../, "
        "verdicts are also copied there in segments, so that another machine can continue. "
        "Default: <stem>.journal.sqlite beside a local output, otherwise in the user's state folder.",
    )
    segment_calls: int = declare(200, "Journal", "Journal on S3: copy after this many verdicts at the latest.", low=1)
    segment_age: float = declare(
        10.0, "Journal", "Journal on S3: copy after this time at the latest.", low=0.1, is_duration=True
    )
    use_journal: bool = declare(
        True, "Journal", "Record verdicts in a journal and reuse those it holds.", negative="--no-journal"
    )
    only_failed: bool = declare(False, "Journal", "Retry failed comparisons only; ask nothing new.")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSettings:
    """Outputs, and messages to people and programs."""

    output: str | None = declare(
        None,
        "Output",
        "Output of scored lines: a path, s3://..., or - for stdout. Default: <stem>.scored.jsonl beside the input.",
        extra_flag="-o",
    )
    output_template: str = declare(
        "{dir}/{stem}.scored.jsonl",
        "Output",
        "Output for each input: {dir} is its folder, {path} that folder relative to the given prefix, {stem} its name "
        "without suffix.",
    )
    overwrite: bool = declare(
        False,
        "Output",
        "Re-score inputs that are up to date, and overwrite existing outputs, including files that genrm did not "
        "write.",
        extra_flag="--force",
    )
    dry_run: bool = declare(False, "Output", "Show what a run would do with each input, without doing it.")
    keep_replies: bool = declare(False, "Output", "Include the judge's replies in the comparisons file.")
    json_output: bool = declare(False, "Output", "Print one JSON object to stdout.", key="json")
    log_json: str | None = declare(
        None, "Output", "Append events (progress, endpoints down and up, ...) to this file as JSON lines."
    )
    quiet: bool = declare(False, "Output", "Print errors only.", extra_flag="-q")


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSettings:
    """Access to S3, leases and locks."""

    s3_endpoint_url: str | None = declare(
        None, "Storage", "S3-compatible endpoint (MinIO, OVH, ...). AWS_ENDPOINT_URL works too."
    )
    s3_profile: str | None = declare(None, "Storage", "Profile in the AWS credentials file.")
    s3_region: str | None = declare(None, "Storage", "AWS region.")
    leases: bool = declare(
        True, "Storage", "Take a lease on each output while working on it, so that two runs never do the same work."
    )
    lease_expiry: float = declare(
        300.0,
        "Storage",
        "Take over a lease that was not renewed for this long: its owner is gone.",
        low=1,
        is_duration=True,
    )
    lock: bool = declare(False, "Storage", "Exit with code 5 if the same command is already running on this machine.")
    any_prefix: bool = declare(
        False, "Storage", "Allow S3 outputs outside rl/, which keeps RL data apart from supervised data."
    )
