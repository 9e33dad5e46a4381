"""Run the command within this process: for the many calls whose claim is not about a process."""

import sys
from collections.abc import Mapping, Sequence
from functools import cache

from genrm_process import Finished
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from genrm_cli.cli.app import app


def call_here(
    arguments: Sequence[object], environment: Mapping[str, str], stdin: bytes = b""
) -> Finished:
    """Run to the end; what would be a traceback is raised."""
    with CliRunner().isolation(input=stdin, env=environment) as (stdout, stderr, _):
        try:
            _command().main(list(map(str, arguments)), prog_name="genrm")
            code: object = 0
        except SystemExit as ended:
            code = ended.code or 0
        assert isinstance(code, int), code
        sys.stdout.flush()
        sys.stderr.flush()
        return Finished(code, stdout.getvalue(), stderr.getvalue().decode())


@cache
def _command() -> TyperGroup:
    """Make the command with all its options once: that takes longer than many a call."""
    command = get_command(app)
    assert isinstance(command, TyperGroup)
    return command
