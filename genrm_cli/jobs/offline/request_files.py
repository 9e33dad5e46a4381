"""Requests in the form of OpenAI's batch input, in files of bounded size."""

import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from genrm_cli.judging.offline import CHAT_URL, Wanted
from genrm_cli.storage.local import remove_unfinished
from genrm_cli.storage.location import S3Options, is_s3, is_stream, stem_of
from genrm_cli.storage.outputs import Outputs
from genrm_cli.storage.sink import Sink, is_streamed

MOST_BYTES = 190_000_000  # of one file; OpenAI takes 200 MB
ID_PART = 8
"""Bytes that identify a request: ids are hashes."""
_ODD = re.compile("[^A-Za-z0-9._-]+")


@dataclass(slots=True)
class RequestFile:
    """A file of requests to one model, with the first `ID_PART` bytes of the id of each."""

    uri: str
    model: str
    sink: Sink = field(repr=False)
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


class RequestFiles(AbstractContextManager["RequestFiles"]):
    """The requests of a run by model, each once; all files appear together, and none without a request.

    A model whose requests need several files has `x.jsonl`, `x.part2.jsonl`, ...; with several models, the name of each
    one is part of the name: `x.judge-1.jsonl`.
    """

    def __init__(self, uri: str, most: int, models: Iterable[str], s3: S3Options, *, overwrite: bool) -> None:
        self._uri = uri
        self._most = None if is_stream(uri) else most
        self._outputs = Outputs(s3, overwrite=overwrite, mode=0o600)  # they hold rollouts, as a journal does
        self._names = dict(_iter_names(list(dict.fromkeys(models))))
        self._open: dict[str, RequestFile] = {}
        self._parts: dict[str, int] = {}
        self._ids: set[bytes] = set()
        self.files: list[RequestFile] = []

    def __exit__(self, *_: object) -> None:
        self._outputs.__exit__()

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, wanted: Wanted) -> None:
        """Add a request, unless it is there.

        Raises:
            UsageError: its file exists.
            StorageError: its file cannot be written.
        """
        if wanted.id in self._ids:
            return
        self._ids.add(wanted.id)
        line = render_request(wanted)
        file = self._open.get(wanted.model)
        is_full = file is not None and self._most is not None
        if file is None or (is_full and (file.requests == self._most or file.size_bytes + len(line) > MOST_BYTES)):
            file = self._open[wanted.model] = self._next_file(wanted.model)
        file.sink.write(line)
        file.requests += 1
        file.ids += wanted.id[:ID_PART]
        file.size_bytes += len(line)

    def _next_file(self, model: str) -> RequestFile:
        if (full := self._open.get(model)) is not None:
            full.sink.finish()
        part = self._parts[model] = self._parts.get(model, 0) + 1
        stem = stem_of(self._uri)
        ending = self._uri.removeprefix(stem)
        uri = f"{stem}{self._names[model]}{f'.part{part}' if part > 1 else ''}{ending}"
        if not is_s3(uri) and not is_streamed(uri):
            remove_unfinished([uri])
        file = RequestFile(uri, model, self._outputs.open(uri))
        self.files.append(file)
        return file

    def commit(self) -> None:
        """Publish all files.

        Raises:
            StorageError: one cannot be written.
        """
        self._outputs.commit()


def _iter_names(models: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each model with what tells its files from those of the others."""
    shown = [_ODD.sub("-", model.rstrip("/").rpartition("/")[2]) or "model" for model in models]
    for number, (model, name) in enumerate(zip(models, shown, strict=True), 1):
        more = "" if shown.count(name) == 1 else f"-{number}"
        yield model, "" if len(models) == 1 else f".{name}{more}"
