"""The models that take part in episodes, from the flags that name them."""

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from genrm_cli.errors import UsageError
from genrm_cli.settings.judge_settings import JudgeSettings
from genrm_cli.settings.sources.keys import find_api_key

if TYPE_CHECKING:
    from genrm_cli.episodes.agents import AgentConfig


def agent_config(
    role: str, base_url: list[str], model: str | None, api_key_env: str | None, *, only_named: bool
) -> "AgentConfig":
    """Return a model that takes part, as the flags of its role name it.

    Raises:
        UsageError: a flag is missing or cannot be used.
    """
    from genrm_cli.episodes.agents import AgentConfig
    from genrm_cli.judging.client import chat_url

    if not model:
        raise UsageError(f"missing --{role}-model: the name of the model at --{role}-base-url.")
    try:
        for url in base_url:
            chat_url(url)
        key = find_api_key(JudgeSettings(api_key_env=api_key_env), os.environ, only_named=only_named)
    except UsageError as error:
        message = str(error).replace("--base-url", f"--{role}-base-url")
        raise UsageError(message.replace("--api-key-env", f"--{role}-api-key-env")) from error
    return AgentConfig(tuple(base_url), model, api_key=key)


def client_roles(client: "AgentConfig | None") -> "dict[str, AgentConfig]":
    """Return what a model plays for a simulated client, by role; nothing if the scripted client plays."""
    from genrm_cli.episodes.therapeutic.model_client import READER, READER_FIELDS, READER_TOKENS, SPEAKER

    if client is None:
        return {}
    reads = max(client.max_tokens, READER_TOKENS)
    return {
        READER: replace(client, temperature=0.0, max_tokens=reads, request_fields=READER_FIELDS),
        SPEAKER: client,
    }
