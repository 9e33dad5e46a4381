"""The guide's page of all settings, made from their declarations; `make guide` writes it."""

from genrm_cli.cli.console import help_text
from genrm_cli.settings.table import all_settings

_INTRODUCTION = """\
# Settings

Every setting is a flag (`--call-timeout`), an environment variable (`GENRM_CALL_TIMEOUT`) and a key in a settings file
(`call_timeout = 600`). The settings file is the one named by `--config` or `GENRM_CONFIG`, otherwise `genrm.toml` in
the current folder, which is read only if you trust it: see `genrm guide security`.

Flags override the environment, which overrides the file, which overrides presets and defaults. `genrm config` prints
the effective settings and their sources. Durations are in seconds, or written as `90s`, `15m` or `2h`. Where a flag may
be repeated, the file takes a list, and the environment values with commas between them.
"""  # noqa: E501


def render_settings_page():
    """Return the page as Markdown: a table for each section of the help."""
    panels = dict.fromkeys(setting.panel for setting in all_settings())
    tables = [
        f"## {panel}\n\n| flag | default | meaning |\n|---|---|---|\n"
        + "".join(f"{_row(setting)}\n" for setting in all_settings() if setting.panel == panel)
        for panel in panels
    ]
    return "\n".join([_INTRODUCTION, *tables])


def _row(setting):
    off = setting.negative if setting.switch_off else None
    flags = ", ".join(f"`{name}`" for name in (setting.flag, setting.short_flag, off) if name)
    default = "" if setting.default in (None, ()) else f"`{setting.default}`"
    if isinstance(setting.default, bool):
        default = "on" if setting.default else "off"
    return f"| {flags} | {default} | {help_text(setting.help)} |"


if __name__ == "__main__":
    print(render_settings_page(), end="")
