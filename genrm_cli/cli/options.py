"""One command-line option for each setting, made from the table of settings."""

import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from genrm_cli.cli.console import say_error, say_warning
from genrm_cli.errors import GenrmError, StorageError
from genrm_cli.settings import Settings
from genrm_cli.settings.declare import Panel, Setting
from genrm_cli.settings.keys import find_api_keys
from genrm_cli.settings.resolve import (
    ENVIRONMENT_PREFIX,
    Origin,
    read_settings_file,
    resolve_settings,
    unknown_variables,
)
from genrm_cli.settings.table import all_settings

ALL_PANELS: tuple[Panel, ...] = ("Input", "Pairs", "Judge", "Limits", "Journal", "Rewards", "Output", "Storage")
INTERRUPTED = 130

EPILOG = (
    "Every option is also an environment variable (--call-timeout: GENRM_CALL_TIMEOUT) and a line of the "
    "settings file (call_timeout = 600). A flag goes before the environment, that before the file. "
    "`genrm config` shows what is in force and where it came from."
)


@dataclass(frozen=True, slots=True)
class Invocation:
    """The settings of one call of a command, where each came from, and the judges' keys by their names."""

    settings: Settings
    origins: list[Origin]
    api_keys: Mapping[str, str]

    def __repr__(self) -> str:
        return f"Invocation({self.settings})"


def with_settings(*panels: Panel, leave_out: Iterable[str] = ()) -> Callable[[Callable[..., int]], Callable[..., None]]:
    """Give a command an option for each setting of these panels.

    The command takes its own parameters and an `Invocation` as `invocation`, and returns its exit code. Errors
    that a user can meet are said in one paragraph, with their exit codes.
    """
    settings = [s for s in all_settings() if s.declared.panel in panels and s.name not in leave_out]

    def decorate(command: Callable[..., int]) -> Callable[..., None]:
        def run(**given: Any) -> None:
            flags = {s.name: given.pop(s.name) for s in settings}
            config = given.pop("config")
            raise typer.Exit(run_command(lambda: command(**given, invocation=_invocation(flags, config))))

        own = [p for p in inspect.signature(command).parameters.values() if p.name != "invocation"]
        added = [_parameter(s) for s in settings] + [_config_parameter()]
        keyword = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*own, *added)]
        run.__signature__ = inspect.Signature(keyword)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in keyword}
        run.__doc__, run.__name__ = command.__doc__, command.__name__
        return run

    return decorate


def _invocation(flags: dict[str, Any], config: str | None) -> Invocation:
    file = read_settings_file(config, Path.cwd())
    settings, origins = resolve_settings(flags, os.environ, file)
    if not settings.output.quiet:
        for name in unknown_variables(os.environ):
            say_warning(f"{name} is set, but there is no such setting; `genrm config` lists all.")
    return Invocation(settings, origins, find_api_keys(settings))


def run_command(command: Callable[[], int]) -> int:
    """Run a command and return its exit code, saying what went wrong in a user's words."""
    try:
        code = command()
        if sys.stdout is not None:  # it may be closed
            sys.stdout.flush()
    except GenrmError as error:
        say_error(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        say_error(
            "interrupted; outputs that were not complete have not been written. Run the same command again: "
            "verdicts that a journal keeps are not asked again."
        )
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our stdout has gone (`| head`). Python would complain once more on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # of stdout; everything else has an error of its own by now
        say_error(f"stdout cannot be written: {error.strerror}.")
        return StorageError.exit_code
    return code


def _parameter(setting: Setting) -> inspect.Parameter:
    kind = setting.type
    flag = setting.flag
    names = [f"{flag}/{setting.negative}" if kind is bool else flag]
    if setting.declared.flag:
        names.append(setting.declared.flag)
    option = typer.Option(
        *names,
        help=_help_of(setting),
        rich_help_panel=setting.declared.panel,
        metavar=_metavar_of(setting),
        show_default=False,
    )
    # Text, whatever the type: one place converts and checks flags, environment and file alike.
    shown: Any = list[str] if setting.is_many else bool if kind is bool else str
    return inspect.Parameter(
        setting.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[shown | None, option],
    )


def _metavar_of(setting: Setting) -> str | None:
    if setting.declared.choices:
        return "NAME"
    return "DURATION" if setting.declared.duration else _METAVARS[setting.type]


_METAVARS = {str: "TEXT", int: "N", float: "NUMBER", bool: None}


def _help_of(setting: Setting) -> str:
    default = setting.default
    if default in (None, ()) or isinstance(default, bool) or "Default" in setting.declared.meaning:
        return setting.declared.meaning
    return f"{setting.declared.meaning} Default: {default}."


def _config_parameter() -> inspect.Parameter:
    option = typer.Option(
        "--config",
        envvar=ENVIRONMENT_PREFIX + "CONFIG",
        show_envvar=False,
        show_default=False,
        metavar="FILE",
        help="TOML file with settings. Default: genrm.toml or \\[tool.genrm] of pyproject.toml in this folder.",
    )
    return inspect.Parameter(
        "config",
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[str | None, option],
    )
