"""Which judge the settings ask for, ready to be asked."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

from genrm_cli.errors import UsageError
from genrm_cli.judging.client import JudgeAddress, JudgeClient, chat_url
from genrm_cli.judging.engine import EmbeddedJudge, Judge
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.journaled import JournaledJudge
from genrm_cli.judging.latency import Latencies
from genrm_cli.judging.pacing.allowance import Allowance
from genrm_cli.judging.pacing.limit import AdaptiveLimit
from genrm_cli.judging.pacing.pool import Endpoint, EndpointPool, FixedLimit
from genrm_cli.judging.pacing.retry import RetryPolicy
from genrm_cli.judging.probe import probe_judge
from genrm_cli.judging.profiles import PROFILES, profile_for
from genrm_cli.judging.profiles.compat import parse_scores_json_as_reference
from genrm_cli.judging.profiles.own import parse_own_profile
from genrm_cli.judging.profiles.profile import AnyProfile, GradingProfile
from genrm_cli.judging.remote import Patience, RemoteJudge
from genrm_cli.scoring.context import Run
from genrm_cli.settings import Settings
from genrm_cli.settings.panel import Seat, seats_of
from genrm_cli.settings.resolve import concurrency_of, read_toml
from genrm_cli.summary import Tally

AUTO_CEILING = 4_096
_READ_BY_THE_REFERENCE = ("nemotron", "nemotron-plain", "nemotron-ultra", "json")
GRACE_S = 60.0

NO_JUDGE = (
    "no judge is given. Pass --base-url http://HOST:PORT/v1 and --model NAME for a real one, "
    "or --judge lexical to try the pipeline with the embedded stand-in."
)


def check_judges(settings: Settings) -> None:
    """Refuse settings that name no judge, or one that cannot be asked.

    Raises:
        UsageError: says what to pass.
    """
    for seat in seats_of(settings):
        try:
            _check_judge(seat.settings)
        except UsageError as error:
            raise UsageError(f"[[judge]] {seat.name}: {error}") if settings.panel else error from None


def _check_judge(settings: Settings) -> None:
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


def find_profile(name: str | None, model: str | None) -> AnyProfile:
    """Return a profile by its name, the user's own by its TOML file, or else by the model's name.

    Raises:
        UsageError: there is none, or the file holds none.
    """
    return _own_profile(name) if name is not None and name.endswith(".toml") else profile_for(name, model)


@cache
def _own_profile(path: str) -> AnyProfile:
    profile = parse_own_profile(read_toml(Path(path)), path)
    if profile.name in PROFILES:
        raise UsageError(f"{path}: {profile.name} is the name of a profile that there is; give yours another one.")
    return profile


def profile_of(settings: Settings) -> AnyProfile:
    """Return the profile that the settings ask for, with the reference's reading under `--compat`."""
    profile = find_profile(settings.profile, settings.model)
    if settings.compat is None:
        return profile
    if isinstance(profile, GradingProfile) or profile.name not in _READ_BY_THE_REFERENCE:
        raise UsageError(
            f"--compat {settings.compat} reads JSON scores, which the profile {profile.name} does not ask for."
        )
    read = partial(parse_scores_json_as_reference, default_score=settings.default_score)
    # Its own name, so that the journal does not take verdicts read one way, or filled with one default, for others.
    return replace(profile, name=f"{profile.name}+{settings.compat}-{settings.default_score:g}", parse_reply=read)


@dataclass(slots=True)
class OpenJudge:
    """A judge that is open.

    Attributes:
        seat: which of the run's judges it is.
        remote: what is asked over HTTP; None for the embedded judge.
        pool: its endpoints; None for the embedded judge.
    """

    seat: Seat
    remote: RemoteJudge | None = None
    pool: EndpointPool | None = None


