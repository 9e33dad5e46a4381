"""The `genrm` command and its subcommands.

Commands import heavy modules only when they run: numpy, the HTTP library and boto3 would slow down `--help`.
"""

import contextlib
import os
import signal
import sys
from typing import Annotated

import typer

from genrm_cli import __version__
from genrm_cli.cli.console import print_text, say, say_traceback
from genrm_cli.cli.judges.eval import eval_
from genrm_cli.cli.judges.journal import journal
from genrm_cli.cli.judges.profiles import profiles
from genrm_cli.cli.judges.simulate import SIMULATION_EPILOG, simulate
from genrm_cli.cli.options import EPILOG, Command
from genrm_cli.cli.scoring.compare import compare
from genrm_cli.cli.scoring.formats import formats
from genrm_cli.cli.scoring.score import score
from genrm_cli.cli.scoring.show import show
from genrm_cli.cli.scoring.validate import validate
from genrm_cli.cli.serve import serve
from genrm_cli.cli.sessions.collect import collect
from genrm_cli.cli.sessions.review import review
from genrm_cli.cli.setup.guide import guide
from genrm_cli.cli.setup.init import init
from genrm_cli.cli.setup.settings_files import config, trust
from genrm_cli.cli.training.export import export
from genrm_cli.cli.training.report import report
from genrm_cli.errors import INTERRUPTED, GenrmError, UsageError
from genrm_cli.judging.pacing.descriptors import raise_descriptor_limit
from genrm_cli.storage.printable import escaped

app = typer.Typer(
    name="genrm",
    help="Turn stored RL rollouts into rewards: a generative reward model compares them in pairs.",
    epilog="Exit codes: 0 done; 1 a bug; 2 usage; 3 input unreadable; 4 judge unreachable; 5 storage; "
    "6 done, but too many rollouts stayed unscored; 130 interrupted.",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: Rich's table cuts names off at 80 columns
    # A traceback with local variables would show texts and keys.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(cls=Command, short_help="Turn rollouts into rewards.", epilog=EPILOG)(score)
app.command(cls=Command, short_help="Compare a few responses to one prompt.", epilog=EPILOG)(compare)
app.command(cls=Command, short_help="Serve rewards to running trainers.", epilog=EPILOG)(serve)
app.command(cls=Command, short_help="Check an input without calling a judge.", epilog=EPILOG)(validate)
app.command(cls=Command, short_help="Show groups as rollouts, or as the judge sees them.", epilog=EPILOG)(show)
app.command(cls=Command, short_help="List the input formats, with examples.")(formats)
app.command(name="eval", cls=Command, short_help="Measure a judge on labelled pairs.", epilog=EPILOG)(eval_)
app.command(cls=Command, short_help="Estimate reward accuracy for a call budget.", epilog=SIMULATION_EPILOG)(simulate)
app.command(cls=Command, short_help="Turn scored rollouts into a data set for a trainer.", epilog=EPILOG)(export)
app.command(cls=Command, short_help="Write an HTML report about scored rollouts.", epilog=EPILOG)(report)
app.command(cls=Command, short_help="Play simulated sessions and write them as rollouts.", epilog=EPILOG)(collect)
app.command(cls=Command, short_help="List what experts should review, and record decisions.", epilog=EPILOG)(review)
app.command(cls=Command, short_help="Show the effective settings and their sources.", epilog=EPILOG)(config)
app.command(cls=Command, short_help="Write a settings file for a judge.")(init)
app.command(cls=Command, short_help="Print a page of the user's guide.")(guide)
app.command(cls=Command, short_help="Trust the settings file of a folder.")(trust)
app.command(cls=Command, short_help="Print the answers in a journal.")(journal)
app.add_typer(profiles, name="profiles")


def _print_version(wanted: bool) -> None:
    if wanted:
        print_text(f"genrm {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Define the options of `genrm` itself. Its help text is on the app."""


def _say_usage_error(error: Exception) -> int | None:
    """Print an error about the command line and return its exit code; None for any other exception.

    It quotes the command line, so control characters are escaped. Its class is private to Typer.
    """
    if not isinstance(message := getattr(error, "message", None), str) or not hasattr(error, "show"):
        return None
    error.message = escaped(message)  # type: ignore[attr-defined]
    error.show()
    return int(getattr(error, "exit_code", UsageError.exit_code))


def main() -> None:
    """Run the command line and end the process.

    Skips the shutdown of the interpreter: HTTP threads that still need it would abort the process, and calls in flight
    cannot be interrupted.
    """
    # SIGTERM (cron's timeout) and SIGHUP (a closed terminal) end a run like Ctrl-C: verdicts are kept, partial outputs
    # are not. Under nohup, the run ignores SIGHUP.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(ending) is not signal.SIG_IGN:
            signal.signal(ending, signal.default_int_handler)
    raise_descriptor_limit()
    if sys.stderr is None:  # the parent process closed it
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123
    code: object = 0
    try:
        code = app(prog_name="genrm", standalone_mode=False)
    except SystemExit as ending:
        # Rich and Click exit with 1 when the reader of the help closes the pipe (`| head`).
        code = 0 if isinstance(ending.__context__, BrokenPipeError) else ending.code
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception as error:  # noqa: BLE001  (usage errors of Typer's private classes, and bugs: the last line says so)
        code = _say_usage_error(error)
        if code is None:
            say_traceback()
            say("genrm: done: a bug ended the command; please report the lines above; exit 1")
            code = GenrmError.exit_code
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            if stream is not None:
                stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))  # None: done, as `genrm profiles` says it
