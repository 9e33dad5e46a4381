"""The exit code of a run over many inputs."""

import pytest

from genrm_cli.errors import INTERRUPTED, GenrmError, worst_exit_code


@pytest.mark.parametrize(
    ("codes", "worst"),
    [([], 0), ([0, 6], 6), ([7, 6, 0], 7), ([5, 3], 5), ([INTERRUPTED, 0], INTERRUPTED)],
)
def test_the_worst_code_is_the_code_of_the_run(codes: list[int], worst: int) -> None:
    """An interrupted input makes the whole run an interrupted one."""
    assert worst_exit_code(codes) == worst


def test_every_error_has_a_place_among_the_codes() -> None:
    """A code that has no place would end the run with a traceback."""
    for error in GenrmError.__subclasses__():
        assert worst_exit_code([error.exit_code, 0]) == error.exit_code
