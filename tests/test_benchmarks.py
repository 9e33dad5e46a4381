"""The figures of speed and memory in the guide."""

from bench.learning import page as learning
from bench.page import PAGE, read_results, render_page


def test_the_page_of_figures_is_that_of_the_results() -> None:
    """`make bench` writes the page from what it measured, and nobody else writes it."""
    assert PAGE.read_text(encoding="utf-8") == render_page(read_results())


def test_the_page_of_learning_curves_is_that_of_the_results() -> None:
    """`make learning` writes the page from what it measured."""
    page = learning.PAGE.read_text(encoding="utf-8")
    assert page == learning.render_page(learning.read_curves())
