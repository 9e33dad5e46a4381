"""`genrm init`: write a settings file for a judge."""

import json
import os
from importlib.resources import files
from pathlib import Path

from genrm_cli.cli.console import print_text, say_warning
from genrm_cli.cli.options import Invocation, run_to_end, with_settings
from genrm_cli.errors import JudgeError, UsageError, naming
from genrm_cli.settings.judge_settings import JudgeSettings

_NAME = "genrm.toml"
_TIMEOUT_S = 30.0
_TEMPLATE = files("genrm_cli.cli.setup") / "settings_template.txt"


@with_settings(names=("base_url", "model", "api_key_env", "force"), reads_file=False)
def init(invocation: Invocation) -> int:
    """Write a commented genrm.toml for a judge into this folder, and trust it.

    Asks the endpoint which model it serves.

    Example: genrm init --base-url http://localhost:8000/v1
    """
    from genrm_cli.settings.sources.settings_file import read_settings_file, trust

    path = Path(_NAME)
    judge = invocation.settings.judge
    if path.exists() and not invocation.settings.output.force:
        raise UsageError(f"{_NAME} exists; edit it, or ", naming("use $force to overwrite it."))
    if not judge.base_url:
        raise UsageError(
            naming(
                "no endpoint given; pass $base_url, for example http://localhost:8000/v1, or set "
                "OPENAI_BASE_URL."
            )
        )
    model = _model_of(judge)
    key = (
        '# api_key_env = "MY_KEY"'
        if judge.api_key_env is None
        else f"api_key_env = {_quoted(judge.api_key_env)}"
    )
    urls = ", ".join(map(_quoted, judge.base_url))
    try:
        text = _TEMPLATE.read_text(encoding="utf-8").format(
            base_url=f"[{urls}]", model=_quoted(model), api_key_env=key
        )
        path.write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be written: {error}.") from error
    trust(
        read_settings_file(None, path.parent), path.parent
    )  # the user has just chosen its contents
    print_text(f"{_NAME}: {model} at {judge.base_url[0]}")
    print_text("Next: genrm validate ROLLOUTS.jsonl, then genrm score ROLLOUTS.jsonl --limit 5")
    return 0


def _model_of(judge: JudgeSettings) -> str:
    """Return the model that the user names, or the only one that the endpoint serves."""
    from genrm_cli.judging.client import CallError, JudgeClient
    from genrm_cli.settings.sources.keys import find_api_key

    url = judge.base_url[0]
    key = find_api_key(judge, os.environ)

    async def list_models() -> list[str]:
        async with JudgeClient(
            url, key, _TIMEOUT_S, 1, judge.ca_bundle, judge.http_client
        ) as client:
            return list(await client.list_models(_TIMEOUT_S))

    try:
        served = run_to_end(list_models())
    except CallError as error:
        detail = f"{url} does not list its models: {error.failure.detail.rstrip('.')}. "
        if judge.model is None:
            remedy = naming(
                "Check $base_url (it usually ends in /v1) and $api_key_env, or name the model "
                "with $model."
            )
            raise JudgeError(detail, remedy) from error
        say_warning(detail.rstrip())
        return judge.model
    if judge.model is None and len(served) != 1:
        names = ", ".join(served) or "none"
        raise UsageError(
            f"{url} serves {len(served)} models; ", naming("choose one with $model: "), f"{names}."
        )
    model = judge.model or served[0]
    if served and model not in served:
        say_warning(f"{url} does not list the model {model!r}; it lists {', '.join(served)}.")
    return model


def _quoted(text: str) -> str:
    """Return a TOML string, which is also a JSON string."""
    return json.dumps(text, ensure_ascii=False)
