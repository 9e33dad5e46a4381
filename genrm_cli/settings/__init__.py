"""Settings of a run, one dataclass per subject, and their resolution.

A value comes from the first of these sources that has it: flag, environment (`GENRM_` and the
name), settings file, preset (coefficients of `[shaping]` only), default. What cannot be used raises
`UsageError`, which names the place."""

from genrm_cli.settings.table import Settings, changed, settings_from

__all__ = ["Settings", "changed", "settings_from"]
