"""The digest of settings: a sha256 over every setting that can change a reward."""

import pytest

from genrm_cli.settings import Settings, changed, settings_from
from genrm_cli.settings.table import all_settings, digest_of, value_of

DECIDING = """
    format limit group_by view answer_field answer_tool ignore_media images image_hosts empty
    reference_field rubric_field prompt_field response_field id_field
    ignore_fields
    require_metadata goal strategy ring_k repeats list_size both_orders seed judge model judging profile
    principle temperature top_p max_reply_tokens request_field max_model_len redact_pattern compat
    estimator min_reliability
    default_score min_verdicts max_extra advantage unscored
"""  # noqa: E501


def another(value):
    """Return another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return (*value, "more") if isinstance(value, tuple) else "another"


def is_number(setting):
    """Return whether a setting takes numbers."""
    return "number" in setting.kind.expected or "integer" in setting.kind.expected


def beside(setting):
    """Return settings beside which one has an effect."""
    given = {}
    for part in filter(None, setting.only_with.split(", ")):
        name, _, value = part.partition("|")[0].partition("=")
        if not name.startswith("!"):
            given[name] = value or another(value_of(Settings(), name))
    return changed(Settings(), **given)


def test_the_digest_covers_exactly_the_settings_that_can_change_a_reward():
    """Endpoints, limits, outputs and storage can change without a new run."""
    digests = {}
    for setting in all_settings():
        base = beside(setting)
        new = changed(base, **{setting.name: another(value_of(base, setting.name))})
        if digest_of(new) != digest_of(base):
            digests[setting.name] = digest_of(new)
    assert set(digests) == set(DECIDING.split())
    assert len(set(digests.values())) == len(digests)
    assert digest_of(settings_from(temperature=0.0)) != digest_of(settings_from(temperature=None))


@pytest.mark.parametrize(
    "setting",
    [each for each in all_settings() if each.changes_rewards and is_number(each)],
    ids=lambda each: each.name,
)
def test_a_number_has_one_digest_in_every_way_to_write_it(setting):
    """A run that a file began with 1.0 is continued by a flag or a variable that says 1."""
    number = max(setting.low or 1, 1)
    base = beside(setting)
    ways = (f"{number:g}", f"{number:.1f}", int(number), float(number))
    values = [setting.convert(way, setting.name) for way in ways]
    assert len({digest_of(changed(base, **{setting.name: value})) for value in values}) == 1
