"""`genrm init`: write a settings file for a judge and the rollouts that it is to score."""

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from genrm_cli.cli.console import say_warning
from genrm_cli.cli.options import Invocation, argument
from genrm_cli.cli.scoring.preview_text import preview_lines
from genrm_cli.cli.served_models import list_served_models
from genrm_cli.cli.tables import print_parts
from genrm_cli.errors import JudgeError, SettingRef, UsageError, counted, naming
from genrm_cli.settings import Settings, changed
from genrm_cli.settings.judge_settings import JudgeSettings
from genrm_cli.settings.kinds import Value
from genrm_cli.settings.table import setting_named, value_of

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
    by a trial on its first lines, or by asking what each open field is. On a terminal, asks for
    what is not given; elsewhere, name the model and the fields with flags. Then shows how the file
    is read, and the calls and cost of a run.

    Example: genrm init rollouts.jsonl --base-url http://localhost:8000/v1
    """
    from genrm_cli.settings.sources.settings_file import find_settings_file, trust

    settings = invocation.settings
    path = Path(_NAME)
    if path.exists() and not settings.output.force:
        raise UsageError(f"{_NAME} exists; edit it, or ", naming("use $force to overwrite it."))
    chosen: dict[str, Value] = {
        origin.key: origin.value
        for origin in invocation.origins
        if origin.source == "flag" and origin.key not in _IN_TEMPLATE
    }
    is_guided = sys.stdin.isatty() and sys.stdout.isatty()
    if is_guided and not settings.judge.base_url:
        url = _ask("endpoint of the judge, such as http://localhost:8000/v1: ")
        settings = changed(settings, base_url=(url,) if url else ())
    judge = settings.judge
    if not judge.base_url:
        raise UsageError(
            naming(
                "no endpoint given; pass $base_url, for example http://localhost:8000/v1, or set "
                "OPENAI_BASE_URL."
            )
        )
    model = _model_of(judge, is_guided=is_guided)
    if is_guided and sample is None:
        sample = _ask("a file of rollouts (Enter for none): ") or None
    if sample is not None:
        chosen |= _fields_of(sample, settings)
    if is_guided and sample is not None:
        chosen |= _prices_of(settings)
    _write(path, judge, model, chosen)
    # The user has just chosen its contents.
    trust(find_settings_file(path.parent), path.parent)
    print_parts(f"{_NAME}: {model} at {judge.base_url[0]}")
    if sample is None:
        print_parts("next: genrm validate ROLLOUTS.jsonl")
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
        raise UsageError(
            f"{path}: cannot be written: {error.strerror}; make the folder writable."
        ) from error


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
    print_parts(f"\nnext: {shlex.join(['genrm', 'score', sample, '--quick'])}")
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
    from genrm_cli.rollouts.reading.all_texts import shown_text

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
    roles = {}
    expected = f"{', '.join(_ROLES[:-1])} or {_ROLES[-1]}"
    for path, text in found.items():
        print_parts(f"{path}, such as {shown_text(text)}:")
        role = _choose(f"  {expected}? ", _ROLES, path)
        if role is not None:
            roles[path] = role
    return fields_as_told(records, roles, given)


def _prices_of(settings: Settings) -> dict[str, Value]:
    """Ask for the prices that are not given; without one, runs have no cost."""
    prices: dict[str, Value] = {}
    for name, of in (("price_in", "prompt"), ("price_out", "reply")):
        if value_of(settings, name):
            continue
        while answer := _ask(f"price per million {of} tokens (Enter for none): "):
            try:
                prices[name] = setting_named(name).convert(answer, SettingRef(name))
                break
            except UsageError:
                print_parts(f"  {answer!r} is not a price; write a number such as 0.5")
    return prices


def _model_of(judge: JudgeSettings, *, is_guided: bool) -> str:
    """Return the model that the user names, or the only one that the endpoint serves."""
    from genrm_cli.judging.client import CallError
    from genrm_cli.judging.pacing.remedies import LOADING

    url = judge.base_url[0]
    try:
        served = list_served_models(judge)
    except CallError as error:
        detail = f"{url} does not list its models: {error.failure.detail.rstrip('.')}."
        if judge.model is None:
            remedy = naming(
                "Check $base_url (it usually ends in /v1) and $api_key_env, or name the model "
                "with $model."
            )
            raise JudgeError(detail, " ", LOADING if error.overloaded else remedy) from error
        say_warning(detail)
        return judge.model
    names = ", ".join(served) or "none"
    model = judge.model
    if is_guided and model is None and len(served) > 1:
        print_parts(f"models at {url}:")
        for number, name in enumerate(served, 1):
            print_parts(f"  {number}  {name}")
        model = _choose(f"model (1 to {len(served)}, or its name)? ", served, "model")
    else:
        print_parts(f"models at {url}: {names}")
    if model is None and len(served) != 1:
        raise UsageError(
            f"{url} serves {counted(len(served), 'model')}; ",
            naming("choose one with $model: "),
            f"{names}.",
        )
    model = model or served[0]
    if served and model not in served:
        say_warning(f"{url} does not list the model {model!r}; it lists {names}.")
    return model


def _choose(question: str, choices: Sequence[str], where: str) -> str | None:
    """Ask for a choice, by its number or the beginning of its name; None without an answer.

    On a terminal, ask again after a wrong answer."""
    while answer := _ask(question).lower():
        meant = [name for name in choices if name.lower().startswith(answer)]
        exact = [name for name in choices if name.lower() == answer]
        if answer.isdecimal() and 0 < int(answer) <= len(choices):
            exact = [choices[int(answer) - 1]]
        if len(exact or meant) == 1:
            return (exact or meant)[0]
        if not sys.stdin.isatty():
            expected = f"{', '.join(choices[:-1])} or {choices[-1]}"
            raise UsageError(f"{where}: {answer!r} is not one of {expected}.")
    return None


def _ask(question: str) -> str:
    """Ask for a text; empty at the end of the input."""
    try:
        return input(question).strip()
    except EOFError:
        return ""


def _quoted(value: Value) -> str:
    """Return a TOML value, which is also a JSON value."""
    return json.dumps(value, ensure_ascii=False)
