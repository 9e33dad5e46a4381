"""Commands with their options, one for each setting, and their help: common options with `--help`,
all with `--help-all`.

A command is a function. Its parameters are arguments, options declared as settings, dataclasses of
such options and, for a command with settings of a run, an `Invocation`:

    def journal(path: str = argument("JOURNAL", "A *.journal.sqlite file.")) -> None: ...
"""

import inspect
import os
import re
import sys
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import Field, dataclass, field, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from msgspec.structs import replace
from typer.core import TyperCommand
from typer.main import get_command

from genrm_cli.cli.console import (
    help_text,
    print_json,
    print_text,
    say_error,
    say_warning,
    stderr_console,
    text_of,
)
from genrm_cli.cli.served_models import with_served_models
from genrm_cli.commands import CommandEntry
from genrm_cli.errors import (
    INTERRUPTED,
    ChangedJudgeError,
    GenrmError,
    MissingModelError,
    SettingRef,
    StorageError,
    TooManyUnscoredError,
    UsageError,
)
from genrm_cli.settings import Settings
from genrm_cli.settings.conditions import unmet, why_unmet
from genrm_cli.settings.declare import ENVIRONMENT_PREFIX, Setting, setting_of, settings_of
from genrm_cli.settings.kinds import TEXT, Value
from genrm_cli.settings.resolve import Origin, resolve_settings, unknown_variables
from genrm_cli.settings.sources.keys import find_api_keys
from genrm_cli.settings.sources.settings_file import SettingsFile, read_settings_file
from genrm_cli.settings.table import all_settings, settings_of_entry, value_of

# Outputs appear whole or not at all, so the user has to know that nothing is lost.
INTERRUPTED_TEXT = (
    "interrupted; incomplete outputs were not written. Run the same command again to continue: "
    "answers in the journal are reused."
)
Result = TypeVar("Result")


def argument(metavar: str, text: str, default: Any = ...) -> Any:
    """Declare an argument of a command, required without a default. Its text says the default."""
    return typer.Argument(default, metavar=metavar, help=text, show_default=False)


ROLLOUTS = argument(
    "ROLLOUTS",
    "JSONL files (.gz, .zst too), folders, s3://bucket/key, s3://bucket/prefix/, patterns; - for "
    "stdin.",
)
# Typer shows it below the options of each command that reads a settings file.
EPILOG = (
    "`--help-all` shows all options in full. Each is also a variable (GENRM_CALL_TIMEOUT) and a "
    "line of the settings file (call_timeout = 600). Flags override variables, which override the "
    "file."
)
_ALL = "genrm.help_all"  # key in the context, set by --help-all
# Their help names the flag that switches them off.
_ON = frozenset(setting.name for setting in all_settings() if setting.default is True)
# Typer appends the type of a value to the names of its option.
_TYPE = re.compile(r" <[^>]*>$")
# In `--help`, the heading of the common options of a section.
_TASKS = {
    "Input": "What to read",
    **dict.fromkeys(("Pairs", "Judge", "Limits"), "What to ask"),
    **dict.fromkeys(
        ("Rewards", "Journal", "Output", "Storage", "Tracking", "Request files"), "What to write"
    ),
}
_LONGEST_FLAG = 30  # characters of a flag beside which its text stands
_NARROW = 50  # columns in which a text beside a flag has too few
_MOST_IN_ONE = 12  # options of a section without tasks
_SENTENCE = re.compile(r"(?<=[\w`)\]>][.!])\s+")
_LONGEST_CHOICE = 16  # characters that choices may take in place of their name
# What other programs call it. Each is a hint in place of names that merely look alike.
_ELSEWHERE = {
    **dict.fromkeys(("--port", "--host", "--bind"), "use --listen HOST:PORT"),
    **dict.fromkeys(
        ("--workers", "--num-workers", "--threads", "--jobs", "--batch-size", "--max-concurrency"),
        "use --concurrency, the number of calls in flight; by default genrm finds it",
    ),
    **dict.fromkeys(("--url", "--endpoint", "--api-base", "--server"), "use --base-url"),
    **dict.fromkeys(("--api-key", "--key"), "set GENRM_API_KEY, or name a variable: --api-key-env"),
    **dict.fromkeys(("--input", "--in", "--data", "--file"), "name files without an option"),
    **dict.fromkeys(("--out", "--output-file", "--output-path"), "use --output"),
    **dict.fromkeys(("--judge-model", "--reward-model"), "use --model"),
    **dict.fromkeys(("--samples", "--num-comparisons", "--budget"), "use --ring-k"),
    **dict.fromkeys(("--max-tokens", "--max-new-tokens"), "use --max-reply-tokens"),
    **dict.fromkeys(("--timeout", "--request-timeout"), "use --call-timeout"),
    **dict.fromkeys(("--verbose", "-v", "--debug"), "use --log-json FILE for all events"),
    **dict.fromkeys(("--resume", "--continue"), "run the same command again: it continues"),
    "--overwrite": "use --force",
    "--s3-endpoint": "set AWS_ENDPOINT_URL",
    "--system-prompt": "use --principle, or a profile of your own: --profile FILE",
    "--prompt-template": "use a profile of your own: --profile FILE",
}
_CONFIG = Setting(
    name="config",
    key="config",
    help="TOML file with settings. Default: genrm.toml in this folder.",
    metavar="FILE",
    is_common=True,
)
_OFFLINE = Setting(
    name="offline",
    key="offline",
    help="Use the built-in lexical baseline instead of a judge: no model, no network.",
    type=bool,
    is_common=True,
)


