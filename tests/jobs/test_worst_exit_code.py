"""The exit code of a run over many inputs."""

from genrm_cli.errors import INTERRUPTED, GenrmError, worst_exit_code


def test_the_worst_code_is_the_code_of_the_run():
    """An interrupted input makes the whole run an interrupted one."""
    cases = [
        ([], 0),
        ([0, 6], 6),
        ([7, 6, 0], 7),
        ([5, 3], 5),
        ([INTERRUPTED, 0], INTERRUPTED),
    ]
    for codes, worst in cases:
        assert worst_exit_code(codes) == worst


def test_every_error_has_a_place_among_the_codes():
    """A code that has no place would end the run with a traceback."""
    for error in GenrmError.__subclasses__():
        assert worst_exit_code([error.exit_code, 0]) == error.exit_code
