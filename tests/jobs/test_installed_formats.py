"""Formats that installed packages register."""

import pytest

from genrm_cli.errors import UsageError
from genrm_cli.extensions import Seam
from genrm_cli.scored.parse_lines import format_of
from genrm_cli.settings.file_settings import InputSettings

SOURCE = """
from genrm_cli.rollouts.formats import named_fields
NOTES = named_fields("note", "prompt", name="{name}", example={{}})
"""
NOTE = {
    "prompt": "Why?",
    "completion": "So.",
    "note": "Because.",
}


def test_an_installed_format_is_tried_before_the_built_in_ones(
    install_package,
):
    """Whoever installs a format wants its lines read by it, even where a general format fits as
    well.
    """
    assert format_of(NOTE, InputSettings()).name == "completion"
    install_package(
        "note_log", SOURCE.format(name="notes"), {Seam.FORMATS: {"notes": "note_log:NOTES"}}
    )
    format_ = format_of(NOTE, InputSettings())
    assert format_.name == "notes"
    assert [rollout.answer for rollout in format_.read(NOTE)] == ["Because."]
    assert format_of(NOTE, InputSettings(format="completion")).name == "completion"


@pytest.mark.parametrize(
    ("entry", "name", "problem"),
    [
        ("notes", "note", "calls itself 'note'"),
        ("chat", "chat", "built in"),
    ],
)
def test_a_format_has_one_name_of_its_own(install_package, entry, name, problem):
    """Metrics and outputs name the format, so the name must be that of the entry point and no other
    format's.
    """
    install_package("note_log", SOURCE.format(name=name), {Seam.FORMATS: {entry: "note_log:NOTES"}})
    with pytest.raises(UsageError, match=problem):
        format_of(NOTE, InputSettings())