class _Uncommon(str):
    """The panel of an option that only `--help-all` shows."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Invocation:
    """One invocation of a command.

    Attributes:
        origins: where each of its settings comes from.
        api_keys: by the name of the judge.
        config: the settings file that a flag named.
    """

    settings: Settings
    origins: list[Origin]
    api_keys: Mapping[str, str] = field(repr=False)
    config: str | None = None

    @property
    def given(self) -> list[Origin]:
        """What the flags of the command line said, the file of settings among it."""
        flags = [each for each in self.origins if each.source == "flag"]
        return flags if self.config is None else [Origin("config", self.config, "flag"), *flags]


def build_command(name: str, entry: CommandEntry) -> Any:
    """Return a command of `commands.toml`; its errors end it with their exit code."""
    module, _, function_name = entry.function.partition(":")
    function = getattr(import_module(f"genrm_cli.cli.{module}"), function_name)
    shared = settings_of_entry(entry)
    parameters = []
    own = []
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        type_ = parameter.annotation
        if isinstance(parameter.default, Field):
            own.append(
                replace(setting_of(parameter.name, type_, parameter.default), is_common=True)
            )
        elif not is_dataclass(type_):
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
        elif type_ is not Invocation:
            groups[parameter.name] = type_
    names_of = {
        group: [each.name for each in settings_of(type_)] for group, type_ in groups.items()
    }
    of_groups = [each for type_ in groups.values() for each in settings_of(type_)]
    parameters += map(_parameter, [*own, *of_groups, *shared])
    if entry.reads_file:
        parameters.append(_parameter(_CONFIG))
    if any(each.name == "judge" for each in shared):
        parameters.append(_parameter(_OFFLINE))
    if shared:
        parameters.append(_HELP_ALL)

    def run(**given: Any) -> None:
        given.pop("help_all", None)
        if given.pop("offline", None):
            given["judge"] = given["judge"] or "lexical"
        flags = {each.name: given.pop(each.name) for each in shared}
        named = given.pop("config", None)
        config = named or os.environ.get(f"{ENVIRONMENT_PREFIX}CONFIG")
        with ending(as_json=bool(flags.get("json_output") or given.get("as_json"))):
            if shared:
                file = SettingsFile()
                if entry.reads_file:
                    file = read_settings_file(config or None, Path.cwd())
                given["invocation"] = _invoke(flags, file, named)
            values = _take([*own, *of_groups], given)
            settings = given["invocation"].settings if shared else Settings()
            _refuse_unmet([*own, *of_groups], values, settings)
            given |= {each.name: values.pop(each.name) for each in own}
            for group, type_ in groups.items():
                given[group] = type_(**{name: values[name] for name in names_of[group]})
            try:
                code = function(**given)
            except MissingModelError as error:
                raise with_served_models(error, given["invocation"].settings.judge) from error
        raise typer.Exit(code or 0)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__doc__ = function.__doc__
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    epilog = EPILOG if entry.reads_file else None
    alone.command(name, cls=_Command, short_help=entry.line, epilog=epilog)(run)
    return get_command(alone)


def _invoke(flags: Mapping[str, Any], file: SettingsFile, config: str | None) -> Invocation:
    """Resolve the settings of a command, and warn of variables that name no setting."""
    settings, origins = resolve_settings(flags, os.environ, file, flags.keys())
    stderr_console.is_quiet = settings.output.quiet
    for variable in unknown_variables(os.environ):
        say_warning(f"{variable} is set, but is not a setting; `genrm config` lists all settings.")
    return Invocation(settings, origins, find_api_keys(settings), config)


def _take(declared: list[Setting], given: dict[str, Any]) -> dict[str, Value]:
    """Take the values of options from those given, converted; their defaults, if not given."""
    values = {}
    for each in declared:
        text = given.pop(each.name)
        ref = SettingRef(each.name)
        values[each.name] = each.default if text is None else each.convert(text, ref)
    return values


def _refuse_unmet(declared: list[Setting], values: Mapping[str, Value], settings: Settings) -> None:
    """Refuse a command's own options that have no effect beside the others, or its settings."""

    def value(name: str) -> object:
        return values[name] if name in values else value_of(settings, name)

    for each in declared:
        missing = unmet(each.only_with, value)
        if missing is not None and values[each.name] != each.default:
            why = why_unmet(missing, value)
            raise UsageError(SettingRef(each.name), " has no effect", *why, "; omit it.")


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
        if as_json and not isinstance(error, (TooManyUnscoredError, ChangedJudgeError)):
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
    finally:
        stderr_console.is_quiet = False
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
    panel = setting.panel
    # The help names the flag that changes the default.
    text = help_text(setting.negative_help or setting.described)
    has_default = default not in (None, (), "") and not isinstance(default, bool)
    if has_default and "Default" not in setting.help:
        text += f" Default: {default}."
    flags = [f"{setting.flag}/{setting.negative}" if setting.type is bool else setting.flag]
    if setting.short_flag is not None:
        flags.append(setting.short_flag)
    declaration = typer.Option(
        *flags,
        help=text,
        rich_help_panel=panel if setting.is_common else _Uncommon(panel or "Options"),
        metavar=_metavar_of(setting),
        show_default=False,
        autocompletion=lambda incomplete: [name for name in choices if name.startswith(incomplete)],
    )
    type_: Any = bool if setting.type is bool else str
    if setting.is_many:
        type_ = list[str]
    return inspect.Parameter(
        setting.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if setting.is_required else None,
        annotation=Annotated[type_ if setting.is_required else type_ | None, declaration],
    )


