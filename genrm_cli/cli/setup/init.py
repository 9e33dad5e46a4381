"""`genrm init`: write a settings file for a judge."""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from genrm_cli.cli.console import ask, is_interactive, print_text, say, say_warning
from genrm_cli.cli.options import Invocation, run_to_end, with_settings
from genrm_cli.errors import JudgeError, Message, UsageError, naming
from genrm_cli.settings.judge_settings import JudgeSettings
from genrm_cli.verdicts import FailureKind

_NAME = "genrm.toml"
_TIMEOUT_S = 30.0
_USUAL_URL = "http://localhost:8000/v1"
_TEMPLATE = """\
# Settings of genrm. `genrm guide settings` explains them all, and `genrm config` prints the effective values.
# Flags and environment variables (GENRM_MODEL=...) override this file.

# The judge: an OpenAI-compatible endpoint, and a model that it serves.
base_url = {base_url}
model = {model}

# Keep the API key out of this file: genrm reads it from GENRM_API_KEY or OPENAI_API_KEY, or from this variable.
{api_key_env}

# How the judge is prompted and its replies are parsed. By default genrm finds out; `genrm profiles` lists the names.
# profile = "nemotron-plain"

# Each rollout takes part in 2 x ring_k comparisons. More comparisons make rewards more reliable.
# ring_k = 2.0

# Limits of a run. Prices are per million tokens.
# max_calls = 10000
# price_in = 0.5
# price_out = 1.5
# max_cost = 20.0

# The field that identifies the group, if it is not the prompt or a common id.
# group_by = "metadata.task"

# Fields of the prompt and the response, for a format that genrm does not recognise.
# prompt_field = "question"
# response_field = "answer"
"""


@with_settings(names=("base_url", "model", "api_key_env", "force"), reads_file=False)
def init(invocation: Invocation) -> int:
    """Write a commented genrm.toml for a judge into this folder, and trust it.

    Asks the endpoint which models it serves. On a terminal, prompts for missing values.

    Example: genrm init --base-url http://localhost:8000/v1
    """
    path, judge = Path(_NAME), invocation.settings.judge
    if path.exists() and not invocation.settings.output.force:
        raise UsageError(f"{_NAME} exists; edit it, or ", naming("use $force to overwrite it."))
    if not judge.base_url:
        judge = replace(judge, base_url=(_ask_endpoint(),))
    served = _served_models(judge, needed=judge.model is None)
    model = judge.model or _choose(served, judge.base_url[0])
    if served and model not in served:
        say_warning(f"{judge.base_url[0]} does not list the model {model!r}; it lists {', '.join(served)}.")
    _write(path, _render(judge, model))
    print_text(f"{_NAME}: {model} at {judge.base_url[0]}")
    print_text("Next: genrm validate ROLLOUTS.jsonl, then genrm score ROLLOUTS.jsonl --limit 5")
    return 0


def _ask_endpoint() -> str:
    if not is_interactive():
        raise UsageError(
            naming("no endpoint given; pass $base_url, for example "), f"{_USUAL_URL}, or set OPENAI_BASE_URL."
        )
    return ask("Endpoint of the judge", _USUAL_URL)


def _served_models(judge: JudgeSettings, *, needed: bool) -> list[str]:
    """Ask the endpoint for its models.

    Raises:
        JudgeError: it returns no list and `needed` is set. Otherwise that is a warning.
    """
    from genrm_cli.judging.client import CallError, JudgeAddress, JudgeClient
    from genrm_cli.settings.sources.keys import find_api_key

    url = judge.base_url[0]
    address = JudgeAddress(url, find_api_key(judge, os.environ), _TIMEOUT_S, 1, judge.ca_bundle)

    async def list_models() -> list[str]:
        async with JudgeClient(address) as client:
            return await client.list_models(_TIMEOUT_S)

    try:
        return run_to_end(list_models())
    except CallError as error:
        detail = f"{url} does not list its models: {error.failure.detail.rstrip('.')}."
        if needed:
            raise JudgeError(f"{detail} ", _remedy(error.failure.kind)) from error
        say_warning(detail)
        return []


def _remedy(kind: FailureKind) -> Message:
    if kind is FailureKind.AUTH:
        return naming("Export its key as GENRM_API_KEY, or name another variable with $api_key_env.")
    start = "Is the judge running? " if kind is FailureKind.CONNECTION else ""
    return Message.of(start, naming("Check $base_url (it usually ends in /v1), or name the model with $model."))


def _choose(served: Sequence[str], url: str) -> str:
    """Return the only model, or the model that the user chooses by name or number."""
    if not served:
        raise JudgeError(f"{url} serves no model; ", naming("start one, or name it with $model."))
    if len(served) == 1:
        return served[0]
    if not is_interactive():
        raise UsageError(
            f"{url} serves {len(served)} models; ", naming("choose one with $model: "), f"{', '.join(served)}."
        )
    for number, name in enumerate(served, 1):
        say(f"{number:>4}  {name}")
    while True:
        answer = ask("Model (number or name)")
        if answer in served:
            return answer
        if answer.isdecimal() and 1 <= int(answer) <= len(served):
            return served[int(answer) - 1]
        say_warning(f"{answer!r} is neither a number nor a name from the list.")


def _render(judge: JudgeSettings, model: str) -> str:
    """Return the text of the settings file. A JSON string is also a TOML string."""
    named_key = (
        '# api_key_env = "MY_KEY"' if judge.api_key_env is None else f"api_key_env = {_quoted(judge.api_key_env)}"
    )
    urls = ", ".join(map(_quoted, judge.base_url))
    return _TEMPLATE.format(base_url=f"[{urls}]", model=_quoted(model), api_key_env=named_key)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _write(path: Path, text: str) -> None:
    """Write the settings file, and trust it: the user has just chosen its contents."""
    from genrm_cli.settings.sources.toml_file import read_settings_file
    from genrm_cli.settings.sources.trusted_files import trust

    try:
        path.write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be written: {error}.") from error
    trust(read_settings_file(None, path.parent), path.parent)
