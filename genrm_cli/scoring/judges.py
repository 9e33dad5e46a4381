"""Which judge the settings ask for, ready to be asked."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

from genrm_cli.errors import UsageError
from genrm_cli.judging.client import Endpoint, JudgeClient, chat_url
from genrm_cli.judging.engine import EmbeddedJudge, Judge, RemoteJudge
from genrm_cli.judging.pacing import RetryPolicy
from genrm_cli.judging.probe import probe_judge
from genrm_cli.judging.profiles import profile_for
from genrm_cli.judging.profiles.compat import parse_scores_json_as_reference
from genrm_cli.judging.profiles.profile import Profile
from genrm_cli.settings import Settings

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
        if settings.base_url is not None:
            raise UsageError(f"--judge {settings.judge} and --base-url exclude each other; leave one of them out.")
        return
    if settings.base_url is None:
        raise UsageError(NO_JUDGE)
    if settings.model is None:
        raise UsageError("--base-url needs --model: the judge's name, as its server lists it under /v1/models.")
    chat_url(settings.base_url)
    profile_of(settings)


def profile_of(settings: Settings) -> Profile:
    """Return the profile that the settings ask for, with the reference's reading under `--compat`."""
    profile = profile_for(settings.profile, settings.model)
    if settings.compat is None:
        return profile
    read = partial(parse_scores_json_as_reference, default_score=settings.default_score)
    return replace(profile, parse_reply=read)


@asynccontextmanager
async def open_judge(settings: Settings, api_key: str | None, *, probe: bool) -> AsyncIterator[Judge]:
    """Open the judge that the settings ask for; a real one is tried first unless told not to.

    Raises:
        JudgeError: the probe found that it cannot be used.
        UsageError: the settings name none.
    """
    check_judge(settings)
    if settings.base_url is None or settings.model is None:
        yield EmbeddedJudge()
        return
    endpoint = Endpoint(
        base_url=settings.base_url,
        api_key=api_key,
        connect_timeout_s=settings.connect_timeout,
        call_timeout_s=settings.call_timeout,
        max_connections=settings.concurrency,
        ca_bundle=settings.ca_bundle,
    )
    async with JudgeClient(endpoint) as client:
        if probe:
            await probe_judge(client, settings.base_url, settings.model)
        yield RemoteJudge(
            client,
            profile_of(settings),
            model=settings.model,
            sampling=_given_sampling(settings),
            policy=RetryPolicy(settings.retries),
            reask=settings.reask,
        )


def _given_sampling(settings: Settings) -> Mapping[str, float]:
    given = {"temperature": settings.temperature, "top_p": settings.top_p, "max_tokens": settings.max_tokens}
    return {name: value for name, value in given.items() if value is not None}
