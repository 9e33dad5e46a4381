"""Commits of several outputs: what a process that stops halfway leaves, and what the next one makes
of it.
"""

import os

import pytest

from genrm_cli.storage.local.sinks import remove_unfinished
from genrm_cli.storage.outputs import Outputs
from genrm_cli.storage.store import Store

STORE = Store()
_NAMES = ("x.metrics.json", "x.scored.jsonl")


class _StoppedError(Exception):
    """The process ends here."""


class StoppedSink:
    """A sink whose process ends instead of publishing it; what it stored stays where it is, as
    after a kill.
    """

    def __init__(self, sink):
        self._sink = sink

    def __getattr__(self, name):
        return getattr(self._sink, name)

    def commit(self):
        """End."""
        raise _StoppedError

    def abort(self):
        """Close the file, as the kernel does for a killed process."""
        os.close(self._sink._file.descriptor)


class StoppedOutputs(Outputs):
    """Outputs whose process ends before the nth of them is published."""

    def __init__(self, mark, stops_before):
        super().__init__(STORE, overwrite=True, mark_uri=str(mark))
        self._stops_before = stops_before

    def open(self, uri):
        """Open an output; from a certain one on, none is published."""
        sink = super().open(uri)
        if len(self._sinks) > self._stops_before:
            place = list(self._sinks)[-1]
            sink = self._sinks[place] = StoppedSink(sink)
        return sink


def stop_before(folder, number, content=b"new"):
    """Publish all outputs before the nth, and end; return the mark."""
    mark = folder / "x.commit"
    with pytest.raises(_StoppedError), StoppedOutputs(mark, number) as outputs:  # noqa: PT012
        for name in _NAMES:
            outputs.open(str(folder / name)).write(content)
        outputs.commit()
    return mark


def contents(folder):
    """Return all files of a folder, hidden ones included."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_an_interrupted_commit_leaves_its_mark(tmp_path):
    """The outputs before the one at which the process ended are new, the others as before; the mark
    goes with the next commit.
    """
    for number in (0, 1):
        for name in _NAMES:
            (tmp_path / name).write_bytes(b"old")
        mark = stop_before(tmp_path, number)
        assert mark.exists()
        assert [(tmp_path / name).read_bytes() for name in _NAMES] == [
            b"new" if place < number else b"old" for place in range(2)
        ]
        remove_unfinished(str(tmp_path / name) for name in _NAMES)
        with Outputs(STORE, overwrite=True, mark_uri=str(mark)) as outputs:
            for name in _NAMES:
                outputs.open(str(tmp_path / name)).write(b"newer")
            outputs.commit()
        assert contents(tmp_path) == dict.fromkeys(_NAMES, b"newer")


def test_only_the_hidden_files_of_an_output_are_removed(tmp_path):
    """Those of other outputs, which other runs may be writing, stay."""
    stop_before(tmp_path, 0)
    kept = {"x.commit", "y.scored.jsonl"}
    (tmp_path / "y.scored.jsonl").touch()
    for other in (".genrm-0123456789abcdef-1.part", ".genrm-other"):
        (tmp_path / other).touch()
        kept.add(other)
    remove_unfinished(str(tmp_path / name) for name in _NAMES)
    assert set(os.listdir(tmp_path)) == kept
