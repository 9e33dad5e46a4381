"""Score lines under a settings file, within this process, and look at what became of them."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from genrm_process import Json, read_lines
from judge_server_fixture import JudgeServer

from genrm_cli.cli.options import run_to_end
from genrm_cli.jobs.context import new_run
from genrm_cli.jobs.input_batch import score_inputs
from genrm_cli.scored.json_form import to_json
from genrm_cli.settings import Settings
from genrm_cli.settings.resolve import resolve_settings
from genrm_cli.settings.sources.settings_file import SettingsFile

LEXICAL = "judge = 'lexical'\n"
QUICK: dict[str, Any] = {
    "probe": False,
    "retries": 0,
    "concurrency": "2",
    "force": True,
}


def judge(server: JudgeServer, **settings: object) -> str:
    """Name a judge, and other settings, as in a settings file."""
    given = {"model": "m", "base_url": server.base_url} | settings
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in given.items())


def last_messages(server: JudgeServer) -> list[str]:
    """Return the last message of each request."""
    return [one["body"]["messages"][-1]["content"] for one in server.stats()["recent"]]


class Scored(NamedTuple):
    """The outputs of a run, and how it ended."""

    metrics: Json
    lines: list[Json]
    comparisons: list[Json]
    code: int

    @property
    def rewards(self) -> list[float | None]:
        """The rewards of lines that hold one rollout each."""
        return [line["reward"] for line in self.lines]

    def component(self, name: str) -> list[float | None]:
        """Return one component of all lines that hold one rollout each."""
        return [line["genrm"]["components"][name] for line in self.lines]

    @property
    def reasons(self) -> list[str | None]:
        """Why rollouts have no reward, as codes."""
        return [line["genrm"]["reason"] for line in self.lines]

    @property
    def reason_texts(self) -> list[str | None]:
        """Why rollouts have no reward, as sentences."""
        return [line["genrm"]["reason_text"] for line in self.lines]


def settings_of(toml: str, **given: Any) -> Settings:
    """Return the settings of a settings file with this text, and of some flags."""
    return resolve_settings(QUICK | given, {}, SettingsFile("genrm.toml", tomllib.loads(toml)))[0]


def score(folder: Path, lines: list[Json], toml: str, **given: Any) -> Scored:
    """Score lines under a settings file; keys are given by the names of who is asked."""
    keys = given.pop("api_keys", {})
    return score_with(folder, lines, settings_of(toml, **given), keys)


def score_with(
    folder: Path, lines: list[Json], settings: Settings, keys: Mapping[str, str] | None = None
) -> Scored:
    """Score lines as `in.jsonl` of a folder."""
    path = folder / "in.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = run_to_end(score_inputs([str(path)], new_run(settings, keys or {}))).last
    assert result is not None
    assert result.record is not None, result.reason
    outputs = (read_lines(folder / f"in.{kind}.jsonl") for kind in ("scored", "comparisons"))
    return Scored(to_json(result.record), *outputs, result.exit_code)


def completions(*texts: str | None, prompt: str = "Why?", **more: list[Any]) -> list[Json]:
    """Make one group of completions; of each further field, every line gets its own value."""
    lines = [{"prompt": prompt, "completion": text} for text in texts]
    return [
        line | {name: values[place] for name, values in more.items()}
        for place, line in enumerate(lines)
    ]
