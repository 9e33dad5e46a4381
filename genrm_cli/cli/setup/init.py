"""`genrm init`: write a settings file for a judge and the rollouts that it is to score."""

import json
import sys
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from genrm_cli.cli.console import print_text, say_warning
from genrm_cli.cli.options import Invocation, argument
from genrm_cli.cli.scoring.preview_text import preview_lines
from genrm_cli.cli.served_models import list_served_models
from genrm_cli.cli.tables import print_parts
from genrm_cli.errors import JudgeError, UsageError, naming
from genrm_cli.settings import Settings, changed
from genrm_cli.settings.judge_settings import JudgeSettings
from genrm_cli.settings.kinds import Value

_NAME = "genrm.toml"
# The roles of a field that decide what the judge sees; `ignore` is none of them.
_ROLES = ("prompt", "response", "reference", "ignore")
# A file, because the user reads and edits what it becomes.
_TEMPLATE = files("genrm_cli.cli.setup") / "settings_template.txt"
# Written where the template has them, or not at all.
_IN_TEMPLATE = ("base_url", "model", "api_key_env", "force")


def init(
    invocation: Invocation,
    sample: str | None = argument("ROLLOUTS", "Find out how to read a file like this one.", None),
) -> int:
    """Write a commented genrm.toml for a judge into this folder, and trust it.

    Lists the models that the endpoint serves. With a file of rollouts, finds out how to read it:
    by a trial on its first lines, or by asking what each open field is. Without a terminal, name
    the fields with flags. Then shows how the file is read, and the calls and cost of a run.

    Example: genrm init rollouts.jsonl --base-url http://localhost:8000/v1
    """
    from genrm_cli.settings.sources.settings_file import find_settings_file, trust

    settings = invocation.settings
    judge = settings.judge
    path = Path(_NAME)
    if path.exists() and not settings.output.force:
        raise UsageError(f"{_NAME} exists; edit it, or ", naming("use $force to overwrite it."))
    if not judge.base_url:
        raise UsageError(
            naming(
                "no endpoint given; pass $base_url, for example http://localhost:8000/v1, or set "
                "OPENAI_BASE_URL."
            )
        )
    model = _model_of(judge)
    chosen: dict[str, Value] = {
        origin.key: origin.value
        for origin in invocation.origins
        if origin.source == "flag" and origin.key not in _IN_TEMPLATE
    }
    if sample is not None:
        chosen |= _fields_of(sample, settings)
    _write(path, judge, model, chosen)
    # The user has just chosen its contents.
    trust(find_settings_file(path.parent), path.parent)
    print_text(f"{_NAME}: {model} at {judge.base_url[0]}")
    if sample is None:
        print_text("Next: genrm validate ROLLOUTS.jsonl, then genrm score ROLLOUTS.jsonl --limit 5")
        return 0
    return _preview(sample, changed(settings, model=model, **chosen))


def _write(path: Path, judge: JudgeSettings, model: str, chosen: Mapping[str, Value]) -> None:
    key = '# api_key_env = "MY_KEY"'
    if judge.api_key_env is not None:
        key = f"api_key_env = {_quoted(judge.api_key_env)}"
    text = _TEMPLATE.read_text(encoding="utf-8").format(
        base_url=_quoted(judge.base_url), model=_quoted(model), api_key_env=key
    )
    text += "".join(f"{name} = {_quoted(value)}\n" for name, value in chosen.items())
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error}.") from error


def _preview(sample: str, settings: Settings) -> int:
    """Print how a file is read, and the calls and cost of a run; return the exit code."""
    from genrm_cli.jobs.context import new_run
    from genrm_cli.jobs.previews.preview import Preview, iter_previews

    [found] = iter_previews([sample], new_run(settings))
    if not isinstance(found, Preview):
        raise found
    print_parts("", *preview_lines(found))
    if found.error is not None:
        say_warning(f"{sample} cannot be read yet; `genrm validate {sample}` says what to set.")
        return found.error.exit_code
    print_text(f"\nNext: genrm score {sample} --limit 5, and without --limit for the rest")
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

    given = settings.input
    with new_run(settings).open_source(sample) as source:
        records = sample_of(source)
    found = find_open_fields(records, given)
    if not found or given.response_field is not None:
        return {}
    proposal = propose_fields(records)
    if proposal is not None:
        prompt = {} if proposal.prompt_field is None else {"prompt_field": proposal.prompt_field}
        return {**prompt, "response_field": proposal.response_field}
    asked = {path: _ask_role(path, text) for path, text in found.items()}
    roles = {path: role for path, role in asked.items() if role is not None}
    return fields_as_told(records, roles, given)


def _ask_role(path: str, text: str) -> str | None:
    """Ask what a field is, again after a word that is no role; None without an answer."""
    from genrm_cli.rollouts.reading.account import shown_text

    print_text(f"{path}, such as {shown_text(text)}:")
    expected = f"{', '.join(_ROLES[:-1])} or {_ROLES[-1]}"
    while True:
        try:
            answer = input(f"  {expected}? ").strip().lower()
        except EOFError:
            return None
        if not answer:
            return None
        meant = [role for role in _ROLES if role.startswith(answer)]
        if len(meant) == 1:
            return meant[0]
        if not sys.stdin.isatty():
            raise UsageError(f"{path}: {answer!r} is not one of {expected}.")


def _model_of(judge: JudgeSettings) -> str:
    """Return the model that the user names, or the only one that the endpoint serves."""
    from genrm_cli.judging.client import CallError

    url = judge.base_url[0]
    try:
        served = list_served_models(judge)
    except CallError as error:
        detail = f"{url} does not list its models: {error.failure.detail.rstrip('.')}."
        if judge.model is None:
            remedy = naming(
                " Check $base_url (it usually ends in /v1) and $api_key_env, or name the model "
                "with $model."
            )
            raise JudgeError(detail, remedy) from error
        say_warning(detail)
        return judge.model
    names = ", ".join(served) or "none"
    print_text(f"models at {url}: {names}")
    if judge.model is None and len(served) != 1:
        raise UsageError(
            f"{url} serves {len(served)} models; ", naming("choose one with $model: "), f"{names}."
        )
    model = judge.model or served[0]
    if served and model not in served:
        say_warning(f"{url} does not list the model {model!r}; it lists {names}.")
    return model


def _quoted(value: Value) -> str:
    """Return a TOML value, which is also a JSON value."""
    return json.dumps(value, ensure_ascii=False)
