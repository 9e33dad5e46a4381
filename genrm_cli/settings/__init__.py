"""Every setting and its meaning (`table`), and where its effective value comes from (`resolve`).

A value comes from the first of: the flag, the environment (`GENRM_` + name), the settings file, the preset
(reward coefficients only), the default.
"""

from genrm_cli.settings.table import Settings, changed, settings_from

__all__ = ["Settings", "changed", "settings_from"]
