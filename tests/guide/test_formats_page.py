"""The guide's table of formats says what the catalog says."""

import re

from pages import PAGES

from genrm_cli.catalog import INPUT_FORMATS


def test_the_table_of_formats_is_that_of_the_catalog():
    """Each format has a row with its name and explanation, in the order in which formats are
    recognised.
    """
    table = (
        PAGES["input-formats"]
        .partition("| format | what it is | recognised by |\n|---|---|---|\n")[2]
        .partition("\n\n")[0]
    )
    rows = [re.split(r" \| |\| | \|", row)[1:3] for row in table.splitlines()]
    assert rows == [[f"`{name}`", explanation] for name, explanation in INPUT_FORMATS.items()]
