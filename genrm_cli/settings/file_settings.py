"""Settings for input, journal, batches, output, trackers, storage and the server."""

import os
from dataclasses import dataclass
from typing import Literal

from genrm_cli.catalog import INPUT_FORMATS
from genrm_cli.extensions import Seam
from genrm_cli.settings.declare import duration, reward_setting, setting
from genrm_cli.settings.kinds import ON_FAILURE, REQUIREMENT


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSettings:
    """Inputs and how to read their lines."""

    format: str | None = reward_setting(
        "Input format of every line. A name listed by `genrm formats`. Default: detect it for "
        "each line.",
        choices=INPUT_FORMATS,
        seam=Seam.FORMATS,
        is_common=True,
    )
    group_by: str | None = reward_setting(
        "Dotted path of the field that identifies the group, or several: step,input. Default: "
        "task index, prompt id, example or scenario id, or the prompt.",
        is_common=True,
    )
    view: Literal["auto", "answer", "transcript"] = reward_setting(
        "Part of a response that the judge sees. answer: the text after the last tool call or "
        "turn. transcript: everything except reasoning. auto: answer if all responses in the "
        "group are plain text, otherwise transcript.",
        "auto",
        only_with="!compat",
    )
    answer_field: str | None = reward_setting(
        "Dotted path of the text to judge if answers are JSON, for example result.text.",
        only_with="!compat",
    )
    answer_tool: str | None = reward_setting(
        "Judge the arguments of the last call to this tool, for example submit_final_result.",
        only_with="!compat",
    )
    reference_field: str | None = reward_setting(
        "Dotted path of the reference answer, for example expected_answer, which the judge sees.",
        is_common=True,
        only_with="!compat",
    )
    rubric_field: str | None = reward_setting(
        "Dotted path of each row's own rubric: a text, or a list of texts or objects "
        "(HealthBench, RaR).",
        only_with="!compat|principle|components",
    )
    ignore_media: bool = reward_setting(
        "Compare responses that contain images or files, without these.",
        False,
        only_with="!compat",
    )
    empty: Literal["unscored", "lose"] = reward_setting(
        "Reward of a response without any text for the judge: unscored, or lose for the lowest "
        "score in its group.",
        "unscored",
    )
    prompt_field: str | None = reward_setting(
        "Dotted path of the prompt, or several that are one prompt: question,passage. Default: "
        "detect it.",
        is_common=True,
        only_with="response_field",
    )
    response_field: str | None = reward_setting(
        "Dotted path of the response. A list of responses is a group. Default: detect it.",
        is_common=True,
    )
    ignore_fields: str | None = reward_setting(
        "Dotted paths of fields that are neither prompt nor response, separated by commas.",
    )
    id_field: str | None = reward_setting(
        "Dotted path of the task id, if the format is not recognised.",
        only_with="response_field",
    )
    max_line_bytes: int = setting(
        "Reject lines of more bytes without reading them.", 64_000_000, low=1_000
    )
    max_unpacked: int = setting(
        "Reject compressed inputs and streams that unpack to more bytes than this.",
        100_000_000_000,
        low=1,
    )
    together: bool = setting(
        "Score all files as one input, so that groups may span files.",
        False,
    )
    strict: bool = setting(
        "Stop with exit code 3 before any call if a line is invalid or a rollout is duplicated.",
        False,
    )
    min_age: float | None = duration(
        "Skip younger files in folders, prefixes and patterns: they may be incomplete. Default: "
        "60s on S3, unless stderr is a terminal; otherwise 0.",
        low=0,
    )
    require_metadata: tuple[str, ...] = reward_setting(
        "Reject rollouts that do not declare FIELD=VALUE, for example synthetic=true. FIELD is a "
        "dotted path. Repeatable.",
        (),
        kind=REQUIREMENT,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSettings:
    """The journal of verdicts."""

    journal: str | None = setting(
        "File that records every verdict, or a folder for such files. With s3://bucket/rl/.../, "
        "verdicts are also copied there, so that another machine can continue. Default: "
        "<stem>.journal.sqlite next to a local output, otherwise in the user's state folder.",
        only_with="use_journal",
        is_common=True,
    )
    segment_calls: int = setting(
        "Journal on S3: maximum number of verdicts between two copies.",
        200,
        low=1,
        only_with="journal=s3://..., use_journal",
    )
    use_journal: bool = setting(
        "Record verdicts in a journal and reuse recorded ones.",
        True,
        switch_off="no-journal",
        negative_help="Do not record verdicts in a journal, and do not reuse recorded ones.",
    )
    only_failed: bool = setting("Retry failed comparisons only.", False, only_with="use_journal")
    shard: str | None = setting(
        "Ask only about the groups of shard I of N (0/4 to 3/4), with a share of all limits. Run "
        "$conclude after all shards.",
        only_with="use_journal, !conclude",
    )
    conclude: bool = setting(
        "Ask nothing, and write the outputs from the results that the shards recorded.",
        False,
        only_with="use_journal",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineSettings:
    """Judges without an endpoint: files of requests and replies."""

    requests_to: str | None = setting(
        "Make no calls; write the outstanding requests as an OpenAI batch input, for `vllm run-"
        "batch` or `genrm batch`.",
        only_with="use_journal, !conclude",
    )
    replies_from: tuple[str, ...] = setting(
        "Make no calls; read the replies from these files. With $requests_to, write the requests "
        "that still lack a reply instead of outputs. Repeatable.",
        (),
        only_with="use_journal, !conclude",
    )

    @property
    def is_used(self) -> bool:
        """Whether replies come from elsewhere than calls."""
        return self.requests_to is not None or bool(self.replies_from)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSettings:
    """Outputs, and messages to people and programs."""

    output: str | None = setting(
        "Where to write the scored lines: a path, s3://..., or - for stdout. "
        "Default: <stem>.scored.jsonl next to the input.",
        short_flag="-o",
        is_common=True,
    )
    output_template: str = setting(
        "Output path for each input: {dir} is the input's folder, {path} is that folder relative "
        "to the given prefix, {stem} is its name without suffix.",
        "{dir}/{stem}.scored.jsonl",
        only_with="!output",
    )
    force: bool = setting(
        "Overwrite existing outputs. Also files not written by genrm, and those that are up to "
        "date.",
        False,
        is_common=True,
    )
    dry_run: bool = setting("Show what the run would do, without doing it.", False, is_common=True)
    keep_replies: bool = setting(
        "Include the judge's replies in the comparisons file.",
        False,
    )
    json_output: bool = setting(
        "Print one JSON object to stdout.", False, key="json", is_common=True
    )
    log_json: str | None = setting(
        "Append events (progress, endpoints down and up, ...) to this file as JSON lines."
    )
    quiet: bool = setting("Print errors only.", False, short_flag="-q", is_common=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackingSettings:
    """Experiment trackers to log a run to; each field is named after its tracker and the extra to
    install.
    """

    wandb: str | None = setting(
        "Log the run to this project of Weights & Biases; requires the extra wandb."
    )
    mlflow: str | None = setting(
        "Log the run to this experiment of MLflow; requires the extra mlflow."
    )
    tensorboard: str | None = setting(
        "Log the run to a new subfolder of this folder for TensorBoard; requires "
        "the extra tensorboard."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSettings:
    """Access to S3.

    Attributes:
        s3: arguments of requests from the table `[s3]`, by the names of boto3's `put_object`.
    """

    any_prefix: bool = setting(
        "Allow S3 outputs outside rl/, which keeps RL data apart from supervised data.", False
    )
    s3: tuple[tuple[str, str | bool], ...] = ()

    @property
    def endpoint_url(self) -> str | None:
        """Endpoint of an S3-compatible store; boto3 reads the variable itself."""
        return os.environ.get("AWS_ENDPOINT_URL")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """The server: its address, access, limits and timeouts."""

    listen: str = setting(
        "Address to listen on, HOST:PORT. Port 0 picks a free one.",
        "127.0.0.1:8330",
        is_common=True,
    )
    allow_public: bool = setting("Listen on an address other than loopback without a token.", False)
    allow_host: tuple[str, ...] = setting(
        "Answer requests to loopback that name this host, such as those of a proxy. Repeatable.",
        (),
    )
    max_body: int = setting("Refuse request bodies of more bytes.", 64_000_000, low=1_000)
    cohort_size: int | None = setting(
        "Members of each cohort, for trainers that do not send it. A URL may say ?size=N instead.",
        low=1,
        high=1_024,
    )
    cohort_deadline: float = duration(
        "Score a cohort with the members that have arrived once its first member has waited this "
        "long.",
        600.0,
        is_common=True,
    )
    cohort_idle: float | None = duration(
        "Score a cohort with the members that have arrived once no other has arrived for this "
        "long. Default: only $cohort_deadline ends the wait.",
        low=0.01,
    )
    keep: float = duration(
        "Keep answers for repeated requests and late members for this long.", 600.0
    )
    max_cohorts: int = setting(
        "Maximum number of open cohorts, of comparisons being judged, and of answers kept.",
        20_000,
        low=1,
    )
    max_open_bytes: int = setting(
        "Refuse another cohort with 429 while the rollouts of open ones are more bytes than this.",
        512_000_000,
        low=1,
    )
    read_timeout: float = duration(
        "Close a connection whose request has not arrived within this time.", 60.0
    )
    drain: float = duration("After SIGTERM, wait this long for open cohorts.", 60.0, low=0)
    on_failure: str | None = setting(
        "Reward to send where a trainer requires a number and there is none: a number, or mean "
        "for the mean of the group. Default: the trainer's error.",
        kind=ON_FAILURE,
    )
    record: str | None = setting(
        "Folder or s3://bucket/rl/.../ that receives every rollout with its reward."
    )
    record_every: float = duration(
        "Begin a new file of $record after this time.", 300.0, low=0.1, only_with="record"
    )
    reference: str | None = setting(
        "File of prompts with one answer each. Each response to one of them is also compared with"
        " that answer, for metrics only."
    )
    groups_per_step: int = setting(
        "Groups in each logged step: the number of prompts in a training step.",
        64,
        low=1,
        only_with="wandb|mlflow|tensorboard|reference",
    )
