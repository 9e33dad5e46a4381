"""Tables in a real terminal: numbers and names are whole at any width, and texts give way."""

from rich.cells import cell_len

from genrm_cli.cli.tables import Table, excerpts, names, numbers, texts


def test_columns_that_do_not_fit_follow_below_their_names():
    """Eleven numbers in a narrow terminal are shown in several parts, each with the names of the
    rows.
    """
    table = Table([*names("judge"), *numbers(*(f"column {n}" for n in range(11)))])
    table.add("a-judge-with-a-name", *(f"{n}.123456" for n in range(11)))
    lines = [line.plain for line in table.iter_lines(50)]
    assert max(map(len, lines)) <= 50
    assert sum("a-judge-with-a-name" in line for line in lines) > 2
    assert "a-judge-with-a-name" in lines[-1]
    assert "10.123456" in lines[-1]


def test_texts_shrink_and_wide_characters_count_twice():
    """A text wraps, an excerpt is cut with an ellipsis; Chinese takes two columns each; a pipe gets
    it all.
    """
    table = Table(
        [
            *names("n"),
            *texts("text"),
            *excerpts("beginning"),
            *numbers("count"),
        ]
    )
    table.add("1", "several words that wrap " * 3, "河" * 60, "7")
    narrow = [line.plain for line in table.iter_lines(50)]
    assert len(narrow) > 3
    assert max(map(cell_len, narrow)) <= 50
    assert "…" in narrow[1]
    assert len(list(table.iter_lines(None))) == 2
