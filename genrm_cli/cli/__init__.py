"""The `genrm` command: Typer and Rich, one file a command."""
