"""Every setting: its name, default, bounds and meaning."""

import hashlib
import json
import types
import typing
from collections.abc import Collection, Iterable
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from typing import Any, Literal

from genrm_cli.settings.components import Component, Diversity, TotalTable

Value = str | int | float | bool | tuple[str, ...] | None
Panel = Literal["Input", "Pairs", "Judge", "Limits", "Journal", "Rewards", "Output", "Storage"]

MAX_DURATION_S = 366 * 86_400.0  # what is far beyond it overflows the clocks of some libraries

_LENGTH_R, _LENGTH_A = "group_reasoning_length_penalty_coeff", "group_answer_length_penalty_coeff"
_STYLE = "group_style_penalty_coeff"
_BONUSES = {"reasoning_bonus": 0.5, "answer_bonus": 0.5, "top_percentile": 0.2}

# Coefficients that NVIDIA released with its models. Source: Nemotron 3 Nano report, arXiv 2512.20848 §3.3;
# the configurations published with Nemotron 3 Super and Ultra.
PRESETS: dict[str, dict[str, float]] = {
    "nemotron-3-nano": {**_BONUSES, _LENGTH_R: 0.5, _LENGTH_A: 0.5},
    "nemotron-3-super": {**_BONUSES, _LENGTH_R: 0.3, _LENGTH_A: 0.35, _STYLE: 0.05},
    "nemotron-3-super-rlvr": {_LENGTH_R: 0.1, _LENGTH_A: 0.1, _STYLE: 0.1},
    "nemotron-3-ultra": {**_BONUSES, _LENGTH_R: 0.1, _LENGTH_A: 0.25},
}


def _setting(
    default: Value,
    panel: Panel,
    meaning: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    changes_rewards: bool = False,
    key: str | None = None,
    flag: str | None = None,
    negative: str | None = None,
    duration: bool = False,
) -> Any:
    """Declare a setting.

    Args:
        default: what holds when nothing is given; for a tuple, which is given by repeating its flag, ().
        panel: where the help shows it.
        meaning: one or two sentences for the help.
        low: least value. `high` likewise.
        high: greatest value.
        choices: the texts that are allowed.
        changes_rewards: whether it belongs to the digest.
        key: its name in files and the environment, when it differs from the field's.
        flag: a short flag.
        negative: the flag that switches it off, when it is not `--no-` and its name.
        duration: whether it may be given as 90s, 15m or 2h; at most 366 days.
    """
    return field(
        default=default,
        metadata={
            "panel": panel,
            "meaning": meaning,
            "low": low,
            "high": MAX_DURATION_S if duration else high,
            "choices": choices,
            "changes_rewards": changes_rewards,
            "key": key,
            "flag": flag,
            "negative": negative,
            "duration": duration,
        },
    )


