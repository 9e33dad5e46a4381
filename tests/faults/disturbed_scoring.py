"""A run of `genrm score` that something happens to: start it, hold it to its word, score again and
compare.
"""

import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from genrm_here import call_here
from genrm_process import Finished, Genrm, Json, read_lines
from judge_behaviour import choose_verdict
from judge_server_fixture import JudgeServer

MODEL = "m"
JOURNAL = "in.journal.sqlite"
OUTPUTS = {"in.scored.jsonl", "in.comparisons.jsonl", "in.metrics.json"}


class Scoring:
    """One input in a folder of its own, scored as often as a test likes, with the journal beside
    it.
    """

    def __init__(
        self, genrm: Genrm, server: JudgeServer, lines: list[Json], undisturbed: bytes = b""
    ) -> None:
        self.genrm = genrm
        self.server = server
        self.lines = lines
        self.planned = len(lines)  # by default a group has as many comparisons as rollouts
        self._undisturbed = undisturbed
        genrm.write("in.jsonl", lines)

    def arguments(self, *more: object) -> tuple[object, ...]:
        """Return the command line; of an option given twice, the later one counts (but --base-url
        adds up).
        """
        judge = (*self.server.flags, "--profile", "nemotron", "--no-probe", "--concurrency", 8)
        usual = ("--force", "--max-extra", 0, "--min-verdicts", 0)
        return ("score", self.folder / "in.jsonl", *judge, *usual, *more)

    def run(self, *more: object, **environment: str) -> Finished:
        """Score to the end, within this process: most faults are none of the process's."""
        return call_here(self.arguments(*more), environment)

    def start(self, *more: object) -> subprocess.Popen[bytes]:
        """Begin to score, in a process of its own."""
        return self.genrm.start(*self.arguments(*more))

    @property
    def folder(self) -> Path:
        """Where everything lies."""
        return self.genrm.folder

    @property
    def scored(self) -> bytes:
        """The scored lines."""
        return (self.folder / "in.scored.jsonl").read_bytes()

    def check_honest(self) -> Json:
        """Hold the outputs to their word and return the metrics.

        Every planned comparison is a verdict, a journal hit or a failure; every verdict is the one
        that the judge gives on these two texts; no failure has a score, and nothing but failures
        leaves a rollout unscored."""
        metrics = self.genrm.metrics()
        assert metrics["comparisons_planned"] == self.planned
        assert metrics["verdicts"] + metrics["journal_hits"] + metrics["failures"] == self.planned
        assert sum(metrics["failures_by_kind"].values()) == metrics["failures"]
        scored = read_lines(self.folder / "in.scored.jsonl")
        texts = {
            (line["genrm"]["group"], line["genrm"]["index"]): line["completion"] for line in scored
        }
        records = read_lines(self.folder / "in.comparisons.jsonl")
        assert len(records) == self.planned
        assert sum(record["failure"] is not None for record in records) == metrics["failures"]
        for record in records:
            numbers = record["score_1"], record["score_2"], record["ranking"]
            pair = texts[record["group"], record["i"]], texts[record["group"], record["j"]]
            assert numbers == (
                (None,) * 3 if record["failure"] else choose_verdict("by_length", [], pair)
            )
        for line in scored:
            assert line["genrm"]["comparisons"] + line["genrm"]["failed"] == 2
            assert (line["reward"] is None) == (line["genrm"]["comparisons"] == 0)
        return metrics

    def check_resumes(self, *more: object, missing: int | None = None) -> None:
        """Score again with a healthy judge: it asks what is missing and no more, and nobody can
        tell the difference.

        Args:
            more: further arguments.
            missing: how many comparisons are not in the journal; told when it holds other judges'
                verdicts, too.
        """
        if missing is None:
            missing = self.planned - self.journaled()
        self.server.reset()
        finished = self.run(*more)
        assert finished.code == 0, finished.err
        assert self.server.stats()["requests"] == missing
        metrics = self.check_honest()
        assert metrics["verdicts"] == missing
        assert metrics["failures"] == 0
        assert metrics["journal_hits"] == self.planned - missing
        assert not metrics["partial"]
        self.check_undisturbed()

    def check_undisturbed(self) -> None:
        """Hold the scored lines against those of a run that nothing happened to, byte by byte."""
        assert self.scored == self._undisturbed

    def journaled(self) -> int:
        """Count the verdicts in the journal."""
        return count_verdicts(self.folder / JOURNAL)


def count_verdicts(journal: Path) -> int:
    """Count the verdicts in a journal, read from a copy: looking must not repair what a killed run
    left.
    """
    with tempfile.TemporaryDirectory() as elsewhere:
        for path in journal.parent.glob(f"{journal.name}*"):
            shutil.copy(path, elsewhere)
        if not (Path(elsewhere) / journal.name).exists():
            return 0
        with closing(sqlite3.connect(Path(elsewhere) / journal.name)) as copy:
            if not copy.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                return 0  # killed before the tables were made
            counted = "SELECT count(*) FROM entries WHERE kind = 'verdict'"
            return int(copy.execute(counted).fetchone()[0])


MakeScoring = Callable[..., Scoring]
