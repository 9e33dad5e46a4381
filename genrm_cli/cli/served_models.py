"""The models that an endpoint serves, for messages about a missing or unknown model."""

import os

from genrm_cli.errors import GenrmError, MissingModelError, UsageError
from genrm_cli.settings.judge_settings import JudgeSettings
from genrm_cli.settings.sources.keys import find_api_key

# A server that loads a model lists it late; a person waits for the answer.
_TIMEOUT_S = 30.0


def list_served_models(judge: JudgeSettings) -> list[str]:
    """Return the models that the first endpoint of a judge lists.

    Raises:
        CallError: it does not answer, or does not list its models.
    """
    import asyncio

    from genrm_cli.judging.client import JudgeClient

    key = find_api_key(judge, os.environ)

    async def ask() -> list[str]:
        async with JudgeClient(judge.base_url[0], key, _TIMEOUT_S, 1, judge.http_client) as client:
            return list(await client.list_models(_TIMEOUT_S))

    return asyncio.run(ask())


def with_served_models(error: GenrmError, judge: JudgeSettings) -> GenrmError:
    """Return an error about a missing model with the models that its endpoint serves; others as
    they are.
    """
    from genrm_cli.judging.client import CallError

    if not isinstance(error, MissingModelError):
        return error
    try:
        served = list_served_models(judge)
    except CallError:
        return error
    names = ", ".join(served) or "no model"
    return UsageError(error.message, f" {judge.base_url[0]} serves {names}.")