@dataclass(frozen=True, slots=True)
class PanelJudge:
    """One `[[judge]]` table of a settings file: what this judge of a panel has for its own.

    Attributes:
        weight: how much its verdicts count, relative to the others'.
        values: settings of the panel Judge by field name; they go before those of the whole run.
    """

    weight: float
    values: tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The effective settings of one run. Times are in seconds, sizes in bytes.

    Attributes:
        panel: the `[[judge]]` tables; empty for a single judge. Like the three below it has no flag.
        components: the `[components]` tables and what `component` names.
        diversity: the `[diversity]` table, if there is one.
        total: the `[total]` table; None where the reward is the component `genrm` alone.
    """

    # Input
    dialect: str | None = _setting(
        None,
        "Input",
        "Read every line as this dialect: nemo_gym, compare, many, verifiers, episode, completion or chat. "
        "Default: each line is recognised by itself.",
        choices=("nemo_gym", "compare", "many", "verifiers", "episode", "completion", "chat"),
        changes_rewards=True,
    )
    group_by: str | None = _setting(
        None,
        "Input",
        "Dotted path of the field that names the group, for instance metadata.task. "
        "Default: task index, else prompt id, else example or scenario id, else the prompt.",
        changes_rewards=True,
    )
    max_line_bytes: int = _setting(
        64_000_000, "Input", "A longer line goes to the rejects without being read.", low=1_000
    )
    strict: bool = _setting(
        False, "Input", "Stop with exit code 3 before any call if a line is bad or a rollout is there twice."
    )
    min_age: float = _setting(
        60.0,
        "Input",
        "Leave files that a folder, prefix or pattern holds for the next run while they are younger than this: "
        "they may still be written.",
        low=0,
        duration=True,
    )
    require_metadata: tuple[str, ...] = _setting(
        (),
        "Input",
        "FIELD=VALUE that a rollout must declare, for instance synthetic=true (dotted path in the record, or below "
        "its metadata); what does not goes to the rejects. Repeat it for several.",
        changes_rewards=True,
    )

    # Pairs
    strategy: str = _setting(
        "ring",
        "Pairs",
        "ring: every rollout against as many others as any and as often first as second, N times --ring-k comparisons "
        "for N rollouts. circular: each against the next one in the group, N. all_pairs: each against each, N(N-1)/2. "
        "For comparison: swap (half as many pairs, in both orders) and random.",
        choices=("circular", "all_pairs", "ring", "swap", "random"),
        changes_rewards=True,
    )
    ring_k: float = _setting(
        1.0,
        "Pairs",
        "ring, swap, random: so many rings, each of N comparisons (N/2 where it joins opposite rollouts); 2.5 takes "
        "half of a third ring.",
        low=0.1,
        high=10_000,
        changes_rewards=True,
    )
    budget: int | None = _setting(
        None,
        "Pairs",
        "Calls for each input: takes the ring (swap, random) with the most comparisons that need no more of them. "
        "Retries and re-askings come on top; --max-calls is the hard limit.",
        low=1,
        changes_rewards=True,
    )
    judges: int = _setting(
        1, "Pairs", "How often the whole list of comparisons is asked.", low=1, high=64, changes_rewards=True
    )
    swap: bool = _setting(
        False,
        "Pairs",
        "Ask every pair in both orders; a pair counts only with both verdicts, and the metrics tell how often they "
        "contradict each other. Twice the calls.",
        changes_rewards=True,
    )
    order_balanced: bool = _setting(
        False, "Pairs", "all_pairs: alternate which rollout is shown first.", changes_rewards=True
    )

    seed: int = _setting(0, "Pairs", "Seed of what is drawn by lot: who meets whom.", low=0, changes_rewards=True)

    # Judge
    judge: str | None = _setting(
        None,
        "Judge",
        "lexical: the embedded stand-in (no model, no network; for trying the pipeline and for CI). "
        "Leave it out and give --base-url for a real judge.",
        choices=("lexical",),
        changes_rewards=True,
    )
    base_url: tuple[str, ...] = _setting(
        (),
        "Judge",
        "The judge's OpenAI-compatible endpoint, for instance http://localhost:8000/v1. Repeat it for several "
        "that serve the same model (environment: separated by commas; file: a list).",
    )
    model: str | None = _setting(None, "Judge", "The judge's model name, as its server knows it.", changes_rewards=True)
    profile: str | None = _setting(
        None,
        "Judge",
        "How this family of judges is asked and read; `genrm profiles` lists them; or a TOML file of your own. "
        "Default: by the model's name, else nemotron.",
        changes_rewards=True,
    )
    principle: str | None = _setting(
        None,
        "Judge",
        "What to judge by: a text, or @FILE. A rollout's own principle goes first.",
        changes_rewards=True,
    )
    temperature: float | None = _setting(
        None, "Judge", "Sampling temperature. Default: the profile's.", low=0, high=2, changes_rewards=True
    )
    top_p: float | None = _setting(
        None, "Judge", "Nucleus sampling. Default: the profile's.", low=0, high=1, changes_rewards=True
    )
    max_reply_tokens: int | None = _setting(
        None,
        "Judge",
        "Limit of a reply, reasoning included. Default: the profile's.",
        low=1,
        changes_rewards=True,
    )
    api_key_env: str | None = _setting(
        None,
        "Judge",
        "Environment variable that holds the API key. Default: GENRM_API_KEY, then OPENAI_API_KEY.",
    )
    api_key_file: str | None = _setting(None, "Judge", "File that holds the API key, instead of a variable.")
    ca_bundle: str | None = _setting(
        None, "Judge", "PEM file of certificate authorities to trust besides the system's."
    )
    probe: bool = _setting(
        True, "Judge", "Before the run, compare a good and a bad answer in both orders to try the judge."
    )
    redact_pattern: tuple[str, ...] = _setting(
        (),
        "Judge",
        "Mask what matches in everything that is sent to the judge: email, phone, identity, or a regular expression "
        "of your own. Repeat it for several; the summary counts the matches.",
        changes_rewards=True,
    )
    quorum: int | None = _setting(
        None,
        "Judge",
        "With a panel (judge tables in the settings file): how many judges must have given a verdict for a comparison "
        "to count. Default: all of them.",
        low=1,
        changes_rewards=True,
    )
    disagreement: str = _setting(
        "average",
        "Judge",
        "With a panel: average the judges' scores by weight, or count a comparison as missing on which two judges "
        "prefer different responses.",
        choices=("average", "missing"),
        changes_rewards=True,
    )
    compat: str | None = _setting(
        None,
        "Judge",
        "nemo-gym: pairs, estimator and reading of replies of NeMo Gym's genrm_compare, with failures turned into its "
        "defaults (3, 3, 3.5), to reproduce old numbers. The summary counts the rewards that rest on them.",
        choices=("nemo-gym",),
        changes_rewards=True,
    )

    # Limits
    concurrency: str = _setting(
        "auto",
        "Limits",
        "Calls in flight at most: a number, or auto, which finds the level (for each endpoint, up to 4096).",
    )
    connect_timeout: float = _setting(10.0, "Limits", "What opening a connection may take.", low=0.001, duration=True)
    call_timeout: float = _setting(600.0, "Limits", "What one call may take in all.", low=0.001, duration=True)
    comparison_timeout: float = _setting(
        3600.0, "Limits", "What one comparison may take with all its calls and waits.", low=0.001, duration=True
    )
    deadline: float | None = _setting(
        None,
        "Limits",
        "What the whole run may take, for instance 2h: then no more is asked, calls in flight get another minute, "
        "partial results are written, and the exit code is 6.",
        low=0.001,
        duration=True,
    )
    give_up_after: float = _setting(
        300.0,
        "Limits",
        "Stop with exit code 4 when the judge has been down for this long.",
        low=0.001,
        duration=True,
    )
    retries: int = _setting(
        5, "Limits", "Further tries of a call after 5xx, a timeout or a connection fault.", low=0, high=100
    )
    reask: int = _setting(
        3, "Limits", "Further askings of a comparison whose reply holds no readable verdict.", low=0, high=100
    )
    hedge: bool = _setting(
        False, "Limits", "Ask a straggler a second time when slots are idle; the first answer counts."
    )
    max_calls: int | None = _setting(None, "Limits", "Stop with partial results after so many calls.", low=0)
    max_tokens: int | None = _setting(
        None, "Limits", "Stop with partial results after so many tokens, prompts and replies together.", low=0
    )
    max_cost: float | None = _setting(
        None, "Limits", "Stop with partial results after this cost; needs the prices.", low=0
    )
    price_in: float = _setting(0.0, "Limits", "Price of a million prompt tokens.", low=0)
    price_out: float = _setting(0.0, "Limits", "Price of a million reply tokens.", low=0)

    parallel_files: int = _setting(
        8, "Limits", "Of several inputs, how many are worked on at once; they share the judge.", low=1, high=256
    )

    # Journal
    journal: str | None = _setting(
        None,
        "Journal",
        "File that keeps every verdict; a later run asks only what is not in it. Or s3://bucket/rl/.../: copied "
        "there in small segments, so that another machine can go on. "
        "Default: <stem>.journal.sqlite beside a local output, else in the user's state folder.",
    )
    segment_calls: int = _setting(
        200, "Journal", "With a journal on S3: at most so many verdicts are not copied there yet.", low=1
    )
    segment_age: float = _setting(
        10.0, "Journal", "With a journal on S3: at least so often verdicts are copied there.", low=0.1, duration=True
    )
    use_journal: bool = _setting(
        True, "Journal", "Keep verdicts in a journal and take known ones from it.", negative="--no-journal"
    )
    judge_id: str | None = _setting(
        None,
        "Journal",
        "What the journal calls this judge: verdicts of one judge are not taken for another's. "
        "Default: the model's name.",
    )
    only_failed: bool = _setting(False, "Journal", "Ask again only what was asked before and failed; ask nothing new.")

    # Rewards
    estimator: str = _setting(
        "combined",
        "Rewards",
        "From verdicts to base scores. simple_tiebreaker: mean of a rollout's scores, as NeMo Gym. combined: least "
        "squares over scores and rankings, adjusted for opponents and the judge's preference for a place; "
        "combined_fitted: with weights learned from the judge's own verdicts. Also win_rate and bradley_terry.",
        choices=("simple_tiebreaker", "combined", "combined_fitted", "win_rate", "bradley_terry"),
        changes_rewards=True,
    )
    min_reliability: float | None = _setting(
        None,
        "Rewards",
        "Leave groups unscored of whose spread less than this share is signal (0 to 1).",
        low=0,
        high=1,
        changes_rewards=True,
    )
    preset: str | None = _setting(
        None,
        "Rewards",
        "Released length and style coefficients: nemotron-3-nano, nemotron-3-super, nemotron-3-super-rlvr or "
        "nemotron-3-ultra; a coefficient given by itself overrides its preset.",
        choices=tuple(PRESETS),
    )
    reasoning_bonus: float = _setting(
        0.0,
        "Rewards",
        "Added to the rollout with the shortest reasoning if its score is among the top.",
        low=0,
        changes_rewards=True,
    )
    answer_bonus: float = _setting(
        0.0,
        "Rewards",
        "Added to the rollout with the shortest answer if its score is among the top.",
        low=0,
        changes_rewards=True,
    )
    top_percentile: float = _setting(
        0.2,
        "Rewards",
        "Share of the group that counts as the top for the two bonuses.",
        low=0,
        high=1,
        changes_rewards=True,
    )
    group_reasoning_length_penalty_coeff: float = _setting(
        0.0,
        "Rewards",
        "Weight of short reasoning, relative to the group and centred on 0.",
        low=0,
        changes_rewards=True,
    )
    group_answer_length_penalty_coeff: float = _setting(
        0.0,
        "Rewards",
        "Weight of a short answer, relative to the group and centred on 0.",
        low=0,
        changes_rewards=True,
    )
    group_style_penalty_coeff: float = _setting(
        0.0,
        "Rewards",
        "Weight of little markup (headers, lists, bold, emoji), relative to the group and centred on 0.",
        low=0,
        changes_rewards=True,
    )
    default_score: float = _setting(
        3.0, "Rewards", "Reward of a rollout that is alone in its group.", changes_rewards=True
    )
    unscored: str = _setting(
        "null",
        "Rewards",
        "What a rollout without a verdict gets: null, drop (its line is left out) or a number.",
        changes_rewards=True,
    )
    max_unscored: float = _setting(
        0.05,
        "Rewards",
        "Exit code 6 when more than this share of the rollouts in groups stayed unscored.",
        low=0,
        high=1,
    )

    # Not in the digest by itself: what it says is there as a component.
    component: tuple[str, ...] = _setting(
        (),
        "Rewards",
        "Compute one more component of the reward: win_rate, rank, a rule (safety, empathy, bias, task_completion), "
        "rubric:SET, field:PATH, consistency:FORM, ... Repeat it for several; tables in the settings file say more.",
    )
    only_components: bool = _setting(
        False, "Rewards", "Compute the rewards anew from what the journal holds; ask nothing."
    )

    # Output
    output: str | None = _setting(
        None,
        "Output",
        "Where the scored lines go: a path, s3://..., or - for stdout. Default: <stem>.scored.jsonl beside the input.",
        flag="-o",
    )
    output_template: str = _setting(
        "{dir}/{stem}.scored.jsonl",
        "Output",
        "Where the scored lines of each input go: {dir} is its folder, {path} that folder below the given prefix, "
        "{stem} its name without suffix.",
    )
    overwrite: bool = _setting(
        False, "Output", "Score again what is up to date, and replace outputs whoever wrote them.", flag="--force"
    )
    dry_run: bool = _setting(False, "Output", "Show what would be done with each input, and do nothing.")
    keep_replies: bool = _setting(False, "Output", "Keep the judge's replies in the comparisons file.")
    json_output: bool = _setting(False, "Output", "Print one JSON object on stdout.", key="json")
    log_json: str | None = _setting(
        None, "Output", "File to which events (progress, endpoints down and up, ...) are added as JSON lines."
    )
    quiet: bool = _setting(False, "Output", "Say nothing but errors.", flag="-q")

    # Storage
    s3_endpoint_url: str | None = _setting(
        None, "Storage", "S3-compatible endpoint (MinIO, OVH, ...). AWS_ENDPOINT_URL works too."
    )
    s3_profile: str | None = _setting(None, "Storage", "Profile of the AWS credentials file.")
    s3_region: str | None = _setting(None, "Storage", "AWS region.")
    claims: bool = _setting(
        True, "Storage", "Claim each file while working on it, so that two runs do not do the same work."
    )
    claim_expiry: float = _setting(
        300.0,
        "Storage",
        "A claim that was not renewed for this long is taken over: its owner has vanished.",
        low=1,
        duration=True,
    )
    lock: bool = _setting(
        False, "Storage", "Do not start while the same command still runs on this machine; exit code 5."
    )
    any_prefix: bool = _setting(
        False, "Storage", "Allow S3 results outside rl/ (RL data is kept apart from supervised data)."
    )
    panel: tuple[PanelJudge, ...] = ()
    components: tuple[Component, ...] = ()
    diversity: Diversity | None = None
    total: TotalTable | None = None


def setting_fields() -> list["Field[Any]"]:
    """Return the dataclass fields of all settings that have a flag, in the order of the help."""
    return [setting for setting in fields(Settings) if "panel" in setting.metadata]


def key_of(setting: "Field[Any]") -> str:
    """Return the setting's name in files; upper-cased with `GENRM_` before it, in the environment."""
    return setting.metadata["key"] or setting.name


