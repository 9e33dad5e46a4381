"""The API keys of the judges of a run."""

import os
from collections.abc import Mapping

from genrm_cli.errors import UsageError
from genrm_cli.settings.panel import JudgeConfig, find_api_key, graders_of, judges_of
from genrm_cli.settings.table import Settings


def find_api_keys(settings: Settings, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the key of each judge and grader that has one, by name.

    Raises:
        UsageError: a key that the settings name is missing, or cannot be sent.
    """
    keys = {config.name: _key_of(config, environ) for config in (*judges_of(settings), *graders_of(settings))}
    return {name: key for name, key in keys.items() if key is not None}


def _key_of(config: JudgeConfig, environ: Mapping[str, str]) -> str | None:
    try:
        return find_api_key(config.judge, environ, only_named=config.is_elsewhere)
    except UsageError as error:
        raise UsageError(f"{config.name}: {error}") if config.is_elsewhere else error from None
