"""A caller that holds the leases on outputs over several runs, as the driver of a cluster does."""

from pathlib import Path

import pytest
from genrm_process import Genrm, make_rollouts

from genrm_cli.cli.options import run_to_end
from genrm_cli.jobs.batch import BatchReport, score_inputs
from genrm_cli.jobs.context import new_run
from genrm_cli.jobs.due.decisions import Status
from genrm_cli.jobs.due.leasing import leased
from genrm_cli.settings import settings_from
from genrm_cli.storage.leases import Leases, OtherLease
from genrm_cli.storage.store import Store


@pytest.fixture
def folder(tmp_path):
    """Write three inputs into a folder of their own."""
    for name in ("a.jsonl", "b.jsonl", "c.jsonl"):
        Genrm(tmp_path).write(name, make_rollouts())
    return tmp_path


def a_run():
    """Return a run that needs no server, over files however new."""
    return new_run(settings_from(judge="lexical", min_age=0.0))


def statuses(report):
    """Return the results by the names of the inputs."""
    return {Path(result.uri).name: result.status for result in report.results}


def test_only_held_outputs_are_written_and_their_leases_stay(folder):
    """What the caller leased is scored, what another run leased is put off, and what became due
    later has to wait.
    """
    leases = Leases(Store(), 300.0)
    run = a_run()
    ours, theirs = (str(folder / f"{name}.scored.jsonl") for name in "ab")
    report = BatchReport(keeps=True)

    async def score():
        async with leased([ours], leases, run) as held:
            of_another = OtherLease("process 1 on elsewhere", "a moment ago", 300.0)
            await score_inputs([str(folder)], run, report, held={**held, theirs: of_another})
            assert isinstance(leases.peek(ours), OtherLease)

    run_to_end(score())
    assert statuses(report) == {
        "a.jsonl": Status.SCORED,
        "b.jsonl": Status.WAITS,
        "c.jsonl": Status.WAITS,
    }
    assert sorted(path.name for path in folder.glob("*.scored.jsonl")) == ["a.scored.jsonl"]
    assert leases.peek(ours) is None
    assert not list(folder.glob("*.lease-*"))


def test_many_leases_are_taken_and_released_together(folder):
    """Of several outputs, those that another run holds are named; all others are leased, and free
    again afterwards.
    """
    leases = Leases(Store(), 300.0)
    run = a_run()
    outputs = [str(folder / f"{name}.scored.jsonl") for name in "abc"]

    async def hold():
        async with leased(outputs[:1], leases, run), leased(outputs, leases, run) as found:
            assert [isinstance(found[output], OtherLease) for output in outputs] == [
                True,
                False,
                False,
            ]
            assert all(leases.peek(output) for output in outputs)

    run_to_end(hold())
    assert not any(leases.peek(output) for output in outputs)