def flag_of(setting: "Field[Any]") -> str:
    """Return the setting's long flag."""
    return "--" + key_of(setting).replace("_", "-")


def is_many(setting: "Field[Any]") -> bool:
    """Whether a setting takes several texts."""
    return setting.default == ()


def type_of(setting: "Field[Any]") -> type:
    """Return `str`, `int`, `float` or `bool`, whichever a given value (each of several) must have."""
    options = typing.get_args(setting.type) or (setting.type,)
    for option in options:
        if isinstance(option, type) and option is not types.NoneType:
            return option
    raise TypeError(f"setting {setting.name}: {setting.type!r} is not a type")


def default_of(setting: "Field[Any]") -> Value:
    """Return the default of a setting, for help and documentation."""
    if setting.default is MISSING:
        raise TypeError(f"setting {setting.name} has no default")
    value: Value = setting.default
    return value


def _deciding(values: Iterable[tuple[str, object]], names: Collection[str]) -> dict[str, object]:
    return {name: value for name, value in values if name in names}


def digest_of(settings: Settings) -> str:
    """Return the sha256 (hex) over every setting that can change a reward, and no other."""
    names = {s.name for s in setting_fields() if s.metadata["changes_rewards"]}
    deciding: dict[str, object] = {name: getattr(settings, name) for name in names}
    deciding["panel"] = [[judge.weight, _deciding(judge.values, names)] for judge in settings.panel]
    deciding["components"] = [[c.name, c.kind, c.options, _deciding(c.judge, names)] for c in settings.components]
    if settings.diversity is not None:
        deciding["diversity"] = asdict(settings.diversity) | {"judge": _deciding(settings.diversity.judge, names)}
    deciding["total"] = None if settings.total is None else asdict(settings.total)
    return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()
