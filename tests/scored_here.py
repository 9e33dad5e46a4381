"""Score lines under a settings file, within this process, and look at what became of them."""

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from genrm_process import Json, read_lines
from judge_server_fixture import JudgeServer
from scored_lines import write_lines

from genrm_cli.cli.options import run_to_end
from genrm_cli.errors import UsageError
from genrm_cli.jobs.context import new_run
from genrm_cli.jobs.input_batch import score_inputs
from genrm_cli.jobs.previews.preview import Preview, iter_dry_run
from genrm_cli.scored.json_form import to_json
from genrm_cli.settings import Settings
from genrm_cli.settings.resolve import resolve_settings
from genrm_cli.settings.sources.settings_file import SettingsFile

Keys = Mapping[str, str] | None
LEXICAL = "judge = 'lexical'\n"
QUICK: dict[str, Any] = {"probe": False, "retries": 0, "concurrency": "2", "force": True}


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
    def advantages(self) -> list[float | None]:
        """The advantages of lines that hold one rollout each."""
        return [line["genrm"]["advantage"] for line in self.lines]

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


def score_in(folder: Path, lines: list[Json], toml: str, **given: Any) -> Scored:
    """Score lines as `in.jsonl` of a folder, under a settings file and flags; keys are given by the
    names of who is asked.
    """
    keys = given.pop("api_keys", {})
    write_lines(folder / "in.jsonl", lines)
    result = run(folder, settings_of(toml, **given), keys)
    assert result.record is not None, result.reason
    outputs = (read_lines(folder / f"in.{kind}.jsonl") for kind in ("scored", "comparisons"))
    return Scored(to_json(result.record), *outputs, result.exit_code)


def run(folder: Path, settings: Settings, keys: Keys = None) -> Any:
    """Score `in.jsonl` of a folder if it is due; its result."""
    result = run_to_end(
        score_inputs([str(folder / "in.jsonl")], new_run(settings, keys or {}))
    ).last
    assert result is not None
    return result


def dry_run(folder: Path, toml: str, **given: Any) -> Preview:
    """Say what a run over `in.jsonl` of a folder would do."""
    run = new_run(settings_of(toml, **given), {})
    ((_, preview),) = iter_dry_run([str(folder / "in.jsonl")], run)
    assert preview is not None
    return preview


def refusals(cases: Iterable[tuple[str, str]], check: Callable[[Settings], object]) -> None:
    """Check that the settings of each text are refused, and that the message says something."""
    for toml, says in cases:
        with pytest.raises(UsageError, match=re.escape(says)):
            check(settings_of(toml))


def completions(*texts: str | None, prompt: str = "Why?", **more: list[Any]) -> list[Json]:
    """Make one group of completions; of each further field, every line gets its own value."""
    lines = [{"prompt": prompt, "completion": text} for text in texts]
    return [
        line | {name: values[place] for name, values in more.items()}
        for place, line in enumerate(lines)
    ]


def said(*texts: str) -> list[Json]:
    """Make the items of a message for each text, as the Responses API has them."""
    return [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
        for text in texts
    ]


def gym_line(output: list[Json], given: Any = "Why?", task: int = 0, **more: Any) -> Json:
    """Make a line of NeMo Gym with these items; a further field of None is left out."""
    return {
        "_ng_task_index": task,
        "responses_create_params": {"input": given},
        "response": {"output": output},
        **{name: value for name, value in more.items() if value is not None},
    }


@pytest.fixture
def score(tmp_path: Path) -> Callable[..., Scored]:
    """Give a test what scores lines under the text of a settings file, and flags."""
    return partial(score_in, tmp_path)


@pytest.fixture
def judged(score: Callable[..., Scored], judge_server: JudgeServer) -> Callable[..., Scored]:
    """Give a test the same with the judge of the tests."""

    def judged(lines: list[Json], toml: str = "", **flags: Any) -> Scored:
        return score(lines, judge(judge_server) + toml, **flags)

    return judged
