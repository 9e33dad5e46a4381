"""Run the command in forks of a process that has imported it: for soaks, which start it hundreds of
times.
"""

import faulthandler
import multiprocessing
import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "genrm_cli.cli.app",
        "genrm_cli.cli.scoring.score",
        "genrm_cli.products.serve.run",
        "genrm_cli.jobs.input_batch",
        "genrm_cli.storage.s3.upload",
    ]
)


class ForkedGenrm:
    """A run of the command, with what a soak needs of `subprocess.Popen`."""

    def __init__(
        self, arguments: Sequence[object], folder: Path, environment: Mapping[str, str]
    ) -> None:
        self._printed = tempfile.NamedTemporaryFile(prefix="genrm-")  # noqa: SIM115
        words = tuple(map(str, arguments))
        self._process = _CONTEXT.Process(
            target=_run,
            args=(
                words,
                folder,
                dict(environment),
                self._printed.name,
            ),
        )
        self._process.start()

    @property
    def returncode(self) -> int | None:
        """The exit code, negative if it was killed; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return the exit code; None while it runs."""
        return self.returncode

    def terminate(self) -> None:
        """Ask it to end, as a supervisor would."""
        self._process.terminate()

    def kill(self) -> None:
        """Kill it, as a machine that vanishes."""
        self._process.kill()

    def communicate(self, timeout: float | None = None) -> tuple[bytes, bytes]:
        """Wait for its end; return nothing and all that it has printed."""
        self._process.join(timeout)
        assert self.returncode is not None, "the run goes on and on"
        return b"", Path(self._printed.name).read_bytes()


def _run(words: tuple[str, ...], folder: Path, environment: dict[str, str], printed: str) -> None:
    from genrm_cli.cli.app import main

    # Not what `nohup` or a background job has made the parent ignore.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    file = os.open(printed, os.O_WRONLY | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    faulthandler.enable()  # native code that crashes says where
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    warnings.simplefilter("error")
    sys.argv = ["genrm", *words]
    main()
