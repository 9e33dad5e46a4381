"""The API keys of the judges of a run."""

import os
from collections.abc import Mapping

from genrm_cli.errors import UsageError
from genrm_cli.settings.panel import API_KEY_VARIABLES, JudgeConfig, find_api_key, graders_of, judges_of
from genrm_cli.settings.table import Settings


def find_api_keys(
    settings: Settings, environ: Mapping[str, str] = os.environ, *, api_key: str | None = None
) -> dict[str, str]:
    """Return the key of each judge and grader that has one, by name.

    Args:
        settings: name the judges.
        environ: the process environment.
        api_key: used instead of the variable `GENRM_API_KEY`.

    Raises:
        UsageError: a key that the settings name is missing, or cannot be sent.
    """
    if api_key is not None:
        environ = {**environ, API_KEY_VARIABLES[0]: api_key}
    keys = {config.name: _key_of(config, environ) for config in (*judges_of(settings), *graders_of(settings))}
    return {name: key for name, key in keys.items() if key is not None}


def _key_of(config: JudgeConfig, environ: Mapping[str, str]) -> str | None:
    try:
        return find_api_key(config.judge, environ, only_named=config.is_elsewhere)
    except UsageError as error:
        raise UsageError(f"{config.name}: {error}") if config.is_elsewhere else error from None
