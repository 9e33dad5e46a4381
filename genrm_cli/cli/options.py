"""Command-line options, one for each setting, and their help: common ones with `--help`, all with
`--help-all`.
"""

import inspect
import os
import re
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand

from genrm_cli.cli.commands import read_commands
from genrm_cli.cli.console import (
    help_text,
    print_json,
    print_text,
    say_error,
    say_warning,
    text_of,
)
from genrm_cli.cli.served_models import with_served_models
from genrm_cli.errors import (
    INTERRUPTED,
    GenrmError,
    MissingModelError,
    SettingRef,
    StorageError,
    TooManyUnscoredError,
    WatchError,
)
from genrm_cli.settings import Settings
from genrm_cli.settings.declare import ENVIRONMENT_PREFIX, Setting, settings_of
from genrm_cli.settings.kinds import TEXT, Value
from genrm_cli.settings.resolve import Origin, resolve_settings, unknown_variables
from genrm_cli.settings.sources.keys import find_api_keys
from genrm_cli.settings.sources.settings_file import SettingsFile, read_settings_file
from genrm_cli.settings.table import all_settings

# Outputs appear whole or not at all, so the user has to know that nothing is lost.
INTERRUPTED_TEXT = (
    "interrupted; incomplete outputs were not written. Run the same command again to continue: "
    "answers in the journal are reused."
)
Result = TypeVar("Result")


def argument(metavar: str, text: str) -> Any:
    """Return an argument of a command. Its text says the default."""
    return typer.Argument(metavar=metavar, help=text, show_default=False)


Rollouts = Annotated[
    list[str],
    argument(
        "ROLLOUTS",
        "JSONL files (.gz, .zst too), folders, s3://bucket/key, s3://bucket/prefix/, patterns; - "
        "for stdin.",
    ),
]
# Typer shows it below the options of each command that reads a settings file.
EPILOG = (
    "Every option is also an environment variable (--call-timeout: GENRM_CALL_TIMEOUT) and a line "
    "of the settings file (call_timeout = 600). Flags override the environment, which overrides "
    "the file. `genrm guide` explains more."
)
_ALL = "genrm.help_all"  # key in the context, set by --help-all
# Their help names the flag that switches them off.
_ON = frozenset(setting.name for setting in all_settings() if setting.default is True)
# Typer appends the type of a value to the names of its option.
_TYPE = re.compile(r" <[^>]*>$")


