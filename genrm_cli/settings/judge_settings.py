"""Settings of the judges: endpoints, prompts and limits."""

from dataclasses import dataclass

from genrm_cli.catalog import REDACTIONS, listed
from genrm_cli.settings.declare import Value, declare


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings:
    """The judge: where it is and how it is prompted."""

    judge: str | None = declare(
        None,
        "Judge",
        "lexical: the offline judge (no model, no network), for trying the pipeline and for CI. "
        "Omit it and give --base-url for a real judge.",
        choices=("lexical",),
        changes_rewards=True,
    )
    base_url: tuple[str, ...] = declare(
        (),
        "Judge",
        "OpenAI-compatible endpoint of the judge, for example http://localhost:8000/v1. Repeatable for several "
        "endpoints that serve the same model (environment: comma-separated; file: a list).",
    )
    model: str | None = declare(None, "Judge", "Model name of the judge on its server.", changes_rewards=True)
    profile: str | None = declare(
        None,
        "Judge",
        "How to prompt this family of judges and parse its replies: a name that `genrm profiles` lists, or your own "
        "TOML file. Default: chosen by model name, otherwise nemotron.",
        changes_rewards=True,
    )
    principle: str | None = declare(
        None,
        "Judge",
        "Criterion to judge by: text, or @FILE. A rollout's own principle takes precedence.",
        changes_rewards=True,
    )
    temperature: float | None = declare(
        None, "Judge", "Sampling temperature. Default: the profile's.", low=0, high=2, changes_rewards=True
    )
    top_p: float | None = declare(
        None, "Judge", "Nucleus sampling threshold. Default: the profile's.", low=0, high=1, changes_rewards=True
    )
    max_reply_tokens: int | None = declare(
        None,
        "Judge",
        "Maximum tokens in a reply, including reasoning. Default: the profile's.",
        low=1,
        changes_rewards=True,
    )
    api_key_env: str | None = declare(
        None,
        "Judge",
        "Environment variable that holds the API key. Default: GENRM_API_KEY, then OPENAI_API_KEY.",
    )
    api_key_file: str | None = declare(None, "Judge", "File that holds the API key, instead of a variable.")
    ca_bundle: str | None = declare(
        None, "Judge", "PEM file of certificate authorities to trust in addition to the system's."
    )
    probe: bool = declare(
        True, "Judge", "Test the judge before the run: compare a good and a bad answer in both orders."
    )
    redact_pattern: tuple[str, ...] = declare(
        (),
        "Judge",
        f"Mask matches in all text sent to the judge: {listed(REDACTIONS)}, or a regular expression. Repeatable. "
        "The summary counts the matches.",
        changes_rewards=True,
    )
    compat: str | None = declare(
        None,
        "Judge",
        "nemo-gym: reproduce NeMo Gym's genrm_compare, with its pairs, estimator and parsing, and its defaults "
        "(3, 3, 3.5) in place of failures. The summary counts the rewards that depend on defaults.",
        choices=("nemo-gym",),
        changes_rewards=True,
    )
    judge_id: str | None = declare(
        None,
        "Journal",
        "Identity of the judge in the journal: verdicts are never shared between identities. Default: the model name.",
    )


@dataclass(frozen=True, slots=True)
class PanelJudge:
    """One `[[judge]]` table of a settings file.

    Attributes:
        weight: how much its verdicts count, relative to the others'.
        values: its own settings by flat name; they override those of the run.
    """

    weight: float
    values: tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelSettings:
    """Several judges that answer every comparison; without `judges`, the run has a single judge."""

    judges: tuple[PanelJudge, ...] = ()
    quorum: int | None = declare(
        None,
        "Judge",
        "Panel (judge tables in the settings file): verdicts needed for a comparison to count. "
        "Default: one from every judge.",
        low=1,
        changes_rewards=True,
    )
    disagreement: str = declare(
        "average",
        "Judge",
        "Panel: average the judges' scores by weight, or treat a comparison as missing when two judges prefer "
        "different responses.",
        choices=("average", "missing"),
        changes_rewards=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSettings:
    """Timeouts, retries, budgets and prices."""

    concurrency: str = declare(
        "auto",
        "Limits",
        "Maximum calls in flight: a number, or auto, which adapts to each endpoint (up to 4096).",
    )
    connect_timeout: float = declare(10.0, "Limits", "Connection timeout.", low=0.001, is_duration=True)
    call_timeout: float = declare(600.0, "Limits", "Timeout of one request.", low=0.001, is_duration=True)
    comparison_timeout: float = declare(
        3600.0, "Limits", "Timeout of one comparison, including retries and waits.", low=0.001, is_duration=True
    )
    deadline: float | None = declare(
        None,
        "Limits",
        "Time limit of the whole run, for example 2h. After it, no calls start, calls in flight get another minute, "
        "partial results are written, and the exit code is 6.",
        low=0.001,
        is_duration=True,
    )
    give_up_after: float = declare(
        300.0, "Limits", "Stop with exit code 4 after the judge is down for this long.", low=0.001, is_duration=True
    )
    retries: int = declare(
        5, "Limits", "Retries of a request after a 5xx status, a timeout or a connection error.", low=0, high=100
    )
    reask: int = declare(
        3, "Limits", "Times to repeat a comparison whose reply holds no readable verdict.", low=0, high=100
    )
    hedge: bool = declare(False, "Limits", "Send a slow request again when slots are idle; the first reply counts.")
    max_calls: int | None = declare(None, "Limits", "Stop with partial results after this many calls.", low=0)
    max_total_tokens: int | None = declare(
        None, "Limits", "Stop with partial results after this many prompt and reply tokens in total.", low=0
    )
    max_cost: float | None = declare(
        None, "Limits", "Stop with partial results at this cost; requires --price-in and --price-out.", low=0
    )
    price_in: float = declare(0.0, "Limits", "Price per million prompt tokens.", low=0)
    price_out: float = declare(0.0, "Limits", "Price per million reply tokens.", low=0)
    parallel_files: int = declare(
        8, "Limits", "Inputs to process at the same time; they share the judge.", low=1, high=256
    )
