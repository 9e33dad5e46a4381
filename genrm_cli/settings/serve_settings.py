"""Settings of `genrm serve`."""

from dataclasses import dataclass

from genrm_cli.settings.declare import duration, setting
from genrm_cli.settings.kinds import SIZE


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """The server: where it listens, who may ask, how long it waits."""

    listen: str = setting("127.0.0.1:8330", "Address to listen on, HOST:PORT. Port 0 takes a free one.", is_common=True)
    token_env: str | None = setting(
        None,
        "Environment variable with the bearer token that requests must carry. Default: GENRM_SERVE_TOKEN, if it is "
        "set.",
    )
    allow_public: bool = setting(False, "Listen on an address other than loopback without a token.")
    tls_cert: str | None = setting(None, "Certificate chain (PEM) for HTTPS. Requires $tls_key.")
    tls_key: str | None = setting(None, "Private key (PEM) of $tls_cert.")
    max_body: int = setting(64_000_000, "Refuse larger request bodies, for example 16MB.", low=1_000, kind=SIZE)
    cohort_size: int | None = setting(
        None, "Members of each cohort, for trainers that do not send it. A URL may say ?size=N instead.", low=1
    )
    cohort_deadline: float = duration(
        600.0,
        "Score a cohort with the members that have come when its first member has waited this long.",
        is_common=True,
    )
    keep: float = duration(600.0, "Keep answers for repeated requests and late members for this long.")
    max_cohorts: int = setting(
        20_000, "Maximum number of open cohorts; another one gets 429. At most as many answers are kept.", low=1
    )
    queue: int = setting(
        20_000, "Comparisons being judged above which further groups get 429. Open cohorts are never refused.", low=1
    )
    drain: float = duration(60.0, "After SIGTERM, wait this long for open cohorts.", low=0)
    on_failure: float | None = setting(
        None,
        "Reward to send for a rollout that has none, where a trainer requires a number. Default: the trainer's error.",
        low=-1_000_000,
        high=1_000_000,
    )
    record: str | None = setting(
        None, "Folder or s3://bucket/rl/.../ that receives every rollout with its reward, as genrm score writes them."
    )
    record_every: float = duration(300.0, "Begin a new file of $record after this time.", low=0.1)
