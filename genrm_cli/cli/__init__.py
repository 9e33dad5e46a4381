"""The `genrm` command: Typer and Rich, one file per command."""