def _metavar_of(setting: Setting) -> str | None:
    choices = "|".join(setting.choices)
    if choices:
        return choices if len(choices) <= _LONGEST_CHOICE else "NAME"
    return setting.metavar or (setting.kind or TEXT).metavar


class _Command(TyperCommand):
    """A command whose help fits 80 columns and hides uncommon settings."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        # `\b` begins a paragraph that is not wrapped: each example stays on its lines.
        more["help"] = (more.get("help") or "").replace("\n\nExample", "\n\n\b\nExample")
        super().__init__(*arguments, **more)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options; a hint says what replaces those of other programs and commands."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:  # Typer's classes of usage errors are private
            name = getattr(error, "option_name", "")
            hint = _ELSEWHERE.get(name)
            own = {flag for each in self.params for flag in each.opts}
            is_known = any(name in (each.flag, each.negative) for each in all_settings())
            if is_known or not own.issuperset(re.findall(r"--[a-z-]+", hint or "")):
                hint = f"genrm {self.name} does not use it"
            if hint is not None and hasattr(error, "possibilities"):
                error.message = f"No such option: {name}; {hint}."  # type: ignore[attr-defined]
                error.possibilities = None
            raise

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
        """Write the options: the common ones by task and in one sentence, or all by subject."""
        titles = ("Arguments", *_TASKS.values(), "Options")
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in titles}
        is_brief = _ALL not in ctx.meta and any(each.name == "help_all" for each in self.params)
        shown = [
            each
            for each in self.get_params(ctx)
            if not (is_brief and isinstance(getattr(each, "rich_help_panel", None), _Uncommon))
        ]
        has_tasks = is_brief and len(shown) > _MOST_IN_ONE
        for parameter in shown:
            record = parameter.get_help_record(ctx)
            panel = getattr(parameter, "rich_help_panel", None)
            if record is None:
                continue
            title = str(panel or "Options")
            if is_brief:
                title = _TASKS.get(title, "Options") if has_tasks else "Options"
            if parameter.param_type_name == "argument":
                title = "Arguments"
            # Of a switch, the flag that changes its default; without the type of a value.
            on, _, off = record[0].partition(" / ")
            flags = off if off and parameter.name in _ON else on
            text = _first_sentence(record[1]) if is_brief and title != "Arguments" else record[1]
            sections.setdefault(title, []).append((_TYPE.sub("", flags), text))
        longest = _LONGEST_FLAG if formatter.width >= _NARROW else 0
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records, col_max=longest)


def _first_sentence(text: str) -> str:
    """Return the first sentence of a help; all of it where the option is required."""
    return text if text.endswith("[required]") else _SENTENCE.split(text, maxsplit=1)[0]


def _show_all(ctx: typer.Context, wanted: bool) -> None:
    if wanted:
        ctx.meta[_ALL] = True
        print_text(ctx.get_help())
        raise typer.Exit


_HELP_ALL = inspect.Parameter(
    "help_all",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool,
        typer.Option(
            "--help-all", help="Show all options and exit.", callback=_show_all, is_eager=True
        ),
    ],
)