@dataclass(slots=True)
class JudgeDesk:
    """The judges of a run, open; all its inputs share them, with their endpoints, limits and budget.

    Attributes:
        judges: in the order of the seats.
        latencies: of all their calls.
    """

    judges: list[OpenJudge]
    latencies: Latencies = field(default_factory=Latencies)
    _probed: bool = False
    _probing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def judges_with(self, journal: Journal | None, settings: Settings) -> list[Judge]:
        """Return the judges in the order of the seats, each with a journal in front of it, if there is one."""
        return [_with_journal(judge.remote, journal, settings) for judge in self.judges]

    @property
    def is_remote(self) -> bool:
        """Whether anybody has to be asked over HTTP."""
        return any(judge.remote is not None for judge in self.judges)

    @property
    def stopped_by(self) -> str | None:
        """Why no more questions are asked."""
        return next((stopped for judge in self.judges if judge.pool and (stopped := judge.pool.stopped_by)), None)

    @property
    def in_flight(self) -> int:
        """Calls in flight, of all judges."""
        return sum(judge.pool.in_flight for judge in self.judges if judge.pool is not None)

    @property
    def limit(self) -> int:
        """Calls that may be in flight, of all judges."""
        return sum(judge.pool.limit for judge in self.judges if judge.pool is not None)

    def show_in(self, tally: Tally) -> None:
        """Let a tally show how hard the judges are asked, and how long they take."""
        tally.pace = self
        tally.latencies = self.latencies

    def what_cut_short(self, tally: Tally) -> str | None:
        """Say what kept some of an input's comparisons from being judged; None if nothing did.

        At the deadline calls are cut off, too; a budget only keeps calls from being made.
        """
        is_cut = tally.failures["not_asked"] or (self.stopped_by == "deadline" and tally.failed)
        return self.stopped_by if is_cut else None

    async def probe(self, run: Run) -> None:
        """Try every real judge, once, unless told not to, or not to make calls.

        Raises:
            JudgeError: one cannot be used.
        """
        async with self._probing:
            if self._probed or not run.settings.probe:
                return
            warnings = [warning for judge in self.judges if (warning := await _probe(judge, run))]
            self._probed = True
            if self.is_remote:
                run.on_event("probe", {"warning": "; ".join(warnings) or None})


def _with_journal(remote: RemoteJudge | None, journal: Journal | None, settings: Settings) -> Judge:
    if remote is None:
        return EmbeddedJudge()
    return remote if journal is None else JournaledJudge(remote, journal, only_failed=settings.only_failed)


async def _probe(judge: OpenJudge, run: Run) -> str | None:
    if judge.remote is None or judge.pool is None or not judge.remote.may_ask():
        return None
    call_timeout_s = judge.seat.settings.call_timeout
    timeout_s = min(call_timeout_s, run.settings.deadline or call_timeout_s)
    return await probe_judge(judge.remote, judge.pool.endpoints, timeout_s)


@asynccontextmanager
async def open_judges(run: Run) -> AsyncIterator[JudgeDesk]:
    """Open the judges that the settings ask for; the deadline counts from when the run began.

    Raises:
        UsageError: the settings name none, or one that cannot be asked.
    """
    check_judges(run.settings)
    allowance, latencies = _allowance(run.settings), Latencies()
    async with AsyncExitStack() as clients:
        judges = [await _open_judge(seat, run, allowance, latencies, clients) for seat in seats_of(run.settings)]
        yield JudgeDesk(judges, latencies)


async def _open_judge(
    seat: Seat, run: Run, allowance: Allowance, latencies: Latencies, clients: AsyncExitStack
) -> OpenJudge:
    settings = seat.settings
    if settings.judge is not None:
        return OpenJudge(seat)
    endpoints = []
    for base_url in settings.base_url:
        client = JudgeClient(_address(base_url, settings, run.api_keys.get(seat.name)))
        await clients.enter_async_context(client)
        endpoints.append(Endpoint(base_url, client, _limit(settings)))
    pool = EndpointPool(endpoints, settings.give_up_after, run.on_event)
    remote = _remote_judge(seat, pool, allowance, latencies)
    if settings.deadline is not None:
        remote.set_deadline(settings.deadline - (time.monotonic() - run.started_s), GRACE_S)
    return OpenJudge(seat, remote, pool)


def idle_judges(settings: Settings) -> list[Judge]:
    """Return the judges that the settings ask for, with no endpoint: they make questions but ask none."""
    return [
        _remote_judge(
            seat, EndpointPool([], settings.give_up_after, lambda event, fields: None), _allowance(seat.settings)
        )
        for seat in seats_of(settings)
    ]


def _allowance(settings: Settings) -> Allowance:
    return Allowance(settings.max_calls, settings.max_tokens, settings.max_cost, settings.price_in, settings.price_out)


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


def _remote_judge(
    seat: Seat, pool: EndpointPool, allowance: Allowance, latencies: Latencies | None = None
) -> RemoteJudge:
    settings = seat.settings
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
        allowance,
        model=settings.model or "",
        sampling=sampling,
        judge_id=settings.judge_id,
        all_latencies=latencies,
    )
