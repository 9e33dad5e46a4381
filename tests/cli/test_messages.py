"""What commands print to a person, and in which order."""

import os
import subprocess

from genrm_process import COMMAND

from genrm_cli.cli.tables import Table, names, numbers


def test_help_whose_reader_is_gone_is_no_failure(genrm):
    """`genrm score -h | head -1` exits with 0 and prints no error."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        process = subprocess.run(
            [*COMMAND, "score", "-h"],
            stdout=writer,
            stderr=subprocess.PIPE,
            env=genrm.environment(),
            check=False,
        )
    finally:
        os.close(writer)
    assert process.returncode == 0
    assert process.stderr == b""


def test_names_in_tables_are_plain_text():
    """A cell such as [/b] is not read as markup."""
    table = Table([*names("[/b]"), *numbers("n")])
    table.add("[/b]", "1")
    assert [line.plain for line in table.iter_lines(None)] == ["[/b]  n", "[/b]  1"]
