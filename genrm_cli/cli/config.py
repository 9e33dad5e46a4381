"""`genrm config`: the effective settings and where each came from."""

import json

import typer
from rich.table import Table

from genrm_cli.cli.console import stdout_console
from genrm_cli.cli.options import ALL_PANELS, Invocation, with_settings


@with_settings(*ALL_PANELS)
def config(invocation: Invocation) -> int:
    """Show the effective settings, and where each came from.

    Takes the options of `genrm score`, to see what they would change. Keys are never shown.
    """
    if invocation.settings.json_output:
        typer.echo(json.dumps({o.key: {"value": o.value, "source": o.source} for o in invocation.origins}))
        return 0
    table = Table("setting", "value", "from", box=None, pad_edge=False)
    for origin in invocation.origins:
        style = None if origin.source != "default" else "dim"
        table.add_row(origin.key, "" if origin.value is None else str(origin.value), origin.source, style=style)
    stdout_console().print(table)
    return 0
