"""Which judge the settings ask for, ready to be asked."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

from genrm_cli.errors import UsageError
from genrm_cli.judging.client import JudgeAddress, JudgeClient, chat_url
from genrm_cli.judging.engine import EmbeddedJudge, Judge
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.pacing.allowance import Allowance
from genrm_cli.judging.pacing.limit import AdaptiveLimit
from genrm_cli.judging.pacing.pool import Endpoint, EndpointPool, FixedLimit
from genrm_cli.judging.pacing.retry import RetryPolicy
from genrm_cli.judging.probe import probe_judge
from genrm_cli.judging.profiles import PROFILES, profile_for
from genrm_cli.judging.profiles.compat import parse_scores_json_as_reference
from genrm_cli.judging.profiles.own import parse_own_profile
from genrm_cli.judging.profiles.profile import Profile
from genrm_cli.judging.remote import JournaledJudge, Patience, RemoteJudge
from genrm_cli.scoring.context import Run
from genrm_cli.settings import Settings
from genrm_cli.settings.resolve import concurrency_of, read_toml
from genrm_cli.summary import Tally

AUTO_CEILING = 4_096
_READ_BY_THE_REFERENCE = ("nemotron", "nemotron-plain", "nemotron-ultra", "json")
GRACE_S = 60.0

NO_JUDGE = (
    "no judge is given. Pass --base-url http://HOST:PORT/v1 and --model NAME for a real one, "
    "or --judge lexical to try the pipeline with the embedded stand-in."
)


def check_judge(settings: Settings) -> None:
    """Refuse settings that name no judge, or one that cannot be asked.

    Raises:
        UsageError: says what to pass.
    """
    if settings.judge is not None:
        if settings.base_url:
            raise UsageError(f"--judge {settings.judge} and --base-url exclude each other; leave one of them out.")
        return
    if not settings.base_url:
        raise UsageError(NO_JUDGE)
    if settings.model is None:
        raise UsageError("--base-url needs --model: the judge's name, as its server lists it under /v1/models.")
    for base_url in settings.base_url:
        chat_url(base_url)
    profile_of(settings)


def find_profile(name: str | None, model: str | None) -> Profile:
    """Return a profile by its name, the user's own by its TOML file, or else by the model's name.

    Raises:
        UsageError: there is none, or the file holds none.
    """
    return _own_profile(name) if name is not None and name.endswith(".toml") else profile_for(name, model)


@cache
def _own_profile(path: str) -> Profile:
    profile = parse_own_profile(read_toml(Path(path)), path)
    if profile.name in PROFILES:
        raise UsageError(f"{path}: {profile.name} is the name of a profile that there is; give yours another one.")
    return profile


def profile_of(settings: Settings) -> Profile:
    """Return the profile that the settings ask for, with the reference's reading under `--compat`."""
    profile = find_profile(settings.profile, settings.model)
    if settings.compat is None:
        return profile
    if profile.name not in _READ_BY_THE_REFERENCE:
        raise UsageError(
            f"--compat {settings.compat} reads JSON scores, which the profile {profile.name} does not ask for."
        )
    read = partial(parse_scores_json_as_reference, default_score=settings.default_score)
    # Its own name, so that the journal does not take verdicts read one way, or filled with one default, for others.
    return replace(profile, name=f"{profile.name}+{settings.compat}-{settings.default_score:g}", parse_reply=read)


@dataclass(slots=True)
class JudgeDesk:
    """A judge that is open; all inputs of a run share it, with its endpoints, limits and budget.

    Attributes:
        remote: what is asked over HTTP; None for the embedded judge.
        pool: its endpoints; None for the embedded judge.
    """

    remote: RemoteJudge | None = None
    pool: EndpointPool | None = None
    _probed: bool = False
    _probing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def judge_with(self, journal: Journal | None, settings: Settings) -> Judge:
        """Return the judge with a journal in front of it, if there is one."""
        if self.remote is None:
            return EmbeddedJudge()
        return (
            self.remote if journal is None else JournaledJudge(self.remote, journal, only_failed=settings.only_failed)
        )

    @property
    def stopped_by(self) -> str | None:
        """Why no more questions are asked."""
        return None if self.pool is None else self.pool.stopped_by

    def what_cut_short(self, tally: Tally) -> str | None:
        """Say what kept some of an input's comparisons from being judged; None if nothing did.

        At the deadline calls are cut off, too; a budget only keeps calls from being made.
        """
        is_cut = tally.failures["not_asked"] or (self.stopped_by == "deadline" and tally.failed)
        return self.stopped_by if is_cut else None

    async def probe(self, run: Run) -> None:
        """Try a real judge, once, unless told not to, or not to make calls.

        Raises:
            JudgeError: it cannot be used.
        """
        async with self._probing:
            if self.remote is None or self.pool is None or self._probed:
                return
            if not run.settings.probe or not self.remote.may_ask():
                return
            timeout_s = min(run.settings.call_timeout, run.settings.deadline or run.settings.call_timeout)
            warning = await probe_judge(self.remote, self.pool.endpoints, timeout_s)
            self._probed = True
            run.on_event("probe", {"warning": warning})


@asynccontextmanager
async def open_judge(run: Run) -> AsyncIterator[JudgeDesk]:
    """Open the judge that the settings ask for; its deadline counts from when the run began.

    Raises:
        UsageError: the settings name none.
    """
    settings = run.settings
    check_judge(settings)
    if not settings.base_url or settings.model is None:
        yield JudgeDesk()
        return
    clients = [JudgeClient(_address(base_url, settings, run.api_key)) for base_url in settings.base_url]
    pool = EndpointPool(
        [Endpoint(client.base_url, client, _limit(settings)) for client in clients],
        settings.give_up_after,
        run.on_event,
    )
    remote = _remote_judge(settings, pool)
    if settings.deadline is not None:
        remote.set_deadline(settings.deadline - (time.monotonic() - run.started_s), GRACE_S)
    try:
        yield JudgeDesk(remote, pool)
    finally:
        for client in clients:
            await client.aclose()


def idle_judge(settings: Settings) -> RemoteJudge:
    """Return the judge that the settings ask for, with no endpoint: it makes questions but asks none."""
    return _remote_judge(settings, EndpointPool([], settings.give_up_after, lambda event, fields: None))


def _address(base_url: str, settings: Settings, api_key: str | None) -> JudgeAddress:
    return JudgeAddress(
        base_url=base_url,
        api_key=api_key,
        connect_timeout_s=settings.connect_timeout,
        max_connections=concurrency_of(settings) or AUTO_CEILING,
        ca_bundle=settings.ca_bundle,
    )


def _limit(settings: Settings) -> AdaptiveLimit | FixedLimit:
    concurrency = concurrency_of(settings)
    return AdaptiveLimit(AUTO_CEILING) if concurrency is None else FixedLimit(concurrency)


def _remote_judge(settings: Settings, pool: EndpointPool) -> RemoteJudge:
    given = {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "max_tokens": settings.max_reply_tokens,
    }
    sampling: Mapping[str, float] = {name: value for name, value in given.items() if value is not None}
    return RemoteJudge(
        pool,
        profile_of(settings),
        Patience(
            call_timeout_s=settings.call_timeout,
            comparison_timeout_s=settings.comparison_timeout,
            policy=RetryPolicy(settings.retries),
            reask=settings.reask,
            hedge=settings.hedge,
        ),
        Allowance(settings.max_calls, settings.max_tokens, settings.max_cost, settings.price_in, settings.price_out),
        model=settings.model or "",
        sampling=sampling,
        judge_id=settings.judge_id,
    )
