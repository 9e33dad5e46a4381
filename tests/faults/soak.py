"""Kill runners at random moments, again and again, while they score dumps that keep coming.

`GENRM_SOAK_KILLS=100` kills as often in each test; the moments differ from run to run."""

import os
import random
import re
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
from forked_genrm import ForkedGenrm
from genrm_here import call_here
from genrm_process import Finished, Genrm, Json
from judge_server_fixture import JudgeServer
from s3_cron import Cron, finish, is_dump, outputs_of, some_rollouts

KILLS = int(os.environ.get("GENRM_SOAK_KILLS", "12"))
DUE = 6  # dumps that wait at any time, so that no runner runs out of work


class DumpFolder:
    """A folder of dumps, and how to score it."""

    def __init__(self, folder: Path, judge: JudgeServer) -> None:
        folder.mkdir()
        self.judge = judge
        self._genrm = Genrm(folder)

    def put(self, name: str, lines: list[Json]) -> None:
        """Move a dump into the folder, whole."""
        self._genrm.write(f"{name}.tmp", lines).rename(self._genrm.folder / name)

    def stored(self) -> dict[str, bytes]:
        """Return all that is in the folder, except dumps."""
        names = (name for name in self._genrm.names() if not is_dump(name))
        return {name: (self._genrm.folder / name).read_bytes() for name in names}

    def start(self, *more: object) -> ForkedGenrm:
        """Start a runner."""
        return ForkedGenrm(self._arguments(*more), self._genrm.folder, self._genrm.environment())

    def run(self, *more: object) -> Finished:
        """Score to the end, within this process."""
        return call_here(self._arguments(*more), {})

    def _arguments(self, *more: object) -> tuple[object, ...]:
        judge = (*self.judge.flags, "--no-probe", "--min-age", "0s")
        return ("score", self._genrm.folder, *judge, *more)


class Soak:
    """Dumps of up to `largest` groups, and all that was ever seen of their outputs.

    Attributes:
        seen: every content that each output had when somebody looked.
    """

    def __init__(
        self,
        store: DumpFolder | Cron,
        start: Callable[[], ForkedGenrm],
        judge: JudgeServer,
        rng: random.Random,
        *,
        largest: int = 6,
    ) -> None:
        self._largest = largest
        self.seen: dict[str, set[bytes]] = defaultdict(set)
        self._dumps: dict[str, list[Json]] = {}
        self._store = store
        self._start = start
        self._judge = judge
        self._rng = rng

    @property
    def comparisons(self) -> int:
        """How many comparisons the dumps so far need: by default a group has as many as
        rollouts.
        """
        return sum(map(len, self._dumps.values()))

    def kills(self, count: int, runners: int) -> Iterator[None]:
        """Let so many runners work, and kill a random one so often; yield after each kill."""
        running: list[ForkedGenrm] = []
        killed = 0
        try:
            while killed < count:
                self._feed()
                running = [process for process in running if _goes_on(process)]
                running += [self._start() for _ in range(runners - len(running))]
                self._wait_for_a_moment(running)
                victim = running.pop(self._rng.randrange(len(running)))
                victim.kill()
                if _was_killed(victim):
                    killed += 1
                    yield
        finally:
            for process in running:
                process.kill()
                process.communicate()

    def outputs(self) -> set[str]:
        """Name the outputs of all dumps."""
        return set().union(*map(outputs_of, self._dumps))

    def look(self) -> set[str]:
        """Return the names of what is stored now; the scored lines appear last, after all other
        outputs.
        """
        stored = self._store.stored()
        for name in self.outputs() & set(stored):
            self.seen[name].add(stored[name])
            stem, _, kind = name.partition(".")
            assert kind != "scored.jsonl" or outputs_of(stem) <= set(stored)
        # A run that was killed after its outputs appeared leaves its lease and its mark.
        return {name for name in stored if ".lease-" not in name and ".commit" not in name}

    def check_undisturbed(self, folder: Path) -> None:
        """Hold all contents that were ever seen against those of one undisturbed run in an empty
        folder.
        """
        calm = DumpFolder(folder, self._judge)
        for stem, lines in self._dumps.items():
            calm.put(f"{stem}.jsonl", lines)
        finished = calm.run()
        assert finished.code == 0, finished.err
        expected = calm.stored()
        for name, contents in self.seen.items():
            stem, _, kind = name.partition(".")
            for content in contents:
                if kind == "metrics.json":
                    metrics = orjson.loads(content)
                    planned = len(self._dumps[stem])
                    assert (
                        metrics["verdicts"] + metrics["journal_hits"]
                        == metrics["comparisons_planned"]
                        == planned
                    )
                else:
                    assert _without_latencies(content) == _without_latencies(expected[name]), name

    def _feed(self) -> None:
        """Add dumps until enough are due."""
        due = {f"{stem}.scored.jsonl" for stem in self._dumps} - self.look()
        for number in range(len(self._dumps), len(self._dumps) + DUE - len(due)):
            stem = f"run-{number:03}"
            lines = some_rollouts(number, groups=self._rng.randint(1, self._largest))
            self._store.put(f"{stem}.jsonl", lines)
            self._dumps[stem] = lines

    def _wait_for_a_moment(self, running: list[ForkedGenrm]) -> None:
        """Wait for a part of a start, or for some calls and a part of what follows them."""
        if self._rng.random() < 0.25:
            time.sleep(self._rng.uniform(0.0, 0.6))
            return
        enough = self._judge.stats()["requests"] + self._rng.randint(1, 25)
        while self._judge.stats()["requests"] < enough and all(
            process.poll() is None for process in running
        ):
            time.sleep(0.01)
        time.sleep(self._rng.uniform(0.0, 0.05))


def _was_killed(process: ForkedGenrm) -> bool:
    """Wait for a process that ends, killed or because it found nothing more to do; return whether
    it was killed.
    """
    ended = finish(process)
    assert ended.code in (0, -signal.SIGKILL), ended.err
    return ended.code != 0


def _goes_on(process: ForkedGenrm) -> bool:
    return process.poll() is None or _was_killed(process)


def _without_latencies(lines: bytes) -> bytes:
    return re.sub(rb'"latency_s":[^,]*', b"", lines)
