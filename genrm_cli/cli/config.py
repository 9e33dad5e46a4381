"""`genrm config`: the effective settings and their sources."""

import json

import typer
from rich.table import Table
from rich.text import Text

from genrm_cli.cli.console import stdout_console
from genrm_cli.cli.options import ALL_PANELS, Invocation, with_settings
from genrm_cli.settings.declare import Value


@with_settings(*ALL_PANELS)
def config(invocation: Invocation) -> int:
    """Show the effective settings and where each came from.

    Takes the options of `genrm score`, to show their effect. API keys are never shown.
    """
    if invocation.settings.output.json_output:
        typer.echo(json.dumps({o.key: {"value": o.value, "source": o.source} for o in invocation.origins}))
        return 0
    table = Table("setting", "value", "from", box=None, pad_edge=False)
    for origin in invocation.origins:
        style = None if origin.source != "default" else "dim"
        table.add_row(Text(origin.key), Text(_shown(origin.value)), Text(origin.source), style=style)
    stdout_console().print(table)
    return 0


def _shown(value: Value) -> str:
    """Render a value as in a settings file, without quotes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ", ".join(value)
    return "" if value is None else str(value)
