"""The figures of speed and memory in the guide."""

from bench.page import PAGE, read_results, render_page


def test_the_page_of_figures_is_that_of_the_results() -> None:
    """`make bench` writes the page from what it measured, and nobody else writes it."""
    assert PAGE.read_text(encoding="utf-8") == render_page(read_results())
