"""`genrm init`: write a settings file for a judge."""

import json
import os
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from genrm_cli.cli.console import print_text, say_warning
from genrm_cli.cli.options import Invocation, argument, run_to_end, with_settings
from genrm_cli.errors import JudgeError, UsageError, naming
from genrm_cli.settings import Settings
from genrm_cli.settings.judge_settings import JudgeSettings

_NAME = "genrm.toml"
_ROLES = ("prompt", "response", "reference", "ignore")
_TIMEOUT_S = 30.0
_TEMPLATE = files("genrm_cli.cli.setup") / "settings_template.txt"


@with_settings
def init(
    invocation: Invocation,
    sample: Annotated[
        str | None, argument("ROLLOUTS", "Find out how to read a file like this one.")
    ] = None,
) -> int:
    """Write a commented genrm.toml for a judge into this folder, and trust it.

    Asks the endpoint which model it serves. With a file of rollouts, it also writes the settings
    that read it: those that pass a trial on its first lines, or what you answer for each field.

    Example: genrm init rollouts.jsonl --base-url http://localhost:8000/v1
    """
    from genrm_cli.settings.sources.settings_file import find_settings_file, trust

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
    fields = {} if sample is None else _fields_of(sample, invocation.settings)
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
        text += "".join(f"{name} = {_quoted(value)}\n" for name, value in fields.items())
        path.write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be written: {error}.") from error
    # The user has just chosen its contents.
    trust(find_settings_file(path.parent), path.parent)
    print_text(f"{_NAME}: {model} at {judge.base_url[0]}")
    print_text("Next: genrm validate ROLLOUTS.jsonl, then genrm score ROLLOUTS.jsonl --limit 5")
    return 0


def _fields_of(sample: str, settings: Settings) -> dict[str, str]:
    """Return the settings that read a file of rollouts; empty if it needs none."""
    from genrm_cli.jobs.context import new_run
    from genrm_cli.jobs.due.propose_fields import (
        fields_as_told,
        find_open_fields,
        propose_fields,
        sample_of,
    )

    with new_run(settings).open_source(sample) as source:
        records = sample_of(source)
    found = find_open_fields(records, settings.input)
    if not found:
        return {}
    proposal = propose_fields(records)
    if proposal is not None:
        prompt = {} if proposal.prompt_field is None else {"prompt_field": proposal.prompt_field}
        return {**prompt, "response_field": proposal.response_field}
    roles = {}
    for path, text in found.items():
        role = _ask_role(path, text)
        if role is not None:
            roles[path] = role
    if len(roles) < len(found):
        say_warning(f"{sample} cannot be read yet; `genrm validate {sample}` says what to set.")
    return fields_as_told(records, roles, settings.input)


def _ask_role(path: str, text: str) -> str | None:
    """Ask what a field is; None without an answer."""
    from genrm_cli.rollouts.reading.account import shown_text

    print_text(f"{path}, such as {shown_text(text)}:")
    try:
        answer = input(f"  {', '.join(_ROLES[:-1])} or {_ROLES[-1]}? ").strip().lower()
    except EOFError:
        return None
    return next((role for role in _ROLES if answer and role.startswith(answer)), None)


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
