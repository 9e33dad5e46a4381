"""Progress of a run, as another thread reads it."""

import sys
import threading

import pytest

from genrm_cli.metrics.progress import RunProgress
from genrm_cli.verdicts import Failure, FailureKind, Outcome, Verdict

KINDS = list(FailureKind)


@pytest.fixture
def switching():
    """Let threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def count_some(metrics, start):
    """Count failures of every kind and a verdict, in an order that depends on `start`."""
    for number in range(len(KINDS)):
        metrics.add_outcome(Outcome(Failure(KINDS[(start + number) % len(KINDS)], "why")))
    metrics.add_outcome(Outcome(Verdict(3, 3, 3.5)))


@pytest.mark.usefixtures("switching")
def test_progress_can_be_read_while_the_run_goes_on():
    """4,000 reads from another thread see inputs begin, count and end; no read fails or goes
    backwards.
    """
    progress = RunProgress()
    done = threading.Event()
    errors: list[BaseException] = []
    reads: list[int] = []

    def read():
        try:
            while len(reads) < 4_000:
                now = progress.now()
                reads.append(now.verdicts)
                assert set(now.failures_by_kind) <= set(KINDS)
        except BaseException as error:  # noqa: BLE001  (the test fails with it)
            errors.append(error)
        finally:
            done.set()

    reader = threading.Thread(target=read)
    reader.start()
    written = 0
    while not done.is_set():
        metrics = progress.begin()
        count_some(metrics, written)
        progress.end(metrics)
        written += 1
    reader.join()
    assert errors == []
    assert reads == sorted(reads)
    assert progress.total().verdicts == progress.now().verdicts == written
    assert progress.total().failures_by_kind == dict.fromkeys(KINDS, written)
