"""Score one input again and again, and kill the run before each of its steps in turn.

`python kill_steps.py ROOT EARLIER` scores `ROOT/<step>/in.jsonl` with the offline judge, and
kills the process before that many changes of files below ROOT, or requests that change objects of
S3. It prints a line of JSON for each step: what the killed run left, and how the next run ended.
EARLIER `yes` lets outputs of other settings exist before. Steps are seen by Python's audit hooks,
so that the program needs no hooks of its own; forks save the time to import it."""

import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from genrm_here import call_here
from genrm_process import make_rollouts

from genrm_cli.storage.s3 import upload as _upload  # noqa: F401  (imported once, in the parent)
from genrm_cli.storage.store import Store

STORE = Store()
_CHANGES = (
    "os.link",
    "os.rename",
    "os.remove",
    "os.mkdir",
)
_REQUESTS = (b"PUT", b"POST", b"DELETE")
_BODY = "".join(json.dumps(line) + "\n" for line in make_rollouts(groups=1)).encode()


def kill_before(step: int, root: str) -> None:
    """Kill this process before its nth change below a folder or of an object."""
    steps = count(1)

    def on_event(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            is_step = str(arguments[0]).startswith(root) and bool(arguments[2] & os.O_CREAT)
        elif event == "http.client.send":
            is_step = bytes(arguments[1])[:8].split(b" ")[0] in _REQUESTS
        else:
            is_step = event in _CHANGES and any(str(one).startswith(root) for one in arguments)
        if is_step and next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(on_event)


def in_child(work: Callable[[], int]) -> int:
    """Do something in a process of its own; return its exit code, negative if it was killed."""
    pid = os.fork()
    if not pid:
        os._exit(work())
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def score(uri: str, *more: str) -> int:
    """Score the input and return the exit code."""
    finished = call_here(("score", uri, "--judge", "lexical", *more), dict(os.environ))
    sys.stderr.write(finished.err)
    sys.stderr.flush()
    return finished.code


def prepare(uri: str, *, has_earlier: bool) -> int:
    """Make the input, and outputs of other settings."""
    STORE.at(uri).replace(_BODY)
    return score(uri, "--unscored", "drop") if has_earlier else 0


def look(uri: str) -> dict[str, str]:
    """Return what lies beside the input, by name."""
    folder = uri.removesuffix("in.jsonl")
    if uri.startswith("s3:"):
        names = {each.identity.uri.removeprefix(folder) for each in STORE.at(folder).iter_named()}
    else:
        names = set(os.listdir(folder))
    return {
        name: (STORE.at(folder + name).read() or b"").decode()
        for name in sorted(names - {"in.jsonl"})
    }


def look_in_child(uri: str) -> object:
    """Do the same in a process of its own: connections to S3 do not survive a fork."""
    path = Path(tempfile.gettempdir()) / "looked.json"
    in_child(lambda: path.write_text(json.dumps(look(uri))) and 0)
    return json.loads(path.read_text())


def run_step(uri: str, step: int, *, has_earlier: bool) -> dict[str, Any]:
    """Kill a run at a step, and run again."""

    def killed() -> int:
        kill_before(step, uri.removesuffix("in.jsonl"))
        return score(uri)

    codes = [in_child(lambda: prepare(uri, has_earlier=has_earlier)), in_child(killed)]
    left = look_in_child(uri)
    codes.append(in_child(lambda: score(uri)))
    return {
        "codes": codes,
        "left": left,
        "after": look_in_child(uri),
    }


def main(root: str, earlier: str) -> None:
    """Kill at each step until there are no more."""
    with tempfile.TemporaryDirectory() as scratch:  # imports what the children need
        prepare(f"{scratch}/in.jsonl", has_earlier=True)
    for step in count(1):
        found = run_step(f"{root}/{step}/in.jsonl", step, has_earlier=earlier == "yes")
        print(json.dumps(found), flush=True)
        if found["codes"][1] >= 0:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
