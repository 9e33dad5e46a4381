"""What happens in a run, told to a person as it happens and, with `--log-json`, to a log."""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self, TextIO

from genrm_cli.cli.console import say, say_error, say_warning
from genrm_cli.errors import StorageError


class Events:
    """Takes events from a run; may be called from several threads."""

    def __init__(self, log_path: str | None, *, quiet: bool, unsaid: Iterable[str] = ()) -> None:
        """Open the log, if one is wanted.

        Args:
            log_path: where it lies.
            quiet: say nothing but what makes a run end in error.
            unsaid: events that only the log is told.

        Raises:
            StorageError: it cannot be opened.
        """
        self._quiet = quiet
        self._unsaid = set(unsaid)
        self._lock = threading.Lock()
        self._log: TextIO | None = None
        if log_path is not None:
            try:
                self._log = open(log_path, "a", encoding="utf-8")  # noqa: SIM115, PTH123  (closed by __exit__)
            except OSError as error:
                raise StorageError(f"--log-json {log_path}: cannot be opened: {error.strerror}.") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self("end", {"error": None if error is None else f"{type(error).__name__}: {error}"})
        if self._log is not None:
            self._log.close()

    def __call__(self, event: str, fields: dict[str, Any]) -> None:
        """Tell what happened."""
        wanted = not self._quiet or fields.get("exit_code", 0) != 0
        if wanted and event not in self._unsaid and (tell := _SAID.get(event)) is not None:
            if event in _SAID_ONCE:
                self._unsaid.add(event)
            tell(fields)
        with self._lock:
            self._write({"time": round(time.time(), 3), "event": event, **fields})

    def _write(self, line: dict[str, Any]) -> None:
        """Write a line; a log that cannot be written is no reason to lose the run."""
        if self._log is None:
            return
        try:
            self._log.write(json.dumps(line, default=str) + "\n")
            self._log.flush()
        except OSError as error:
            say_warning(f"--log-json {self._log.name}: {error.strerror}; no more events are written to it.")
            with contextlib.suppress(OSError):  # it tries once more to write
                self._log.close()
            self._log = None


def plan_text(plan: dict[str, Any]) -> str:
    """Say what a run has before it."""
    known = f", {plan['known']:,} of them in the journal" if plan["known"] else ""
    cost = f", cost about {plan['cost']:,.2f}" if plan["cost"] is not None else ""
    return (
        f"{plan['planned']:,} comparisons{known}: {plan['calls']:,} calls to make, about {plan['tokens_in']:,} "
        f"tokens in and {plan['tokens_out']:,} out (estimated from {plan['tokens_from']}){cost}"
    )


def _say_probe(fields: dict[str, Any]) -> None:
    if fields["warning"]:
        say_warning(fields["warning"])


def file_text(result: dict[str, Any]) -> str:
    """Say in one line what became of an input, whatever characters its name has."""
    place = f" -> {result['output']}" if result["status"] in ("score", "scored") else ""
    code = f"; exit {result['exit_code']}" if result["status"] == "scored" and result["exit_code"] else ""
    text = f"{result['status']}: {result['input']}{place}: {result['reason']}{code}"
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _say_file(result: dict[str, Any]) -> None:
    if result["status"] == "failed":
        say_error(file_text(result))
    elif result["status"] != "up to date":
        say(file_text(result))


_SAID_ONCE = {"claims_uncertain", "claim_left"}
_SAID: dict[str, Callable[[dict[str, Any]], None]] = {
    "plan": lambda fields: say(plan_text(fields)),
    "probe": _say_probe,
    "endpoint_down": lambda fields: say_warning(f"{fields['endpoint']} is taken out: {fields['detail']}"),
    "endpoint_up": lambda fields: say(f"{fields['endpoint']} is back"),
    "paused": lambda fields: say_warning(
        f"the judge is down ({fields['detail']}); giving up if it is not back in {fields['give_up_after_s']:g} s"
    ),
    "file": _say_file,
    "claims_uncertain": lambda fields: say_warning(
        f"the store of {fields['output']} does not honour conditional puts (If-None-Match), so claims are not certain: "
        "each is written and counts if it is still there two seconds later. Do not start two runs at the same moment."
    ),
    "claim_left": lambda fields: say_warning(
        f"a claim cannot be given up ({fields['detail']}); it stays until it expires. The role needs s3:DeleteObject "
        "for *.claim-* objects."
    ),
    "large_group": lambda fields: say_warning(
        f"{fields['input']}: one group needs {fields['comparisons']:,} comparisons; consider --strategy ring, "
        "a smaller --ring-k or --budget"
    ),
    "nothing_found": lambda fields: say_warning(
        f"{fields['input']}: no rollout files; expected names such as run.jsonl or run.jsonl.gz."
    ),
    "copy_failing": lambda fields: say_warning(
        f"verdicts cannot be copied to {fields['folder']} at the moment ({fields['detail']}); they are kept here, and "
        "copied when it works again"
    ),
    "stopped": lambda fields: say_warning(
        f"stopped by --{fields['reason'].replace('_', '-')}: no more calls, partial results will be written"
    ),
}
