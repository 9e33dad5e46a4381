"""Settings of what is read and written: input, journal, output and storage."""

from dataclasses import dataclass

from genrm_cli.settings.declare import declare


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSettings:
    """Which lines are read, and what they mean."""

    dialect: str | None = declare(
        None,
        "Input",
        "Read every line as this dialect: nemo_gym, compare, many, verifiers, episode, completion or chat. "
        "Default: each line is recognised by itself.",
        choices=("nemo_gym", "compare", "many", "verifiers", "episode", "completion", "chat"),
        changes_rewards=True,
    )
    group_by: str | None = declare(
        None,
        "Input",
        "Dotted path of the field that names the group, for instance metadata.task. "
        "Default: task index, else prompt id, else example or scenario id, else the prompt.",
        changes_rewards=True,
    )
    max_line_bytes: int = declare(
        64_000_000, "Input", "A longer line goes to the rejects without being read.", low=1_000
    )
    strict: bool = declare(
        False, "Input", "Stop with exit code 3 before any call if a line is bad or a rollout is there twice."
    )
    min_age: float = declare(
        60.0,
        "Input",
        "Leave files that a folder, prefix or pattern holds for the next run while they are younger than this: "
        "they may still be written.",
        low=0,
        duration=True,
    )
    require_metadata: tuple[str, ...] = declare(
        (),
        "Input",
        "FIELD=VALUE that a rollout must declare, for instance synthetic=true (dotted path in the record, or below "
        "its metadata); what does not goes to the rejects. Repeat it for several.",
        changes_rewards=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSettings:
    """The journal of verdicts."""

    journal: str | None = declare(
        None,
        "Journal",
        "File that keeps every verdict; a later run asks only what is not in it. Or s3://bucket/rl/.../: copied "
        "there in small segments, so that another machine can go on. "
        "Default: <stem>.journal.sqlite beside a local output, else in the user's state folder.",
    )
    segment_calls: int = declare(
        200, "Journal", "With a journal on S3: at most so many verdicts are not copied there yet.", low=1
    )
    segment_age: float = declare(
        10.0, "Journal", "With a journal on S3: at least so often verdicts are copied there.", low=0.1, duration=True
    )
    use_journal: bool = declare(
        True, "Journal", "Keep verdicts in a journal and take known ones from it.", negative="--no-journal"
    )
    only_failed: bool = declare(False, "Journal", "Ask again only what was asked before and failed; ask nothing new.")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSettings:
    """What is written, and where."""

    output: str | None = declare(
        None,
        "Output",
        "Where the scored lines go: a path, s3://..., or - for stdout. Default: <stem>.scored.jsonl beside the input.",
        flag="-o",
    )
    output_template: str = declare(
        "{dir}/{stem}.scored.jsonl",
        "Output",
        "Where the scored lines of each input go: {dir} is its folder, {path} that folder below the given prefix, "
        "{stem} its name without suffix.",
    )
    overwrite: bool = declare(
        False, "Output", "Score again what is up to date, and replace outputs whoever wrote them.", flag="--force"
    )
    dry_run: bool = declare(False, "Output", "Show what would be done with each input, and do nothing.")
    keep_replies: bool = declare(False, "Output", "Keep the judge's replies in the comparisons file.")
    json_output: bool = declare(False, "Output", "Print one JSON object on stdout.", key="json")
    log_json: str | None = declare(
        None, "Output", "File to which events (progress, endpoints down and up, ...) are added as JSON lines."
    )
    quiet: bool = declare(False, "Output", "Say nothing but errors.", flag="-q")


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSettings:
    """Access to S3, leases and locks."""

    s3_endpoint_url: str | None = declare(
        None, "Storage", "S3-compatible endpoint (MinIO, OVH, ...). AWS_ENDPOINT_URL works too."
    )
    s3_profile: str | None = declare(None, "Storage", "Profile of the AWS credentials file.")
    s3_region: str | None = declare(None, "Storage", "AWS region.")
    leases: bool = declare(
        True, "Storage", "Claim each file while working on it, so that two runs do not do the same work.", key="claims"
    )
    lease_expiry: float = declare(
        300.0,
        "Storage",
        "A claim that was not renewed for this long is taken over: its owner has vanished.",
        low=1,
        duration=True,
        key="claim_expiry",
    )
    lock: bool = declare(
        False, "Storage", "Do not start while the same command still runs on this machine; exit code 5."
    )
    any_prefix: bool = declare(
        False, "Storage", "Allow S3 results outside rl/ (RL data is kept apart from supervised data)."
    )
