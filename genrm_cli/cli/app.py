"""The `genrm` command and its subcommands.

Commands import heavy modules only when they run: numpy, the HTTP library and boto3 would slow down
`--help`."""

import codecs
import contextlib
import os
import shutil
import signal
import sys
import traceback
from io import TextIOWrapper
from itertools import groupby
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from genrm_cli import __version__
from genrm_cli.cli.console import escaped, print_text, say, show, wrapped
from genrm_cli.commands import read_commands
from genrm_cli.errors import INTERRUPTED, GenrmError, UsageError
from genrm_cli.judging.pacing.descriptors import raise_descriptor_limit

_AS_JSON = "genrm-as-json"
_ERROR = "Error: "  # what Typer prints before the message of a usage error
_HELP_COLUMNS = 80


class _Commands(TyperGroup):
    """The commands, each imported when it is used: together they take longer than the help."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.commands: dict[str, Any] = dict.fromkeys(read_commands())

    def get_command(self, ctx: object, cmd_name: str) -> Any:
        """Return a command; None if there is none of this name."""
        del ctx
        entry = read_commands().get(cmd_name)
        if entry is not None and self.commands[cmd_name] is None:
            # Not before: it imports all settings.
            from genrm_cli.cli.options import build_command

            self.commands[cmd_name] = build_command(cmd_name, entry)
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: object, formatter: Any) -> None:
        """Write the names and lines of all commands, by section."""
        del ctx
        widest = max(map(len, read_commands()))
        for section, entries in groupby(read_commands().items(), lambda item: item[1].section):
            with formatter.section(section):
                formatter.write_dl([(name.ljust(widest), entry.line) for name, entry in entries])


app = typer.Typer(
    cls=_Commands,
    name="genrm",
    help="Turn stored RL rollouts into rewards: a generative reward model compares them in pairs.",
    epilog="Exit codes: 0 done; 1 a bug; 2 usage; 3 input unreadable; 4 judge unreachable; 5 "
    "storage; 6 done, but too many rollouts stayed unscored, or batches are in progress; 7 "
    "eval --since: the judge has changed; 130 interrupted.",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: Rich's table cuts names off at 80 columns
    # A traceback with local variables would show texts and keys.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print_text(f"genrm {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Define the options of `genrm` itself. Its help text is on the app."""


def _escape_unencodable(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    escapes = (f"\\u{high:02x}{low:02x}" for high, low in zip(units[::2], units[1::2], strict=True))
    return "".join(escapes), error.end


def _interrupt_again(ignored: "sys.UnraisableHookArgs") -> None:
    """Interrupt once more where Python drops the exception: in a callback of a weak reference, for
    instance, as each import has one.
    """

    def interrupt(*_: object) -> None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.raise_signal(signal.SIGINT)

    if not issubclass(ignored.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(ignored)
        return
    # A moment later: now, it would be raised in here, and dropped again.
    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.01)


def _handle(signals: list[signal.Signals], handler: "signal._HANDLER") -> None:
    for each in signals:
        signal.signal(each, handler)


def main() -> None:
    """Run the command line and end the process.

    Skips the shutdown of the interpreter: HTTP threads that still need it would abort the process,
    and calls in flight cannot be interrupted."""
    raise_descriptor_limit()
    # numpy's threads wait in a loop for matrices that are small: a fifth of the time of a large
    # group.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if sys.stderr is None:  # the parent process closed it
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123
    # What a terminal cannot show is written as JSON does, which leaves JSON whole.
    codecs.register_error(_AS_JSON, _escape_unencodable)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors=_AS_JSON)
    # SIGTERM (cron's timeout) and SIGHUP (a closed terminal) end a run like Ctrl-C: verdicts are
    # kept, partial outputs are not. Under nohup, the run ignores SIGHUP.
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    stopping = [each for each in signals if signal.getsignal(each) is not signal.SIG_IGN]
    sys.unraisablehook = _interrupt_again
    try:
        _handle(stopping, signal.default_int_handler)
        code = _run()
        # Nothing is left to keep, and the reader of the output may never come.
        _handle(stopping, signal.SIG_DFL)
    except KeyboardInterrupt:
        code = INTERRUPTED
        _handle(stopping, signal.SIG_DFL)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            if stream is not None:
                stream.flush()
    os._exit(code if isinstance(code, int) else 0)


def _run() -> object:
    """Run the command line; print the error that ends it, and return the exit code."""
    # On a terminal of less than 52 columns, Typer's help would be wider.
    columns = min(shutil.get_terminal_size().columns, _HELP_COLUMNS) - 2
    try:
        return app(prog_name="genrm", standalone_mode=False, terminal_width=max(columns, 20))
    except SystemExit as ending:
        # Rich and Click exit with 1 when the reader of the help closes the pipe (`| head`).
        return 0 if isinstance(ending.__context__, BrokenPipeError) else ending.code
    except Exception as error:  # noqa: BLE001  (any bug)
        # The classes of Typer's errors about the command line are private.
        message = getattr(error, "message", None)
        if not (hasattr(error, "show") and isinstance(message, str)):
            show(escaped(traceback.format_exc().rstrip()))
            say("genrm: failed: a bug ended the command; please report the lines above; exit 1")
            return GenrmError.exit_code
        message = wrapped(_ERROR + escaped(message)).removeprefix(_ERROR)
        error.message = message  # type: ignore[attr-defined]
        error.show()
        return getattr(error, "exit_code", UsageError.exit_code)
