"""Leases on several outputs at once."""

import pytest

from genrm_cli.cli.options import run_to_end
from genrm_cli.jobs.context import new_run
from genrm_cli.jobs.due.leasing import LeaseHeldError, leased
from genrm_cli.settings import settings_from


def test_many_leases_are_taken_and_released_together(tmp_path):
    """If another run holds one of them, none is held, and all are free afterwards."""
    run = new_run(settings_from(judge="lexical"))
    outputs = [str(tmp_path / f"{name}.scored.jsonl") for name in "abc"]

    async def hold():
        async with leased(outputs[:1], run):
            with pytest.raises(LeaseHeldError, match=r"a\.scored\.jsonl: process .*run again"):
                async with leased(outputs, run):
                    pass
            assert [path.name for path in tmp_path.iterdir()] == ["a.lease-1"]
        async with leased(outputs, run) as leases:
            assert len(leases) == len(outputs)

    run_to_end(hold())
    assert not list(tmp_path.iterdir())
