"""Run the command as cron would: a process of its own, no terminal, an environment with next to
nothing in it.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from processes import start_process

import genrm_cli

Json = dict[str, Any]

PACKAGE_ROOT = Path(genrm_cli.__file__).parents[1]
SAMPLE_DATA = Path(__file__).parents[1] / "sample_data"
COMMAND = (
    sys.executable,
    "-W",
    "error",
    "-m",
    "genrm_cli",
)
LIMIT_S = 60


class Finished(NamedTuple):
    """A process that has ended."""

    code: int
    out: bytes
    err: str

    @property
    def last(self) -> str:
        """The last line on stderr, which a log is searched for."""
        return self.err.splitlines()[-1]

    def ended(self, code: int) -> "Finished":
        """Check its exit code; a failure shows what it said."""
        assert self.code == code, self.err
        return self


Call = Callable[..., Finished]


def words_of(arguments: Sequence[object]) -> list[str]:
    """Return the words of a command: those of its first argument, a line of words, and the others
    as they are.
    """
    line, *words = map(str, arguments or [""])
    return [*line.split(), *words]


class Genrm:
    """The command, run in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state_folder = folder.with_name(f"{folder.name}-state")
        self.config_folder = folder.with_name(f"{folder.name}-config")

    def environment(self, **more: str) -> dict[str, str]:
        """Return what cron sets, places for state and configuration, and what a test adds to it."""
        places = {
            "HOME": str(self.folder),
            "XDG_STATE_HOME": str(self.state_folder),
        }
        places["XDG_CONFIG_HOME"] = str(self.config_folder)
        # These choose the arithmetic of OpenBLAS and numpy: rewards of a command and of the test's
        # own process agree to the last digit.
        kernels = {
            name: value
            for name, value in os.environ.items()
            if name.startswith(("OPENBLAS_", "NPY_"))
        }
        return {
            "PATH": os.defpath,
            "PYTHONPATH": str(PACKAGE_ROOT),
            **places,
            **kernels,
            **more,
        }

    def run(self, *arguments: object, stdin: bytes = b"", **environment: str) -> Finished:
        """Run to the end. A traceback, or a warning of Python's, is a failed test whatever else
        happens.
        """
        process = subprocess.run(
            [*COMMAND, *words_of(arguments)],
            input=stdin,
            capture_output=True,
            cwd=self.folder,
            env=self.environment(**environment),
            timeout=LIMIT_S,
            check=False,
        )
        err = process.stderr.decode()
        assert "Traceback" not in err, err
        assert "Exception ignored" not in err, err
        return Finished(process.returncode, process.stdout, err)

    def start(self, *arguments: object, **environment: str) -> subprocess.Popen[bytes]:
        """Start the command and leave it running."""
        return start_process(
            [*COMMAND, *words_of(arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.folder,
            env=self.environment(**environment),
        )

    def sample(self, name: str) -> Path:
        """Copy one of the sample files into the folder."""
        copy = self.folder / name
        copy.write_bytes((SAMPLE_DATA / name).read_bytes())
        return copy

    def write(self, name: str, records: list[Json]) -> Path:
        """Write a JSONL file into the folder."""
        path = self.folder / name
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        return path

    def rollouts(self, groups: int = 2, size: int = 4, name: str = "in.jsonl") -> Path:
        """Write groups of completions into the folder."""
        return self.write(name, make_rollouts(groups, size))

    def text(self, name: str) -> str:
        """Read a file."""
        return (self.folder / name).read_text(encoding="utf-8")

    def json(self, name: str) -> Json:
        """Read a JSON object."""
        found: Json = json.loads(self.text(name))
        return found

    def lines(self, name: str = "in.scored.jsonl") -> list[Json]:
        """Read a JSONL file."""
        return read_lines(self.folder / name)

    def metrics(self, stem: str = "in") -> Json:
        """Read the metrics of an input."""
        return self.json(f"{stem}.metrics.json")

    def names(self) -> set[str]:
        """Name all that is in the folder, hidden files included."""
        return set(os.listdir(self.folder))


def read_lines(path: Path) -> list[Json]:
    """Read a JSONL file."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def make_rollouts(groups: int = 2, size: int = 4) -> list[Json]:
    """Make groups of completions; each is more than twice as long as the one before."""
    places = [(group, place) for group in range(groups) for place in range(size)]
    return [
        {
            "prompt": f"Question {group}?",
            "completion": f"Answer {group}:" + " word" * 4**place,
            "id": number,
        }
        for number, (group, place) in enumerate(places)
    ]


def without_rewards(record: Json) -> Json:
    """Return a line as it was before it was scored, as far as a line tells."""
    return {
        name: value for name, value in record.items() if name not in ("reward", "rewards", "genrm")
    }
