"""Tables in a real terminal: numbers and names are whole at any width, and texts give way."""

from genrm_cli.cli.tables import Table, names, numbers


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
