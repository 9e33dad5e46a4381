"""Events of a run, printed to stderr as they happen and, with `--log-json`, appended to a log."""

import contextlib
import json
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Self, TextIO

from genrm_cli.cli.console import counted, say, say_error, say_warning, showing_progress, text_of
from genrm_cli.errors import JUDGE_WARNINGS, Message, SettingRef, StorageError
from genrm_cli.json_types import JsonObject
from genrm_cli.metrics.progress import RunProgress
from genrm_cli.settings import Settings

STATUS_TEXTS = {"waits": "skipped", "score": "to score"}
"""Statuses of inputs that are displayed by another word. An input that waits for the next run shows
as skipped.
"""

_MADE = ("scored", "up to date")
_MINUTE_S = 60
_HOUR_S = 3_600


class Events:
    """Print and log the events of a run; safe to call from several threads."""

    def __init__(self, log_path: str | None, *, quiet: bool, log_only: Iterable[str] = ()) -> None:
        """Open the log, if any. With `quiet`, print errors only; events in `log_only` are only
        logged.
        """
        self._quiet = quiet
        self._log_only = set(log_only)
        self._lock = threading.Lock()
        self._log: TextIO | None = None
        if log_path is not None:
            try:
                self._log = open(log_path, "a", encoding="utf-8")  # noqa: SIM115, PTH123  (closed by __exit__)
            except OSError as error:
                raise StorageError(
                    f"--log-json {log_path}: cannot be opened: {error.strerror}."
                ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self(
            "end", {"error": None if error is None else f"{type(error).__name__}: {text_of(error)}"}
        )
        if self._log is not None:
            self._log.close()

    def __call__(self, event: str, fields: JsonObject) -> None:
        """Print and log an event."""
        wanted = not self._quiet or fields.get("exit_code", 0) != 0
        if wanted and event not in self._log_only and (tell := _SAID.get(event)) is not None:
            if event in _SAID_ONCE:
                self._log_only.add(event)
            tell(fields)
        with self._lock:
            if self._log is None:
                return
            try:
                self._log.write(
                    json.dumps(
                        {"time": round(time.time(), 3), "event": event, **fields}, default=str
                    )
                    + "\n"
                )
                self._log.flush()
            except OSError as error:  # the run goes on without a log
                say_warning(
                    f"--log-json {self._log.name}: {error.strerror}; no more events are written "
                    "to it."
                )
                with contextlib.suppress(OSError):  # closing flushes again
                    self._log.close()
                self._log = None


@contextlib.contextmanager
def watched(settings: Settings) -> Iterator[tuple[RunProgress, Events]]:
    """Print and log the events and the progress of a run."""
    progress = RunProgress()
    quiet = settings.output.quiet
    log_only = ("judge",) if settings.output.json_output else ()  # the result of `eval` names it
    with (
        Events(settings.output.log_json, quiet=quiet, log_only=log_only) as events,
        showing_progress(progress, events, quiet=quiet),
    ):
        yield progress, events


_WHY_PROFILE = {
    "setting": "set",
    "model name": "by model name",
    "compat": "as in NeMo Gym",
    "default": "default",
    "probe": "by probe",
}


def judge_text(judge: JsonObject) -> str:
    """Describe the judge in one line: its name, its profile and how that was chosen, its endpoints,
    the slower HTTP client if it is used, its probe.
    """
    if judge["profile"] is None:
        return f"{judge['name']}, the built-in baseline"
    why = _WHY_PROFILE[judge["profile_from"]]
    profile = f"profile {judge['profile'].partition('+')[0]} ({why})"
    probe = "" if (result := judge.get("probe")) in (None, "passed") else f"probe {result}"
    client = "over httpx" if "httpx" in judge.get("http_clients", ()) else ""
    parts = (judge["name"], profile, " ".join(judge["base_urls"]), client, probe)
    return ", ".join(filter(None, parts))


def plan_text(plan: JsonObject) -> str:
    """Return the planned comparisons, calls, tokens, cost and time of a run in one line."""
    known = f", {plan['known']:,} of them answered in an earlier run" if plan["known"] else ""
    cost = f", cost about {plan['cost']:,.2f}" if plan["cost"] is not None else ""
    time = f", about {duration_text(plan['time_s'])}" if plan["time_s"] else ""
    made = (
        f"{counted(plan['planned'], 'comparison')}{known}: {counted(plan['calls'], 'call')} to make"
    )
    if not plan["calls"]:
        return made
    return (
        f"{made}, about {plan['tokens_in']:,} tokens in and {plan['tokens_out']:,} out (estimated "
        f"from {plan['tokens_from']}){cost}{time}"
    )


def forecast_text(plan: JsonObject) -> str:
    """Return the prompts and policies of a ranking, and the smallest difference that it can show,
    in one line.
    """
    from genrm_cli.ranking.looks import LEAST_PROMPTS

    found = plan["forecast"]
    pilot = ", a pilot that decides about the rest of the budget" if plan["is_pilot"] else ""
    shows = "they do not join all policies"
    if not plan["estimate"]["planned"]:
        shows = "no pair needs a judge"
    elif found is not None and found["smallest_difference"] is None:
        few = f"fewer than {LEAST_PROMPTS} prompts"
        shows = (
            f"{few if plan['prompts'] < LEAST_PROMPTS else 'so few comparisons'} cannot show any "
            "difference"
        )
    elif found is not None:
        shows = (
            f"shows differences from {100 * found['smallest_difference']:.1f} points of the win "
            "rate in "
            f"{100 * found['power']:.0f} % of cases (95 % interval "
            f"±{100 * found['half_width']:.1f})"
        )
    others = "".join(f"; left out: {count:,} × {what}" for what, count in plan["left_out"].items())
    policies = counted(len(plan["policies"]), "policy", "policies")
    prompts = counted(plan["prompts"], "prompt")
    return f"{policies}, {prompts}, {counted(plan['pairs'], 'pair')}{pilot}: {shows}{others}"


def duration_text(time_s: float) -> str:
    """Return a duration in the unit that suits it."""
    if time_s < _MINUTE_S:
        return f"{time_s:.1f} s"
    return f"{time_s / _MINUTE_S:.1f} min" if time_s < _HOUR_S else f"{time_s / _HOUR_S:.1f} h"


def file_text(result: JsonObject) -> str:
    """Return the result of one input in one line."""
    target = f" -> {result['output']}" if result["status"] in ("score", "scored") else ""
    code = (
        f"; exit {result['exit_code']}" if result["status"] in _MADE and result["exit_code"] else ""
    )
    files = f" ({result['files']:,} files)" if "files" in result else ""
    status = STATUS_TEXTS.get(result["status"], result["status"])
    return f"{status}: {result['input']}{files}{target}: {text_of(result['reason'])}{code}"


def next_commands(
    files: Sequence[JsonObject], rounds_left: int, arguments: Sequence[str]
) -> list[str]:
    """Return the commands that answer files of requests with vLLM and then continue the run of
    these arguments.

    vLLM reads no s3:// URIs: the AWS client copies them.
    """
    from genrm_cli.jobs.offline.request_files import replies_of

    commands = []
    given = _without_requests(arguments)
    for file in files:
        uri = file["uri"]
        model = file["model"]
        replies = replies_of(uri)
        name = uri.rpartition("/")[2]
        answered = replies.rpartition("/")[2]
        is_remote = uri.startswith("s3://")
        if is_remote:
            commands.append(["aws", "s3", "cp", uri, name])
        local = (name, answered) if is_remote else (uri, replies)
        commands.append(["vllm", "run-batch", "-i", local[0], "-o", local[1], "--model", model])
        if is_remote:
            commands.append(["aws", "s3", "cp", answered, replies])
        given += ["--replies-from", replies]
    if rounds_left:
        stem, dot, ending = files[0]["uri"].partition(".jsonl")
        base, _, number = stem.rpartition(".round")
        given += [
            "--requests-to",
            f"{base or stem}.round{int(number) + 1 if base else 2}{dot}{ending}",
        ]
    return [*map(shlex.join, commands), shlex.join(["genrm", *given])]


def _without_requests(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without `--requests-to`; earlier replies stay, since they all count."""
    kept = []
    skips = False
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        is_option = name == "--requests-to"
        if not skips and not is_option:
            kept.append(argument)
        skips = not skips and not equals and is_option
    return kept


def _say_requests(fields: JsonObject) -> None:
    files = fields["files"]
    later = fields["rounds_left"]
    if not files:
        say("no request is left to be made")
        return
    for file in files:
        say(f"requests      {file['requests']:,} to {file['model']} in {file['uri']}")
    for kind, (count, example) in fields["failures"].items():
        say(f"again         {count:,} {kind} (for example: {example})")
    if later:
        say(
            f"rounds        {counted(later, 'more round')} of requests "
            f"{'follows' if later == 1 else 'follow'}"
        )
    say("next", *(f"  {command}" for command in next_commands(files, later, sys.argv[1:])))
    named = shlex.join(["genrm", "batch", *(file["uri"] for file in files)])
    say(f"a batch API answers them, too, instead of vLLM: {named} --base-url URL")


def _say_replies(fields: JsonObject) -> None:
    say(f"replies       {fields['replies']:,} read, {fields['used']:,} to requests of this run")
    for count, places, reason in fields["refused"]:
        more = ", ..." if count > places.count(",") + 1 else ""
        say_warning(f"{counted(count, 'reply', 'replies')} refused ({places}{more}): {reason}.")


def _say_file(result: JsonObject) -> None:
    if result["status"] != "up to date" or result["exit_code"]:
        (say_error if result["status"] == "failed" else say)(file_text(result))


def _warning(template: str) -> Callable[[JsonObject], None]:
    def warn(fields: JsonObject) -> None:
        texts = {
            name: text_of(value) if isinstance(value, Message) else value
            for name, value in fields.items()
        }
        say_warning(template.format(**texts))

    return warn


_SAID_ONCE = {"deadline", "lease_left", "storage_failed"}
_SAID: dict[str, Callable[[JsonObject], None]] = {
    "judge": lambda fields: say(f"judge: {judge_text(fields)}"),
    "plan": lambda fields: say(plan_text(fields)),
    "forecast": lambda fields: say(forecast_text(fields)),
    "probing": lambda fields: say(
        f"probing {', '.join(fields['endpoints'])} (at most {fields['call_timeout_s']:g} s per "
        "call)"
    ),
    "probe": lambda fields: say_warning(fields["warning"]) if fields["warning"] else None,
    **{event: _warning(template) for event, template in JUDGE_WARNINGS.items()},
    "endpoint_up": lambda fields: say(f"{fields['endpoint']} is healthy again"),
    "file": _say_file,
    "requests": _say_requests,
    "replies": _say_replies,
    "batch": lambda fields: say(
        f"batch {fields['batch']}: {fields['status']}, {fields['done']:,} of "
        f"{counted(fields['requests'], 'request')}"
    ),
    "lease_left": _warning(
        "a lease could not be released ({detail}); it stays until it expires. The role needs "
        "s3:DeleteObject for "
        "*.lease-* objects."
    ),
    "nothing_found": _warning("{input}: {detail}"),
    "left_out": _warning(
        "{input}: left out {detail}; of a folder, only .jsonl, .ndjson, .parquet and .eval files "
        "are read. Name a "
        "file to read it."
    ),
    "copy_failing": _warning(
        "cannot copy verdicts to {folder} ({detail}); they stay in the local journal and are "
        "copied when the store "
        "recovers"
    ),
    "record_failed": _warning(
        "records cannot be published ({detail}); they are safe in hidden files, and the "
        "next file is another try"
    ),
    "deadline": _warning(
        "group {group!r} has {came} of {size} members at its deadline, and is scored without the "
        "others. If this happens often: all requests of a group must reach the same server, and a "
        "trainer that loses members needs --cohort-idle"
    ),
    "storage_failed": _warning("a group was refused: {detail}"),
    "collecting": lambda fields: say(
        f"sessions {fields['sessions']:,}/{fields['planned']:,}, {fields['turns']:,} turns, "
        f"{fields['calls']:,} calls"
    ),
    "journal_damaged": _warning(
        "journal {journal}: ignoring {verdicts} damaged verdicts; the judge is asked again"
    ),
    "fleet": lambda fields: say(
        f"asking with {counted(fields['workers'], 'worker')} on {counted(fields['nodes'], 'node')}"
    ),
    "shard_failed": lambda fields: say_warning(
        f"shard {fields['shard']}: {'; '.join(map(text_of, fields['errors']))}"
    ),
    "worker_lost": _warning("the worker of shard {shard} was lost ({detail}); another continues"),
    "tracker_failed": lambda fields: say_warning(
        Message.of(SettingRef(fields["tracker"]), f": not logged: {fields['detail']}")
    ),
    "stopped": lambda fields: say_warning(
        Message.of(
            "stopped by ",
            SettingRef(fields["reason"]),
            ": making no more calls and writing partial results",
        )
    ),
}
