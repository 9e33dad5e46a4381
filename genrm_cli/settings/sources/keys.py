"""The API keys of judges and the token of a server, from the environment; never settings, never
shown.
"""

import os
import re
from collections.abc import Mapping

from genrm_cli.errors import SettingRef, UsageError
from genrm_cli.settings.judge_settings import JudgeSettings
from genrm_cli.settings.panel import graders_of, judges_of
from genrm_cli.settings.table import Settings

# Ours first: a user may keep OpenAI's key for other programs.
API_KEY_VARIABLES = ("GENRM_API_KEY", "OPENAI_API_KEY")
TOKEN_VARIABLE = "GENRM_SERVE_TOKEN"  # noqa: S105  (where it is, not what)


def find_api_keys(settings: Settings, *, api_key: str | None = None) -> dict[str, str]:
    """Return the key of each judge and grader that has one, by name.

    Args:
        settings: settings that name the judges.
        api_key: replaces the variable `GENRM_API_KEY`.
    """
    environ = os.environ if api_key is None else {**os.environ, API_KEY_VARIABLES[0]: api_key}
    keys = {}
    for config in (*judges_of(settings), *graders_of(settings)):
        try:
            key = find_api_key(config.judge, environ, only_named=config.is_elsewhere)
        except UsageError as error:
            if config.is_elsewhere:
                raise UsageError(f"{config.name}: ", error.message) from None
            raise
        if key is not None:
            keys[config.name] = key
    return keys


def find_token() -> str | None:
    """Return the bearer token of a server from `GENRM_SERVE_TOKEN`; None if it has none."""
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    return _checked_key(token, TOKEN_VARIABLE) if token else None


def find_api_key(
    judge: JudgeSettings, environ: Mapping[str, str], *, only_named: bool = False
) -> str | None:
    """Find a judge's API key; None if it has none.

    With `only_named`, ignore the default variables; use only the variable that the settings name.
    """
    named = judge.api_key_env
    if named is None:
        name = next((name for name in API_KEY_VARIABLES if environ.get(name, "").strip()), None)
        return None if name is None or only_named else _checked_key(environ[name], name)
    if environ.get(named, "").strip():
        return _checked_key(environ[named], named)
    # A name not in capitals may be the key itself, given by mistake: it must not be shown.
    shown = named if re.fullmatch(r"[A-Z0-9_]+", named) else "a variable"
    raise UsageError(
        SettingRef("api_key_env"),
        f" names {shown}, which is not set. Give the name of the variable, never the key itself. "
        "Export the variable, or omit the setting if no key is needed.",
    )


def _checked_key(text: str, where: str) -> str:
    key = text.strip()
    if not key or not (key.isascii() and key.isprintable()):
        # The HTTP library would also refuse it, but with the key in its message.
        raise UsageError(
            f"the key in {where} is empty, or contains characters that are invalid in a key (a "
            "line break, a quotation mark); set it again."
        )
    return key
