"""`[[judge]]` tables of a settings file."""

import pytest

from genrm_cli.errors import UsageError
from genrm_cli.settings.panel import MAX_JUDGES, judges_of
from genrm_cli.settings.resolve import resolve_settings
from genrm_cli.settings.sources.settings_file import find_settings_file
from genrm_cli.settings.table import digest_of

TWO = """
temperature = 0.5
concurrency = 4

[[judge]]
model = "org/a"
base_url = ["http://one/v1", "http://two/v1"]
api_key_env = "KEY_A"
concurrency = 32

[[judge]]
judge_id = "strict"
model = "org/b"
base_url = "http://three/v1"
profile = "mt-bench"
temperature = 0
"""


def resolve(
    folder,
    text,
    flags=None,
    environ=None,
):
    """Resolve the settings of a folder whose settings file holds this text."""
    (folder / "genrm.toml").write_text(text)
    file = find_settings_file(folder)
    settings, origins = resolve_settings(flags or {}, environ or {}, file)
    return settings, {origin.key: origin for origin in origins}


def test_each_judge_has_its_own_settings_over_those_of_the_run(tmp_path):
    """A table applies to its judge alone; the run's settings fill in the rest."""
    settings, origins = resolve(tmp_path, TWO)
    first, second = judges_of(settings)
    assert first.name == "org/a"
    assert second.name == "strict"
    assert first.judge.base_url == ("http://one/v1", "http://two/v1")
    assert first.judge.temperature == 0.5
    assert first.limits.concurrency == "32"
    assert first.judge.profile is None
    assert second.judge.temperature == 0.0
    assert second.limits.concurrency == "4"
    assert second.judge.profile == "mt-bench"
    assert first.judge.judge_id is None
    assert second.judge.judge_id == "strict"
    assert origins["judge"].value == ("org/a", "strict")
    assert origins["judge"].source == "file genrm.toml"


def test_an_invalid_panel_is_refused(tmp_path):
    """The message names the mistake and its judge."""
    cases = [
        ('[judge]\nmodel = "a"', r"write a panel as \[\[judge\]\]"),
        ("judge = []", f"expected 1 to {MAX_JUDGES} tables"),
        ('judge = ["a", "b"]', "judge 1: 'a' is not a table"),
        ((MAX_JUDGES + 1) * '[[judge]]\nmodel = "a"\n', f"expected 1 to {MAX_JUDGES} tables"),
        ('[[judge]]\nmodel = "a"\n[[judge]]\nbase_url = "http://x"', "judge 2: model is missing"),
        (
            '[[judge]]\nmodel = "a"\nmodle = "b"',
            "unknown key 'modle'; a judge of a panel has model",
        ),
        ('[[judge]]\nmodel = "a"\nstrategy = "all_pairs"', "unknown key 'strategy'"),
        ('[[judge]]\nmodel = "a"\nshare = "ring 1"', "unknown key 'share'"),
        ('[[judge]]\nmodel = "a"\ntemperature = 3', "judge 1: temperature: 3.0 is out of bounds"),
        (
            '[[judge]]\nmodel = "a"\nconcurrency = "many"',
            "judge 1: concurrency: 'many' is not auto or",
        ),
        ('[[judge]]\nmodel = "a"\nbase_url = 7', "judge 1: base_url: 7 is neither text nor a list"),
        (
            '[[judge]]\nmodel = "a"\n[[judge]]\nmodel = "a"',
            "two .* are named 'a'; .* judge_id = 'strict'",
        ),
    ]
    for text, says in cases:
        with pytest.raises(UsageError, match=says):
            resolve(tmp_path, text)


def test_a_single_judge_from_a_flag_or_variable_replaces_the_panel(tmp_path):
    """A flag or variable that names one judge overrides all tables; a model in the file does
    not.
    """
    cases = [
        ({"model": "c"}, {}, "c"),
        ({}, {"GENRM_MODEL": "c"}, "c"),
        ({"judge": "lexical"}, {}, "lexical"),
        ({}, {"GENRM_JUDGE": "lexical"}, "lexical"),
    ]
    for flags, environ, name in cases:
        settings, origins = resolve(tmp_path, TWO, flags, environ)
        assert not settings.panel.judges
        assert [seat.name for seat in judges_of(settings)] == [name]
        assert origins["judge"].value == settings.judge.judge
        # The lexical judge samples nothing.
        temperature = None if name == "lexical" else 0.5
        assert judges_of(settings)[0].judge.temperature == temperature
        settings, _ = resolve(tmp_path, 'model = "c"\n' + TWO)
        assert [seat.name for seat in judges_of(settings)] == ["org/a", "strict"]


def test_a_flag_without_effect_is_refused(tmp_path):
    """A flag that a judge's own table would override is refused: the user decides which one
    applies.
    """
    cases = [
        (
            {"temperature": "1"},
            {},
            r"temperature is set by flag, but \[\[judge\]\] 2 of the settings file",
        ),
        ({"base_url": ["http://four/v1"]}, {}, r"base_url is set by flag, but \[\[judge\]\] 1"),
        ({}, {"GENRM_PROFILE": "json"}, r"by environment GENRM_PROFILE, but \[\[judge\]\] 2"),
        ({"judge_id": "x"}, {}, "judge_id is set by flag"),
    ]
    for flags, environ, says in cases:
        with pytest.raises(UsageError, match=says):
            resolve(tmp_path, TWO, flags, environ)
        settings, _ = resolve(tmp_path, TWO, flags | {"model": "c"}, environ)
        assert not settings.panel.judges


def test_the_digest_covers_every_judge(tmp_path):
    """Model, profile and sampling of any judge change the digest; endpoints and limits do
    not.
    """

    def digest(text):
        return digest_of(resolve(tmp_path, text)[0])

    base = digest(TWO)
    for old, new in (
        ("org/a", "org/c"),
        ("mt-bench", "arena-hard"),
        ("temperature = 0\n", "temperature = 1\n"),
        ("temperature = 0.5", "temperature = 0.6"),
        ('model = "org/b"', 'model = "org/b"\nmax_reply_tokens = 9'),
    ):
        assert digest(TWO.replace(old, new)) != base, new
    for old, new in (
        ("http://three/v1", "http://nine/v1"),
        ("KEY_A", "KEY_B"),
        ("concurrency = 32", "concurrency = 2"),
        ("concurrency = 32", "call_timeout = 9"),
    ):
        assert digest(TWO.replace(old, new)) == base, new
    assert base != digest_of(resolve(tmp_path, TWO, {"model": "org/a"})[0])
