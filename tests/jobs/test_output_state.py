import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from genrm_process import make_rollouts
from msgspec.structs import replace

from genrm_cli.cli.options import run_to_end
from genrm_cli.jobs.context import new_run
from genrm_cli.jobs.due.inputs import output_places
from genrm_cli.jobs.due.output_state import OutputStanding, OutputState, read_output_state
from genrm_cli.jobs.input_batch import score_inputs
from genrm_cli.rollouts.views import READING_VERSION
from genrm_cli.settings import Settings, settings_from
from genrm_cli.settings.table import changed
from genrm_cli.storage.store import Store

STORE = Store()
SETTINGS = settings_from(judge="lexical")


class Scored:
    """An input that has been scored, and its outputs."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "in.jsonl"
        self.path.write_text(
            "".join(json.dumps(line) + "\n" for line in make_rollouts(groups=1, size=2))
        )
        self.places = output_places(str(self.path), SETTINGS)
        assert self.places.metrics is not None
        self.scored = Path(self.places.scored)
        self.metrics = Path(self.places.metrics)
        assert run_to_end(score_inputs([str(self.path)], new_run(SETTINGS))).exit_code == 0

    def look(
        self, settings: Settings = SETTINGS, path: Path | None = None, **identity: Any
    ) -> OutputState:
        """Look at the outputs as they are now, for the input or one at another path."""
        found = STORE.at(str(path or self.path)).identify()
        return read_output_state(self.places, [replace(found, **identity)], settings, STORE)

    def edit_metrics(self, **fields: Any) -> None:
        """Replace fields of the metrics object."""
        self.metrics.write_text(json.dumps(json.loads(self.metrics.read_bytes()) | fields))


@pytest.fixture
def scored(tmp_path):
    """Give a test an input that has just been scored."""
    return Scored(tmp_path)


@pytest.fixture(scope="module")
def scored_once(tmp_path_factory):
    """Give property tests outputs that they leave as they are."""
    return Scored(tmp_path_factory.mktemp("once"))


@pytest.mark.parametrize(
    ("size_bytes", "etag", "mtime_ns"),
    [
        (9, None, 1),
        (None, "e", None),
        (0, "", 9),
        (3, None, None),
        (None, None, None),
    ],
)
def test_another_identity_is_never_current(scored_once, size_bytes, etag, mtime_ns):
    """Any other size, time or ETag is another input; one without time and ETag cannot be told at
    all.
    """
    found = scored_once.look(size_bytes=size_bytes, etag=etag, mtime_ns=mtime_ns)
    expected = OutputStanding.FOREIGN if etag is None and mtime_ns is None else OutputStanding.STALE
    assert found.standing is expected


@pytest.mark.parametrize(
    ("fields", "standing"),
    [
        ({"partial": True}, OutputStanding.STALE),
        ({"input": None}, OutputStanding.STALE),
        ({"input": []}, OutputStanding.FOREIGN),
        ({"settings_digest": None}, OutputStanding.FOREIGN),
        ({"output_mark": None}, OutputStanding.FOREIGN),
        ({"output_mark": {}}, OutputStanding.FOREIGN),
        ({"output_mark": {"size_bytes": "1", "upload": 7}}, OutputStanding.FOREIGN),
    ],
    ids=str,
)
def test_metrics_that_say_something_else(scored, fields, standing):
    """Whatever the metrics hold, nothing but the whole truth makes outputs current."""
    scored.edit_metrics(**fields)
    assert scored.look().standing is standing


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"[]",
        b"{",
        b"{}",
        b'"text"',
        b"null",
        b"[" * 5000,
    ],
)
def test_metrics_that_are_none(scored, content):
    """Broken metrics vouch for nothing."""
    scored.metrics.write_bytes(content)
    assert scored.look().standing is OutputStanding.FOREIGN


@pytest.mark.parametrize("version", [READING_VERSION - 1, READING_VERSION + 1])
def test_outputs_of_another_reading_are_stale(scored, version):
    """Where another version read the responses, the judge may have been shown something else."""
    scored.edit_metrics(reading_version=version)
    found = scored.look()
    assert found.standing == OutputStanding.STALE
    assert str(found.reason) == "responses are read differently now"


def test_only_failed_wants_runs_with_failures_again(scored):
    """--only-failed leaves a run without failures alone, and goes at one that has some."""
    only_failed = changed(SETTINGS, only_failed=True)
    assert scored.look(only_failed).standing is OutputStanding.CURRENT
    scored.edit_metrics(failures=1)
    assert scored.look(only_failed).standing is OutputStanding.STALE
    assert scored.look().standing is OutputStanding.CURRENT


def test_a_copy_without_attributes_is_current_at_the_same_size(scored):
    """A file system that keeps no attributes costs the id, not the run; another size is not what
    was written.
    """
    shutil.copyfile(scored.scored, scored.scored.with_name("copy"))
    scored.scored.with_name("copy").replace(scored.scored)
    assert scored.look().standing is OutputStanding.CURRENT
    os.truncate(scored.scored, 10)
    assert scored.look().standing is OutputStanding.FOREIGN


def test_an_input_rewritten_in_place_is_noticed(scored):
    """A new content of equal size and modification time makes outputs stale; moving or copying the
    input does not.
    """
    before = scored.path.stat()
    copy = scored.path.with_name("copy")
    moved = scored.path.with_name("moved")
    shutil.copy2(scored.path, copy)
    scored.path.rename(moved)
    copy.rename(scored.path)
    assert scored.look().standing is OutputStanding.CURRENT
    os.utime(moved, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert scored.look(path=moved).standing is OutputStanding.CURRENT
    moved.rename(scored.path)
    scored.path.write_bytes(scored.path.read_bytes().replace(b"Answer", b"Anders"))
    os.utime(scored.path, ns=(before.st_atime_ns, before.st_mtime_ns))
    found = scored.look()
    assert found.standing == OutputStanding.STALE
    assert str(found.reason) == "the input has changed"


def test_sides_without_scored_lines(scored):
    """They are replaced if the metrics are among them."""
    scored.scored.unlink()
    assert scored.look().standing is OutputStanding.STALE
    scored.metrics.unlink()
    assert scored.look().standing is OutputStanding.FOREIGN
    for side in scored.places.sides():
        Path(side).unlink(missing_ok=True)
    assert scored.look().standing is OutputStanding.NEW
    Path(scored.places.sides()[0]).write_text("mine")
    assert scored.look().standing is OutputStanding.FOREIGN


def test_what_no_judge_can_score_is_up_to_date_all_the_same(tmp_path):
    """Blank responses stay unscored whenever they are read: another run would change nothing."""
    lines = [
        {
            "prompt_id": 1,
            "prompt": "Which?",
            "completion": " " * number,
        }
        for number in range(3)
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    settings = settings_from(judge="lexical")
    first = run_to_end(score_inputs([str(tmp_path / "in.jsonl")], new_run(settings))).last
    assert first is not None
    assert first.exit_code == 6
    again = run_to_end(score_inputs([str(tmp_path / "in.jsonl")], new_run(settings))).last
    assert again is not None
    assert again.status == "up to date"
