"""`genrm guide` prints the guide."""

import pytest
from genrm_process import Call

from genrm_cli.cli.setup.guide import page_names, read_page


@pytest.mark.parametrize("name", page_names())
def test_a_pipe_gets_the_page_as_plain_markdown(name: str, call: Call) -> None:
    """A page can be redirected into a file."""
    ended = call("guide", name)
    assert (ended.code, ended.out.decode()) == (0, read_page(name))


def test_without_a_name_the_index_is_printed(call: Call) -> None:
    """The index names all pages."""
    index = call("guide")
    assert all(f"[{name}]" in index.out.decode() for name in page_names())


def test_a_page_that_does_not_exist_is_answered_with_the_pages(call: Call) -> None:
    """The error lists all pages."""
    ended = call("guide", "setings").ended(2)
    assert "'setings'" in ended.err
    assert "settings" in ended.err
