"""`genrm journal`: print what is in a journal: verdicts of judges, turns of policies and clients."""

import json
from pathlib import Path
from typing import Annotated

import typer

from genrm_cli.cli.console import counted, print_text, say_warning
from genrm_cli.cli.options import exits
from genrm_cli.errors import InputError


@exits
def journal(path: Annotated[str, typer.Argument(metavar="JOURNAL", help="A *.journal.sqlite file.")]) -> None:
    """Print all answers, replies and failures in a journal as JSON lines.

    Example: genrm journal rollouts.journal.sqlite
    """
    from genrm_cli.judging.journal import Journal

    if not Path(path).is_file():
        raise InputError(f"{path}: no such journal; `genrm score` prints the path of its journal at the end.")
    with Journal(path, read_only=True) as opened:
        for entry in opened.iter_entries():
            print_text(json.dumps(entry))
    if opened.damaged:
        say_warning(f"{path}: {counted(len(opened.damaged), 'damaged answer')} skipped.")
