"""Commits of several outputs: what a process that stops halfway leaves, and what the next one makes
of it.
"""

import json
import os
from pathlib import Path

import pytest

from genrm_cli.storage.local.sinks import remove_unfinished
from genrm_cli.storage.outputs import Outputs, finish_commit, was_interrupted
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
        self.uri = sink.uri
        self.staged = sink.staged

    @property
    def mark(self):
        """That of the real sink."""
        return self._sink.mark

    def write(self, data):
        """Pass on."""
        self._sink.write(data)

    def finish(self):
        """Pass on."""
        self._sink.finish()

    def commit(self):
        """End."""
        raise _StoppedError

    def abort(self):
        """Do nothing, as a killed process."""


class StoppedOutputs(Outputs):
    """Outputs whose process ends before the nth of them is published."""

    def __init__(self, manifest, stops_before):
        super().__init__(STORE, overwrite=True, manifest_uri=str(manifest))
        self._stops_before = stops_before

    def open(self, uri):
        """Open an output; from a certain one on, none is published."""
        sink = super().open(uri)
        if len(self._sinks) > self._stops_before:
            self._sinks[-1] = StoppedSink(sink)
        return self._sinks[-1]


def stop_before(folder, number, content=b"new"):
    """Publish all outputs before the nth, and end; return the manifest."""
    manifest = folder / "x.commit"
    with pytest.raises(_StoppedError), StoppedOutputs(manifest, number) as outputs:  # noqa: PT012
        for name in _NAMES:
            outputs.open(str(folder / name)).write(content)
        outputs.commit()
    return manifest


def contents(folder):
    """Return all files of a folder, hidden ones included."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def staged_in(folder):
    """Return the hidden files of a folder."""
    return [path for path in folder.iterdir() if path.name.endswith(".part")]


def outputs_in(folder):
    """Return the outputs that exist."""
    return [str(folder / name) for name in _NAMES if (folder / name).exists()]


def test_an_interrupted_commit_is_finished(tmp_path):
    """Wherever the process ended, all outputs are the new ones, and nothing else is left."""
    for earlier in [False, True]:
        for number in [0, 1]:
            if earlier:
                for name in _NAMES:
                    (tmp_path / name).write_bytes(b"old")
            manifest = stop_before(tmp_path, number)
            assert was_interrupted(str(manifest), outputs_in(tmp_path), STORE)
            assert finish_commit(str(manifest), STORE)
            assert contents(tmp_path) == dict.fromkeys(_NAMES, b"new")


def test_an_interrupted_commit_of_a_set_is_finished(tmp_path):
    """Outputs with names of their own, also in folders of the manifest's, are published, and
    nothing else is left.
    """
    names = ("together.metrics.json", "rs0/a.scored.jsonl", "b.scored.jsonl")
    for number in range(3):
        folder = tmp_path / str(number)
        (folder / "rs0").mkdir(parents=True)
        (folder / "b.scored.jsonl").write_bytes(b"old")
        manifest = folder / "together.commit"
        with pytest.raises(_StoppedError), StoppedOutputs(manifest, number) as outputs:  # noqa: PT012
            for name in names:
                outputs.open(str(folder / name)).write(b"new")
            outputs.commit()
        existing = [str(folder / name) for name in names if (folder / name).exists()]
        assert was_interrupted(str(manifest), existing, STORE)
        assert finish_commit(str(manifest), STORE)
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert {path.relative_to(folder).as_posix() for path in files} == set(names)
        assert {path.read_bytes() for path in files} == {b"new"}


def test_an_output_that_was_linked_but_not_unlinked_is_finished(tmp_path):
    """A new output has two names for a moment; the hidden one does not remain."""
    manifest = stop_before(tmp_path, 0)
    (left,) = [
        path
        for path in staged_in(tmp_path)
        if path.name in manifest.read_text().partition("scored")[0]
    ]
    os.link(left, tmp_path / "x.metrics.json")
    assert finish_commit(str(manifest), STORE)
    assert contents(tmp_path) == dict.fromkeys(_NAMES, b"new")


def test_a_file_written_since_is_not_replaced(tmp_path):
    """What somebody put in the place of an output stays, and the commit does not account for it."""
    manifest = stop_before(tmp_path, 1)
    (tmp_path / "x.scored.jsonl").write_bytes(b"mine")
    assert not finish_commit(str(manifest), STORE)
    assert not was_interrupted(str(manifest), outputs_in(tmp_path), STORE)
    assert (tmp_path / "x.scored.jsonl").read_bytes() == b"mine"


def test_a_commit_whose_hidden_file_is_lost_cannot_be_finished(tmp_path):
    """Then nothing is published, and the outputs count as those of an interrupted run."""
    damages = {
        "removed": Path.unlink,
        "shortened": lambda path: path.write_bytes(b"ne"),
        "changed": lambda path: path.write_bytes(b"nex"),
    }
    for name, damage in damages.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / "x.scored.jsonl").write_bytes(b"old")
        manifest = stop_before(folder, 1)
        (left,) = staged_in(folder)
        damage(left)
        assert not finish_commit(str(manifest), STORE)
        assert (folder / "x.scored.jsonl").read_bytes() == b"old"
        assert was_interrupted(str(manifest), outputs_in(folder), STORE)


def test_outputs_behind_links_are_finished(tmp_path):
    """The target of a link is replaced, in its own folder, and the link stays."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "scored").write_bytes(b"old")
    (tmp_path / "x.scored.jsonl").symlink_to("real/scored")
    assert finish_commit(str(stop_before(tmp_path, 0)), STORE)
    assert (tmp_path / "x.scored.jsonl").is_symlink()
    assert contents(tmp_path / "real") == {"scored": b"new"}


def test_a_manifest_that_names_other_files_is_not_obeyed(tmp_path):
    """A manifest moves hidden files to outputs in its folder or below: not elsewhere, and not to
    rollouts.
    """
    cases = [
        {"name": "../x.scored.jsonl"},
        {"name": "rs0/../../x.scored.jsonl"},
        {"name": "/x.scored.jsonl"},
        {"name": "rollouts.jsonl"},
        {"name": 7},
        {"name": "x.\0"},
        {"name": "x.\ud800"},
        {"staged": "../.genrm-1.part"},
        {"staged": "mine.jsonl"},
        {"staged": None},
        {"mark": None},
        {"mark": {"size": 1}},
        {"replaced": {}},
    ]
    (tmp_path / ".genrm-1.part").write_bytes(b"new")
    for number, change in enumerate(cases):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "mine.jsonl").write_bytes(b"new")
        manifest = stop_before(folder, 0)
        written = json.loads(manifest.read_bytes())
        written["outputs"][1].update(change)
        manifest.write_text(json.dumps(written))
        before = contents(folder)
        finish_commit(str(manifest), STORE)
        assert contents(folder) == before
        assert (tmp_path / ".genrm-1.part").exists()


def test_what_is_no_manifest_is_ignored(tmp_path):
    """A file with the name of a manifest that is not a manifest stays unchanged until a commit
    replaces it.
    """
    cases = [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"format": 2}',
        b'{"format": 1}',
        b"[" * 100_000,
    ]
    for content in cases:
        (tmp_path / "x.commit").write_bytes(content)
        assert finish_commit(str(tmp_path / "x.commit"), STORE)
        assert (tmp_path / "x.commit").read_bytes() == content


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
