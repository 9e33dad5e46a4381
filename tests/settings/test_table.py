"""The table of settings: names, defaults, help, and building settings by flat names."""

import pytest

from genrm_cli import catalog
from genrm_cli.pairing.pairs import STRATEGIES
from genrm_cli.rewards.estimators.estimates import ESTIMATORS
from genrm_cli.rollouts.formats import FORMATS
from genrm_cli.rollouts.redaction import MARKS
from genrm_cli.settings import Settings, changed, settings_from
from genrm_cli.settings.judge_settings import PanelJudge
from genrm_cli.settings.table import all_settings, value_of


def test_every_setting_is_explained():
    """A setting has a sentence, a panel, a type, and a default within its bounds and choices."""
    for setting in all_settings():
        default = setting.default
        assert setting.help.endswith("."), setting.name
        assert setting.panel, setting.name
        assert default is None or (
            default == () if setting.is_many else type(default) is setting.type
        ), setting.name
        assert default is None or not setting.choices or default in setting.choices, setting.name
        if isinstance(default, int | float) and not isinstance(default, bool):
            assert setting.low is None or default >= setting.low, setting.name
            assert setting.high is None or default <= setting.high, setting.name


def test_names_are_unique():
    """No two settings share a name, a key or a flag."""
    settings = all_settings()
    names = [setting.name for setting in settings]
    flags = [
        flag
        for s in settings
        for flag in (s.flag, s.type is bool and s.negative, s.short_flag)
        if flag
    ]
    for given in (names, [setting.key for setting in settings], flags):
        assert len(set(given)) == len(given)


def test_the_catalog_names_what_is_implemented():
    """Users can type exactly the names that have an implementation."""
    cases = [
        (catalog.STRATEGIES, STRATEGIES),
        (catalog.ESTIMATORS, ESTIMATORS),
        (catalog.INPUT_FORMATS, FORMATS),
        (catalog.REDACTIONS, MARKS),
    ]
    for named, implemented in cases:
        assert set(named) == set(implemented)


def test_settings_are_built_by_flat_names():
    """Flat keywords reach their subject; others are refused."""
    panel = (PanelJudge((("model", "m"),)),)
    settings = settings_from(
        strategy="circular", repeats=3, panel=panel, components=(), max_total_tokens=9
    )
    assert settings.pairing.strategy == "circular"
    assert settings.pairing.repeats == 3
    assert settings.panel.judges == panel
    assert settings.limits.max_total_tokens == 9
    assert changed(settings, repeats=1, max_total_tokens=None) == settings_from(
        strategy="circular", panel=panel
    )
    assert all(value_of(Settings(), setting.name) == setting.default for setting in all_settings())
    with pytest.raises(TypeError, match="'strategie' is not a setting"):
        settings_from(strategie="ring")
