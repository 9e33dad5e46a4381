"""The command to paste after a run."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from genrm_cli.cli.console import flag_of
from genrm_cli.scored.account import RunAccount
from genrm_cli.settings.resolve import Origin

if TYPE_CHECKING:
    from genrm_cli.scored.run_record import RunRecord


def next_command(record: "RunRecord", uri: str, given: Sequence[Origin]) -> Iterator[str]:
    """Yield the line of the command that follows a run: the same after one that was stopped, more
    rings where its rewards are mostly noise and rings help, an export where nothing speaks against
    training, otherwise the report. Lines on stdout, or in several files, have no such command.
    """
    if record.output_mark is None:
        return
    account = RunAccount.of(record)
    needed = record.rings_needed
    command = ["genrm", "report", record.output]
    if record.partial:
        command = score_command(uri, given, {})
    elif account.word == "low" and needed is not None and needed.expected is not None:
        command = score_command(uri, given, {needed.setting: needed.expected})
    elif account.train == "yes":
        command = ["genrm", "export", record.output, "--to", "groups", "-o", "groups.jsonl"]
    yield f"next: {shlex.join(command)}"


def score_command(uri: str, given: Sequence[Origin], changes: Mapping[str, object]) -> list[str]:
    """Return the words of `genrm score` with the flags that were given, and what is changed."""
    flags = {each.key: each.value for each in given}
    words = ["genrm", "score", uri]
    for name, value in {**flags, **changes}.items():
        if isinstance(value, bool):
            words.append(flag_of(name) if value else flag_of(name).replace("--", "--no-", 1))
            continue
        values = value if isinstance(value, (list, tuple)) else [value]
        for each in values:
            words += [flag_of(name), f"{each:g}" if isinstance(each, float) else str(each)]
    return words
