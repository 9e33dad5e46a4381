"""Settings of the judges: endpoints, prompts and limits."""

from dataclasses import dataclass
from typing import Literal

from genrm_cli.catalog import REDACTIONS, listed
from genrm_cli.settings.declare import (
    duration,
    reward_setting,
    setting,
)
from genrm_cli.settings.kinds import CONCURRENCY, REDACTION, REQUEST_FIELD, TEXT_OR_FILE, URL, Value

_CONNECT_TIMEOUT_S = 10.0
# A server that is restarted loads its model for many minutes; slow calls get all their retries.
_COMPARISON_TIMEOUT_S = 3600.0
# Each input in progress holds its index and its journal in memory.
_PARALLEL_FILES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class CriteriaTable:
    """The `[criteria]` table: what the judge is told by category.

    Attributes:
        sentences: by category.
        fields: dotted paths of the category, a text or a list of them; the first that a line has.
    """

    sentences: tuple[tuple[str, str], ...]
    fields: tuple[str, ...] = ("category", "subset", "domain", "source")  # of benchmarks


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings:
    """The judge: its endpoint and its prompt.

    Attributes:
        criteria: the `[criteria]` table; None without one.
    """

    judge: Literal["lexical"] | None = reward_setting(
        "lexical: the built-in lexical baseline, as $offline. For a real judge, set $base_url."
    )
    base_url: tuple[str, ...] = setting(
        "OpenAI-compatible endpoint of the judge, for example http://localhost:8000/v1. "
        "Repeatable, for servers of the same model. Default: OPENAI_BASE_URL.",
        (),
        kind=URL,
        is_common=True,
    )
    model: str | None = reward_setting("Model name of the judge on its server.", is_common=True)
    judging: Literal["pairwise", "listwise"] = reward_setting(
        "How a chat model judges. pairwise: two responses in a call. listwise: all responses of a"
        " group, in $repeats orders.",
        "pairwise",
        is_common=True,
        only_with="!compat, !judge|components|diversity",
    )
    profile: str | None = reward_setting(
        "How to prompt the judge and parse its replies. A name listed by `genrm profiles`, or "
        "your own TOML file. Default: by model name; for unknown models nemotron-plain.",
        is_common=True,
        only_with="!judge|components|diversity",
    )
    principle: str | None = reward_setting(
        "Criterion to judge by: text, or @FILE. A rollout's own principle takes precedence.",
        kind=TEXT_OR_FILE,
        is_common=True,
        only_with="!judge|components|diversity",
    )
    temperature: float | None = reward_setting(
        "Sampling temperature. Default: the profile's.",
        low=0,
        high=2,
        only_with="!judge|components|diversity",
    )
    top_p: float | None = reward_setting(
        "Nucleus sampling threshold. Default: the profile's.",
        low=0,
        high=1,
        only_with="!judge|components|diversity",
    )
    max_reply_tokens: int | None = reward_setting(
        "Maximum tokens in a reply, including reasoning. Default: the profile's.",
        low=1,
        only_with="!judge|components|diversity",
    )
    request_field: tuple[str, ...] = reward_setting(
        "Set a field of each request: NAME=VALUE, as in reasoning_effort=low, or NAME= to leave "
        "it out. Repeatable.",
        (),
        kind=REQUEST_FIELD,
        only_with="!judge|components|diversity",
    )
    max_model_len: int | None = reward_setting(
        "Context length of the judge in tokens, prompt and reply together; 0: never shorten. "
        "Default: as reported by the endpoint, or learned from its refusals.",
        low=0,
        only_with="!compat, !judge|components|diversity",
    )
    images: bool = reward_setting(
        "Show the judge images that are data, or lie on an $image_hosts.",
        False,
        only_with="!compat, !judge|components|diversity",
    )
    image_hosts: tuple[str, ...] = reward_setting(
        "Host from which the judge's server may fetch images of rollouts. Repeatable.",
        (),
        only_with="!compat, images|profile|panel|components",
    )
    api_key_env: str | None = setting(
        "Environment variable that contains the API key. Default: GENRM_API_KEY, then "
        "OPENAI_API_KEY."
    )
    http_client: Literal["auto", "pyreqwest", "httpx"] = setting(
        "Library that makes the calls. auto: pyreqwest, or httpx where it cannot be used.",
        "auto",
    )
    probe: bool = setting(
        "Test the judge before the run: compare a good and a bad answer in both orders.",
        True,
        negative_help="Do not test the judge before the run.",
    )
    redact_pattern: tuple[str, ...] = reward_setting(
        f"Mask matches in all text sent to the judge: {listed(REDACTIONS)}, or a regular "
        "expression (RE2). Repeatable. phone and identity require the extra redact.",
        (),
        kind=REDACTION,
    )
    compat: Literal["nemo-gym"] | None = reward_setting(
        "nemo-gym: reproduce NeMo Gym's genrm_compare: its pairs, estimator, parsing, and "
        "defaults in place of failures."
    )
    judge_id: str | None = setting(
        "Identity of the judge, wherever it runs: identities never share verdicts or outputs. "
        "Default: the model name.",
        panel="Journal",
    )
    criteria: CriteriaTable | None = None


