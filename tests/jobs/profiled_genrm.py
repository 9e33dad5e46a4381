"""Run `genrm` under a profiler; the first argument is the file that gets the result, as JSON."""

import asyncio
import json
import os
import sys
import threading
from collections.abc import Coroutine
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NoReturn

import genrm_cli

ROOT = f"{Path(genrm_cli.__file__).parent}{os.sep}"
CLIENT, CALL = (
    "judging/client.py",
    "_send",
)  # the module of the HTTP client, and its function that makes a call
COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")

files: list[str] = []  # of our functions, in the order in which they are called
deepest: list[str] = []  # frames at the HTTP call
after_reply = 0  # index in `files` of the last reply
chains: dict[int, list[str]] = {}  # frames that led to each task, by its id
tasks: list[object] = []  # kept, so that ids stay unique


def own_file(code: CodeType) -> str | None:
    """Return the file of a function of ours, relative to the package; None for others and
    comprehensions.
    """
    if code.co_filename.startswith(ROOT) and code.co_name not in COMPREHENSIONS:
        return code.co_filename.removeprefix(ROOT)
    return None


def chain_of(frame: FrameType | None) -> list[str]:
    """Return our frames that led to this one, through all tasks that started one another."""
    inner: list[str] = []
    task = _current_task()
    while frame is not None:
        code = frame.f_code
        if (
            task is not None
            and code.co_name == "_run"
            and code.co_filename.endswith("asyncio/events.py")
        ):
            return chains.get(id(task), []) + inner[::-1]
        if (name := own_file(code)) is not None:
            inner.append(f"{name} {code.co_name}")
        frame = frame.f_back
    return inner[::-1]


def _current_task() -> object:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def profile(frame: FrameType, event: str, _: object) -> None:
    """Note calls of our functions."""
    global deepest, after_reply
    if event != "call" or (name := own_file(frame.f_code)) is None:
        return
    if name == CLIENT and frame.f_code.co_name == CALL:  # called, or resumed with the reply
        after_reply = len(files)
        deepest = max(deepest, chain_of(frame), key=len)
    files.append(name)


create_task = asyncio.BaseEventLoop.create_task


def noting_create_task(
    loop: asyncio.BaseEventLoop, work: Coroutine[Any, Any, Any], **options: Any
) -> "asyncio.Task[Any]":
    """Create a task and note what led to it."""
    task = create_task(loop, work, **options)
    chains[id(task)] = chain_of(sys._getframe(1))
    tasks.append(task)
    return task


def exit_with_result(code: int) -> NoReturn:
    """Write the result, and end the process as `main` does."""
    sys.setprofile(None)
    after = files[after_reply:]
    changes = sum(before != now for before, now in pairwise(after))
    RESULT.write_text(json.dumps({"frames": deepest, "changes": changes}))
    end(code)


end = os._exit

if __name__ == "__main__":
    from genrm_cli.cli.app import main

    RESULT = Path(sys.argv.pop(1))
    asyncio.BaseEventLoop.create_task = noting_create_task  # type: ignore[method-assign,assignment]
    os._exit = exit_with_result  # type: ignore[assignment]
    threading.setprofile(profile)
    sys.setprofile(profile)
    main()
