"""`genrm guide` prints the guide."""

from genrm_cli.cli.setup.guide import page_names, read_page


def test_a_pipe_gets_the_page_as_plain_markdown(call):
    """A page can be redirected into a file."""
    for name in page_names():
        ended = call("guide", name).ended(0)
        assert ended.out.decode() == read_page(name)


def test_without_a_name_the_index_is_printed(call):
    """The index names all pages."""
    index = call("guide")
    assert all(f"[{name}]" in index.out.decode() for name in page_names())


def test_a_page_that_does_not_exist_is_answered_with_the_pages(call):
    """The error lists all pages."""
    ended = call("guide setings").ended(2)
    assert "'setings'" in ended.err
    assert "settings" in ended.err
