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


def test_names_wrap_where_a_terminal_is_too_narrow():
    """A number beside a long name is whole, and the name stands on several lines."""
    table = Table([*names("metric"), *numbers("95 % interval"), *names("")])
    table.add("accuracy where ties count half", "12.3 to 45.6", "")
    table.add("b" * 45, "0.1 to 0.2", "")
    lines = [line.plain for line in table.iter_lines(40)]
    assert max(map(len, lines)) <= 40
    assert lines[1].endswith("12.3 to 45.6")
    assert "".join("".join(lines).split()).count("b") == 45
    assert len(list(table.iter_lines(None))) == 3


def test_columns_without_text_take_no_part():
    """A column that says nothing about any row is not a table of names alone below the others."""
    table = Table([*names("pair"), *numbers("wins", "ties"), *names("")])
    table.add("a-policy against another-one", "50.0 %", "2", "")
    assert [line.plain for line in table.iter_lines(34)][-1].split()[-1] == "2"


def test_names_in_tables_are_plain_text():
    """A cell such as [/b] is not read as markup."""
    table = Table([*names("[/b]"), *numbers("n")])
    table.add("[/b]", "1")
    assert [line.plain for line in table.iter_lines(None)] == ["[/b]  n", "[/b]  1"]