@dataclass(frozen=True, slots=True)
class PanelJudge:
    """One `[[judge]]` table: settings by flat name that override those of the run."""

    values: tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelSettings:
    """Several judges that answer every comparison; without `judges`, the run has a single judge."""

    judges: tuple[PanelJudge, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSettings:
    """Timeouts, retries, budgets and prices."""

    limit: int | None = reward_setting(
        "Score only the first N groups of each input, as a trial.",
        low=1,
        is_common=True,
    )
    concurrency: str = setting(
        "Maximum calls in flight. A number, or auto, which adapts to each endpoint (up to 4096).",
        "auto",
        kind=CONCURRENCY,
    )
    call_timeout: float = duration("Timeout of one request.", 600.0)
    deadline: float | None = duration(
        "Time limit of the whole run, for example 2h. Then results are partial, and the exit code"
        " is 6.",
        is_common=True,
    )
    give_up_after: float = duration(
        "Stop with exit code 4 when the judge has been down for this long.", 300.0
    )
    retries: int = setting(
        "Number of retries of a request after a 5xx status, a timeout or a connection error.",
        5,
        low=0,
        high=100,
    )
    max_calls: int | None = setting(
        "Stop with partial results after this many calls.", low=0, is_common=True
    )
    max_total_tokens: int | None = setting(
        "Stop with partial results after this many prompt and reply tokens.", low=0
    )
    max_cost: float | None = setting(
        "Stop with partial results at this cost.",
        low=0,
        only_with="price_in|price_out",
    )
    price_in: float = setting("Price per million prompt tokens.", 0.0, low=0)
    price_out: float = setting("Price per million reply tokens.", 0.0, low=0)

    @property
    def max_in_flight(self) -> int | None:
        """Maximum number of calls in flight; None for `auto`."""
        return None if self.concurrency == "auto" else int(self.concurrency)

    @property
    def connect_timeout(self) -> float:
        """Connection timeout."""
        return min(_CONNECT_TIMEOUT_S, self.call_timeout)

    @property
    def comparison_timeout(self) -> float:
        """Timeout of one comparison, with all its retries and waits."""
        return max(_COMPARISON_TIMEOUT_S, (self.retries + 1) * self.call_timeout)

    @property
    def has_budget(self) -> bool:
        """Whether the run may end before all calls are made."""
        budgets = (self.max_calls, self.max_total_tokens, self.max_cost, self.deadline)
        return any(budget is not None for budget in budgets)

    @property
    def parallel_files(self) -> int:
        """Number of large inputs to process at the same time: never more than calls in flight."""
        return min(_PARALLEL_FILES, self.max_in_flight or _PARALLEL_FILES)
