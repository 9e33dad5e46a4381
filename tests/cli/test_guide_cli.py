"""`genrm guide` prints the guide."""

import pytest
from genrm_process import Genrm

from genrm_cli.cli.setup.guide import page_names, read_page


@pytest.mark.parametrize("name", page_names())
def test_a_pipe_gets_the_page_as_plain_markdown(name: str, genrm: Genrm) -> None:
    """A page can be redirected into a file."""
    ended = genrm.run("guide", name)
    assert (ended.code, ended.out.decode()) == (0, read_page(name))


def test_without_a_name_the_index_is_printed(genrm: Genrm) -> None:
    """The index names all pages, as does `--list`."""
    index, names = genrm.run("guide"), genrm.run("guide", "--list")
    assert names.out.decode().split() == page_names()
    assert all(f"[{name}]" in index.out.decode() for name in page_names())


def test_a_page_that_does_not_exist_is_answered_with_the_pages(genrm: Genrm) -> None:
    """The error lists all pages."""
    ended = genrm.run("guide", "setings")
    assert ended.code == 2
    assert "'setings'" in ended.err
    assert "settings" in ended.err
