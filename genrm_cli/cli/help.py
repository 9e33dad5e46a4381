"""Help of commands: common options with `--help`, all of them by subject with `--help-all`."""

import inspect
import re
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from genrm_cli.cli.console import print_text
from genrm_cli.settings.table import all_settings

_ALL = "genrm.help_all"  # key in the context, set by --help-all
_UNCOMMON = frozenset(setting.name for setting in all_settings() if not setting.is_common)
_ON = frozenset(setting.name for setting in all_settings() if setting.default is True)
_TYPE = re.compile(r" <[^>]*>$")


class Command(TyperCommand):
    """A command whose help fits 80 columns and hides uncommon settings."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        # `\b` begins a paragraph that is not wrapped: each example stays on one line.
        paragraphs = inspect.cleandoc(more.get("help") or "").split("\n\n")
        more["help"] = "\n\n".join(f"\b\n{each}" if each.startswith("Example") else each for each in paragraphs)
        super().__init__(*arguments, **more)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line, the same in all versions of Typer: `[OPTIONS] ROLLOUTS...`."""
        pieces = [self.options_metavar] if self.options_metavar else []
        for parameter in self.get_params(ctx):
            if parameter.param_type_name == "argument":
                name = (parameter.metavar or str(parameter.name).upper()) + ("" if parameter.nargs == 1 else "...")
                pieces.append(name if parameter.required else f"[{name}]")
        return pieces

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options: the common ones, or all of them by subject."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        brief = _ALL not in ctx.meta and any(parameter.name == "help_all" for parameter in self.params)
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None or (brief and parameter.name in _UNCOMMON):
                continue
            # Without its type; for a switch, the flag that changes its default.
            on, _, off = record[0].partition(" / ")
            record = (_TYPE.sub("", off if off and parameter.name in _ON else on), record[1])
            panel = None if brief else getattr(parameter, "rich_help_panel", None)
            is_argument = parameter.param_type_name == "argument"
            sections.setdefault("Arguments" if is_argument else panel or "Options", []).append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def _show_all(ctx: typer.Context, wanted: bool) -> None:
    if wanted:
        ctx.meta[_ALL] = True
        print_text(ctx.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool, typer.Option("--help-all", help="Show all options and exit.", callback=_show_all, is_eager=True)
]