class _Uncommon(str):
    """The panel of an option that only `--help-all` shows."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Invocation:
    """One invocation of a command: its settings, their origins, and the API keys by judge name."""

    settings: Settings
    origins: list[Origin]
    api_keys: Mapping[str, str] = field(repr=False)


def with_settings(command: Callable[..., int | None]) -> Callable[..., None]:
    """Make a command of a function, with options for the settings that `commands.toml` lists.

    The function takes its own parameters and, if it has settings, an `Invocation` as `invocation`,
    and may return an exit code. Its errors end the command with their code. A parameter whose type
    is a dataclass becomes one option for each of its fields, declared as settings.
    """
    entry = read_commands()[command.__name__.rstrip("_")]
    settings = [
        each
        for each in all_settings()
        if (each.panel in entry.panels or each.name in entry.names) and each.name not in entry.omit
    ]
    own = []
    groups: dict[str, Any] = {}
    parameters = inspect.signature(command).parameters
    for parameter in parameters.values():
        if parameter.name == "invocation":
            continue
        if is_dataclass(parameter.annotation):
            groups[parameter.name] = parameter.annotation
        else:
            own.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    def run(**given: Any) -> None:
        given.pop("help_all", None)
        if given.pop("offline", None):
            given["judge"] = given["judge"] or "lexical"
        flags = {each.name: given.pop(each.name) for each in settings}
        config = given.pop("config", None)
        with ending(as_json=bool(flags.get("json_output") or given.get("as_json"))):
            file = SettingsFile()
            if entry.reads_file:
                file = read_settings_file(config, Path.cwd())
            if "invocation" in parameters:
                given["invocation"] = _invoke(flags, file)
            for name, type_ in groups.items():
                given[name] = type_(**_values(settings_of(type_), given))
            code = _call(command, given)
        raise typer.Exit(code or 0)

    own += [_parameter(each) for type_ in groups.values() for each in settings_of(type_)]
    own += map(_parameter, settings)
    if entry.reads_file:
        own.append(_CONFIG)
    if any(each.name == "judge" for each in settings):
        own.append(_OFFLINE)
    if settings:
        own.append(_HELP_ALL)
    run.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in own}
    run.__doc__ = command.__doc__
    run.__name__ = command.__name__
    run.epilog = EPILOG if entry.reads_file else None  # type: ignore[attr-defined]
    return run


def _call(command: Callable[..., int | None], given: Mapping[str, Any]) -> int | None:
    """Call a command; an error about a missing model names those that the endpoint serves."""
    try:
        return command(**given)
    except MissingModelError as error:
        raise with_served_models(error, given["invocation"].settings.judge) from error


def _invoke(flags: Mapping[str, Any], file: SettingsFile) -> Invocation:
    """Resolve the settings of a command, and warn of variables that name no setting."""
    settings, origins = resolve_settings(flags, os.environ, file)
    if not settings.output.quiet:
        for variable in unknown_variables(os.environ):
            say_warning(
                f"{variable} is set, but is not a setting; `genrm config` lists all settings."
            )
    return Invocation(settings, origins, find_api_keys(settings))


def _values(declared: Sequence[Setting], given: dict[str, Any]) -> dict[str, Value]:
    """Take the options of a dataclass from those given, and convert them."""
    texts = {each: given.pop(each.name) for each in declared}
    return {
        each.name: each.convert(text, SettingRef(each.name))
        for each, text in texts.items()
        if text is not None
    }


@contextmanager
def ending(*, as_json: bool = False) -> Iterator[None]:
    """Print the error of a command and exit with its code, with `as_json` also as a JSON object."""
    try:
        yield
        if sys.stdout is not None:  # the parent process may have closed it
            sys.stdout.flush()
    except GenrmError as error:
        say_error(error)
        # The others end a run whose result has been printed.
        if as_json and not isinstance(error, TooManyUnscoredError | WatchError):
            print_json({"error": text_of(error), "exit_code": error.exit_code})
        code = error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        say_error(INTERRUPTED_TEXT)
        code = INTERRUPTED
    except BrokenPipeError:
        # The reader of stdout closed the pipe (`| head`). Python would report that again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:  # from stdout; all other I/O raises GenrmError
        say_error(f"cannot write to stdout: {error.strerror}.")
        code = StorageError.exit_code
    else:
        return
    raise typer.Exit(code)


def run_to_end(work: Coroutine[Any, Any, Result]) -> Result:
    """Run work in a new event loop. A cancellation, also by SIGTERM, raises KeyboardInterrupt."""
    import asyncio

    try:
        return asyncio.run(work)
    except asyncio.CancelledError as error:
        raise KeyboardInterrupt from error


def _parameter(setting: Setting) -> inspect.Parameter:
    """Return the option of a setting.

    All but booleans are text: `Setting.convert` handles flags, environment and file alike."""
    default = setting.default
    choices = setting.choices
    # The help names the flag that changes the default.
    text = help_text(setting.negative_help or setting.help)
    has_default = default not in (None, ()) and not isinstance(default, bool)
    if has_default and "Default" not in setting.help:
        text += f" Default: {default}."
    flags = [f"{setting.flag}/{setting.negative}" if setting.type is bool else setting.flag]
    if setting.short_flag is not None:
        flags.append(setting.short_flag)
    added = typer.Option(
        *flags,
        help=text,
        rich_help_panel=_panel(setting.panel, is_common=setting.is_common),
        metavar="NAME" if choices else (setting.kind or TEXT).metavar,
        show_default=False,
        autocompletion=lambda incomplete: [name for name in choices if name.startswith(incomplete)],
    )
    type_: Any = bool if setting.type is bool else str
    if setting.is_many:
        type_ = list[str]
    return _keyword(setting.name, type_ | None, added)


def _keyword(
    name: str, type_: Any, declaration: Any, *, default: bool | None = None
) -> inspect.Parameter:
    """Return the parameter of a command that becomes an option."""
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=Annotated[type_, declaration])


def option(
    metavar: str,
    text: str,
    *names: str,
    panel: str | None = None,
    is_common: bool = True,
    **bounds: Any,
) -> Any:
    """Return an option of a command, with `min` and `max` of a number. Its text may say the
    default.
    """
    return typer.Option(
        *names,
        metavar=metavar,
        help=text,
        rich_help_panel=_panel(panel, is_common=is_common),
        show_default="default" not in text.lower(),
        **bounds,
    )


def _panel(panel: str | None, *, is_common: bool) -> str | None:
    return panel if is_common else _Uncommon(panel or "Options")


def switch(name: str, text: str, *, panel: str | None = None) -> Any:
    """Return an option that takes no value."""
    return typer.Option(name, help=text, rich_help_panel=panel)


class Command(TyperCommand):
    """A command whose help fits 80 columns and hides uncommon settings."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        # `\b` begins a paragraph that is not wrapped: each example stays on one line.
        more["help"] = (more.get("help") or "").replace("\n\nExample", "\n\n\b\nExample")
        super().__init__(*arguments, **more)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line, the same in all versions of Typer: `[OPTIONS]
        ROLLOUTS...`.
        """
        pieces = ["[OPTIONS]"]
        for each in self.get_params(ctx):
            if each.param_type_name == "argument":
                name = f"{each.metavar}{'' if each.nargs == 1 else '...'}"
                pieces.append(name if each.required else f"[{name}]")
        return pieces

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options: the common ones, or all of them by subject."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        is_brief = _ALL not in ctx.meta and any(each.name == "help_all" for each in self.params)
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            panel = getattr(parameter, "rich_help_panel", None)
            if record is None or (is_brief and isinstance(panel, _Uncommon)):
                continue
            title = "Options" if is_brief or panel is None else str(panel)
            if parameter.param_type_name == "argument":
                title = "Arguments"
            # Of a switch, the flag that changes its default; without the type of a value.
            on, _, off = record[0].partition(" / ")
            flags = off if off and parameter.name in _ON else on
            sections.setdefault(title, []).append((_TYPE.sub("", flags), record[1]))
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def _show_all(ctx: typer.Context, wanted: bool) -> None:
    if wanted:
        ctx.meta[_ALL] = True
        print_text(ctx.get_help())
        raise typer.Exit


_CONFIG = _keyword(
    "config",
    str | None,
    typer.Option(
        envvar=ENVIRONMENT_PREFIX + "CONFIG",
        show_envvar=False,
        metavar="FILE",
        help="TOML file with settings. Default: genrm.toml in this folder.",
    ),
)
_OFFLINE = _keyword(
    "offline",
    bool,
    typer.Option(
        "--offline",
        help="Use the built-in lexical baseline instead of a judge: no model, no network.",
    ),
    default=False,
)
_HELP_ALL = _keyword(
    "help_all",
    bool,
    typer.Option(
        "--help-all", help="Show all options and exit.", callback=_show_all, is_eager=True
    ),
    default=False,
)
