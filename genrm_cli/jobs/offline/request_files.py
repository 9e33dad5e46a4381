"""Requests in the form of OpenAI's batch input, in files of bounded size."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from genrm_cli.judging.offline import CHAT_URL, Wanted
from genrm_cli.storage.local import remove_unfinished
from genrm_cli.storage.location import is_s3, stem_of
from genrm_cli.storage.outputs import Outputs
from genrm_cli.storage.sink import Sink, is_streamed

MOST_BYTES = 190_000_000  # of one file; OpenAI takes 200 MB
ID_PART = 8
"""Bytes that identify a request: ids are hashes."""
_ODD = re.compile("[^A-Za-z0-9._-]+")


class _Writer(Protocol):
    def write(self, data: bytes, /) -> object:
        """Add bytes."""


AnyWriter = TypeVar("AnyWriter", bound=_Writer)


@dataclass(slots=True)
class RequestFile(Generic[AnyWriter]):
    """A file of requests to one model, with the first `ID_PART` bytes of the id of each."""

    model: str
    content: AnyWriter = field(repr=False)
    requests: int = 0
    size_bytes: int = 0
    ids: bytearray = field(default_factory=bytearray, repr=False)


def render_request(wanted: Wanted) -> bytes:
    """Return the line of a request."""
    return b'{"custom_id":"%s","method":"POST","url":"%s","body":%s}\n' % (
        wanted.id.hex().encode(),
        CHAT_URL.encode(),
        wanted.body,
    )


def replies_of(uri: str) -> str:
    """Return where the replies to a file of requests are written."""
    folder, slash, name = uri.rpartition("/")
    if "requests" in name:
        return folder + slash + name.replace("requests", "replies", 1)
    return f"{folder}{slash}replies-{name}"


class RequestFiles(Generic[AnyWriter]):
    """The requests of a run by model, each once, in files of bounded size; none is without a
    request.
    """

    def __init__(self, most: int | None, open_part: Callable[[str, int], AnyWriter]) -> None:
        """Write at most so many requests into a file; open the n-th file of a model, from 1, when
        there is one.
        """
        self._most = most
        self._open_part = open_part
        self._open: dict[str, RequestFile[AnyWriter]] = {}
        self._parts: Counter[str] = Counter()
        self._ids: set[bytes] = set()
        self.files: list[RequestFile[AnyWriter]] = []

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, wanted: Wanted) -> None:
        """Add a request, unless it is there; raise what opening or writing a file raises."""
        if wanted.id in self._ids:
            return
        self._ids.add(wanted.id)
        line = render_request(wanted)
        file = self._open.get(wanted.model)
        is_full = file is not None and self._most is not None
        if file is None or (
            is_full and (file.requests == self._most or file.size_bytes + len(line) > MOST_BYTES)
        ):
            self._parts[wanted.model] += 1
            file = RequestFile(
                wanted.model, self._open_part(wanted.model, self._parts[wanted.model])
            )
            self._open[wanted.model] = file
            self.files.append(file)
        file.content.write(line)
        file.requests += 1
        file.ids += wanted.id[:ID_PART]
        file.size_bytes += len(line)


def part_opener(uri: str, models: Iterable[str], outputs: Outputs) -> Callable[[str, int], Sink]:
    """Return a function that opens the n-th file of a model below a URI.

    A model whose requests need several files has `x.jsonl`, `x.part2.jsonl`, ...; with several
    models, the name of each one is part of the name: `x.judge-1.jsonl`."""
    names = dict(_iter_names(list(dict.fromkeys(models))))
    stem = stem_of(uri)
    latest = dict[str, Sink]()

    def open_part(model: str, part: int) -> Sink:
        """Open a file.

        Raises:
            UsageError: it exists.
            StorageError: it cannot be written.
        """
        place = f"{stem}{names[model]}{f'.part{part}' if part > 1 else ''}{uri.removeprefix(stem)}"
        if not is_s3(place) and not is_streamed(place):
            remove_unfinished([place])
        if model in latest:
            latest[model].finish()  # a full file keeps no buffer, and no threads that upload it
        latest[model] = outputs.open(place)
        return latest[model]

    return open_part


def _iter_names(models: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each model with what tells its files from those of the others."""
    shown = [_ODD.sub("-", model.rstrip("/").rpartition("/")[2]) or "model" for model in models]
    for number, (model, name) in enumerate(zip(models, shown, strict=True), 1):
        more = "" if shown.count(name) == 1 else f"-{number}"
        yield model, "" if len(models) == 1 else f".{name}{more}"
