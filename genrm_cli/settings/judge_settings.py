"""Settings of the judges: who is asked, how, and within which limits."""

from dataclasses import dataclass

from genrm_cli.settings.declare import Value, declare


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
class JudgeSettings:
    """The judge: where it is, and how it is prompted."""

    judge: str | None = declare(
        None,
        "Judge",
        "lexical: the embedded stand-in (no model, no network; for trying the pipeline and for CI). "
        "Leave it out and give --base-url for a real judge.",
        choices=("lexical",),
        changes_rewards=True,
    )
    base_url: tuple[str, ...] = declare(
        (),
        "Judge",
        "The judge's OpenAI-compatible endpoint, for instance http://localhost:8000/v1. Repeat it for several "
        "that serve the same model (environment: separated by commas; file: a list).",
    )
    model: str | None = declare(None, "Judge", "The judge's model name, as its server knows it.", changes_rewards=True)
    profile: str | None = declare(
        None,
        "Judge",
        "How this family of judges is asked and read; `genrm profiles` lists them; or a TOML file of your own. "
        "Default: by the model's name, else nemotron.",
        changes_rewards=True,
    )
    principle: str | None = declare(
        None,
        "Judge",
        "What to judge by: a text, or @FILE. A rollout's own principle goes first.",
        changes_rewards=True,
    )
    temperature: float | None = declare(
        None, "Judge", "Sampling temperature. Default: the profile's.", low=0, high=2, changes_rewards=True
    )
    top_p: float | None = declare(
        None, "Judge", "Nucleus sampling. Default: the profile's.", low=0, high=1, changes_rewards=True
    )
    max_reply_tokens: int | None = declare(
        None,
        "Judge",
        "Limit of a reply, reasoning included. Default: the profile's.",
        low=1,
        changes_rewards=True,
    )
    api_key_env: str | None = declare(
        None,
        "Judge",
        "Environment variable that holds the API key. Default: GENRM_API_KEY, then OPENAI_API_KEY.",
    )
    api_key_file: str | None = declare(None, "Judge", "File that holds the API key, instead of a variable.")
    ca_bundle: str | None = declare(None, "Judge", "PEM file of certificate authorities to trust besides the system's.")
    probe: bool = declare(
        True, "Judge", "Before the run, compare a good and a bad answer in both orders to try the judge."
    )
    redact_pattern: tuple[str, ...] = declare(
        (),
        "Judge",
        "Mask what matches in everything that is sent to the judge: email, phone, identity, or a regular expression "
        "of your own. Repeat it for several; the summary counts the matches.",
        changes_rewards=True,
    )
    compat: str | None = declare(
        None,
        "Judge",
        "nemo-gym: pairs, estimator and reading of replies of NeMo Gym's genrm_compare, with failures turned into its "
        "defaults (3, 3, 3.5), to reproduce old numbers. The summary counts the rewards that rest on them.",
        choices=("nemo-gym",),
        changes_rewards=True,
    )
    judge_id: str | None = declare(
        None,
        "Journal",
        "What the journal calls this judge: verdicts of one judge are not taken for another's. "
        "Default: the model's name.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelSettings:
    """Several judges that answer every comparison."""

    judges: tuple[PanelJudge, ...] = ()
    quorum: int | None = declare(
        None,
        "Judge",
        "With a panel (judge tables in the settings file): how many judges must have given a verdict for a comparison "
        "to count. Default: all of them.",
        low=1,
        changes_rewards=True,
    )
    disagreement: str = declare(
        "average",
        "Judge",
        "With a panel: average the judges' scores by weight, or count a comparison as missing on which two judges "
        "prefer different responses.",
        choices=("average", "missing"),
        changes_rewards=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSettings:
    """Timeouts, retries and budgets."""

    concurrency: str = declare(
        "auto",
        "Limits",
        "Calls in flight at most: a number, or auto, which finds the level (for each endpoint, up to 4096).",
    )
    connect_timeout: float = declare(10.0, "Limits", "What opening a connection may take.", low=0.001, duration=True)
    call_timeout: float = declare(600.0, "Limits", "What one call may take in all.", low=0.001, duration=True)
    comparison_timeout: float = declare(
        3600.0, "Limits", "What one comparison may take with all its calls and waits.", low=0.001, duration=True
    )
    deadline: float | None = declare(
        None,
        "Limits",
        "What the whole run may take, for instance 2h: then no more is asked, calls in flight get another minute, "
        "partial results are written, and the exit code is 6.",
        low=0.001,
        duration=True,
    )
    give_up_after: float = declare(
        300.0,
        "Limits",
        "Stop with exit code 4 when the judge has been down for this long.",
        low=0.001,
        duration=True,
    )
    retries: int = declare(
        5, "Limits", "Further tries of a call after 5xx, a timeout or a connection fault.", low=0, high=100
    )
    reask: int = declare(
        3, "Limits", "Further askings of a comparison whose reply holds no readable verdict.", low=0, high=100
    )
    hedge: bool = declare(
        False, "Limits", "Ask a straggler a second time when slots are idle; the first answer counts."
    )
    max_calls: int | None = declare(None, "Limits", "Stop with partial results after so many calls.", low=0)
    max_total_tokens: int | None = declare(
        None,
        "Limits",
        "Stop with partial results after so many tokens, prompts and replies together.",
        low=0,
        key="max_tokens",
    )
    max_cost: float | None = declare(
        None, "Limits", "Stop with partial results after this cost; needs the prices.", low=0
    )
    price_in: float = declare(0.0, "Limits", "Price of a million prompt tokens.", low=0)
    price_out: float = declare(0.0, "Limits", "Price of a million reply tokens.", low=0)
    parallel_files: int = declare(
        8, "Limits", "Of several inputs, how many are worked on at once; they share the judge.", low=1, high=256
    )
