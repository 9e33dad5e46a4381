"""Which lines of a file form a group, as the settings say."""

import json
from pathlib import Path
from typing import Any

from genrm_process import Json

from genrm_cli.jobs.context import new_run
from genrm_cli.jobs.preview import Preview, iter_previews
from genrm_cli.settings import settings_from


def preview(folder: Path, lines: list[Json], **given: Any) -> Preview:
    """Return what `genrm validate` finds in lines."""
    path = folder / "in.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (found,) = iter_previews([str(path)], new_run(settings_from(model="m", **given)))
    assert isinstance(found, Preview)
    return found


def with_principles(*principles: str) -> list[Json]:
    """Make two rollouts of NeMo Gym for each principle, all with one prompt."""
    message = {"role": "user", "content": "Hello"}
    reply = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]}
    line = {"responses_create_params": {"input": [message]}, "response": {"output": [reply]}}
    return [line | {"principle": principle} for principle in principles for _ in range(2)]


def test_compat_keeps_principles_apart_as_gyms_cohorts_do(tmp_path: Path) -> None:
    """The principle is part of NeMo Gym's key whether it is sent or not; only genrm's own way leaves it out."""
    lines = with_principles("Be short.", "Be long.")
    for given in ({"compat": "nemo-gym"}, {"compat": "nemo-gym", "use_principle": True}, {}):
        assert dict(preview(tmp_path, lines, **given).counts.group_sizes) == {2: 2}
    assert dict(preview(tmp_path, lines, use_principle=False).counts.group_sizes) == {4: 1}
