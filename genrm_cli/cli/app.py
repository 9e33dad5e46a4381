"""The `genrm` command and its subcommands.

The modules that do the work are imported by the commands when they run: numpy, the HTTP library and boto3 take
longer to import than `genrm --help` may take.
"""

from typing import Annotated

import typer

from genrm_cli import __version__
from genrm_cli.cli.compare import compare
from genrm_cli.cli.config import config
from genrm_cli.cli.options import EPILOG
from genrm_cli.cli.score import score
from genrm_cli.cli.validate import validate

app = typer.Typer(
    name="genrm",
    help="Turn stored RL rollouts into rewards: a generative reward model compares them in pairs.",
    epilog="Exit codes: 0 done; 1 a bug; 2 usage; 3 input unreadable; 4 judge unreachable; 5 storage; "
    "6 done, but too many rollouts stayed unscored; 130 interrupted.",
    no_args_is_help=True,
    # A traceback with local variables would show texts and keys.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(epilog=EPILOG)(score)
app.command(epilog=EPILOG)(compare)
app.command(epilog=EPILOG)(validate)
app.command(epilog=EPILOG)(config)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"genrm {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Hold the options of `genrm` itself; the help of the command is the app's."""


def main() -> None:
    """Run the command line."""
    app()
